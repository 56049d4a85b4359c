"""Handlers that give implicit fields of their operands to functions of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray, is_implicit
from graphc.implicit.functions import implicit


def dispatched_again(handler: Callable[..., Any], operands: Sequence[Any], error: TypeError) -> Any:
    """Call a handler again, with the implicit fields of its operands as arrays that JAX traces.

    A handler gets operands as objects, whose fields may be implicit in their turn. A function of
    JAX does not take these; where it gets them traced, its primitives go to their handlers.

    Args:
        handler: A function of operands.
        operands: Arrays, some implicit.
        error: What it raised for them.

    Raises:
        TypeError: That, if nothing is nested or the handler fails again.
        ImplicitArrayError: Why the handler failed again: what the policy forbids, for example.
    """
    parts, treedefs = zip(*map(_flat, operands), strict=True)
    if not any(map(is_implicit, [x for leaves in parts for x in leaves])):
        raise error

    def run(*parts: Any) -> Any:
        return handler(*map(jax.tree.unflatten, treedefs, parts))

    try:
        return implicit(run)(*parts)
    except ImplicitArrayError:
        raise
    except Exception:  # the handler needs the objects: the first error says what is wrong
        raise error from None


def _flat(x: Any) -> tuple[list[Any], Any]:
    """Flatten an operand to its fields, whose own fields are not seen."""
    if not isinstance(x, ImplicitArray):
        return [x], jax.tree.structure(0)
    leaves, treedef = jax.tree.flatten(x, is_leaf=lambda part: part is not x and is_implicit(part))
    return leaves, treedef
