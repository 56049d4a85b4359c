"""Handlers that pass implicit fields of their operands to functions of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray, is_implicit
from graphc.implicit.functions import implicit


def retry_with_traced_fields(
    handler: Callable[..., Any], operands: Sequence[Any], error: TypeError
) -> Any:
    """Call a handler again, with the implicit fields of its operands as arrays that JAX traces.

    A handler gets operands as objects, whose fields may be implicit too. A function of JAX does not
    take implicit fields; if the fields are traced, its primitives are dispatched to their handlers.

    Args:
        handler: A function of operands.
        operands: Arrays, some implicit.
        error: The error that the handler raised for the operands.

    Raises:
        TypeError: If no field is implicit, or the handler fails again: ``error``.
        ImplicitArrayError: If the handler raises one when it is called again, for example because
            the policy forbids to densify an array.
    """
    fields, treedefs = zip(*map(_flatten_once, operands), strict=True)
    if not any(map(is_implicit, [x for leaves in fields for x in leaves])):
        raise error

    def run(*fields: Any) -> Any:
        return handler(*map(jax.tree.unflatten, treedefs, fields))

    try:
        return implicit(run)(*fields)
    except ImplicitArrayError:
        raise
    except Exception:  # the handler needs the objects: the first error says what is wrong
        raise error from None


def _flatten_once(x: Any) -> tuple[list[Any], Any]:
    """Flatten an operand to its fields, which may be implicit."""
    if not isinstance(x, ImplicitArray):
        return [x], jax.tree.structure(0)
    leaves, treedef = jax.tree.flatten(x, is_leaf=lambda leaf: leaf is not x and is_implicit(leaf))
    return leaves, treedef
