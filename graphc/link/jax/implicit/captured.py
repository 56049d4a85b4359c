"""JAX functions that capture implicit arrays, from closures, ``self`` or globals.

Operators of these work in a function that JAX traces, and so do their fields. JAX's functions take
no object of another class, though, or make it whole: there the captured arrays become arguments. So
they do beside implicit arguments, with which operators are handled when the trace is run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import jax

from graphc.capture import Stripped, lift, rebuild
from graphc.errors import ArgumentError
from graphc.implicit.array import is_complete, is_implicit
from graphc.implicit.policy import ConversionError, arguments_only
from graphc.link.jax.implicit.modules import modules_in, with_modules
from graphc.link.jax.implicit.trace import called


class LiftedFunction:
    """A function whose captured arrays are its first argument.

    Args:
        stripped: The function without them.
    """

    def __init__(self, stripped: Stripped) -> None:
        self.stripped = stripped

    def __call__(self, captured: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        return rebuild(self.stripped, captured)(*args, **kwargs)


_lifted: WeakKeyDictionary[Any, LiftedFunction] = WeakKeyDictionary()


def call(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function; its results are nested as it returns them, and may be implicit."""
    if modules := modules_in(function, args, kwargs):
        return with_modules(modules, function, args, kwargs)
    names = _captured(function) if _has_implicit((args, kwargs)) else []
    if names or _lifted_of(function) is not None:
        # What handlers make of two implicit arrays is known where both are arguments.
        with suppress(TypeError, AttributeError):
            return _with_captured(function, args, kwargs)
    try:
        with arguments_only():
            return called(function, args, kwargs)
    except TypeError as error:
        return _called_otherwise(function, args, kwargs, error)


def _called_otherwise(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], error: TypeError
) -> Any:
    """Call a function with its captured arrays as arguments, or let JAX make these whole."""
    names = _captured(function)
    if names:
        with suppress(TypeError, AttributeError):
            return _with_captured(function, args, kwargs)
    if isinstance(error, ConversionError):
        return called(function, args, kwargs)
    if names:
        error.add_note(f"It captures implicit arrays, {', '.join(names)}: make them arguments.")
    raise error


def _has_implicit(tree: Any) -> bool:
    return any(map(is_implicit, jax.tree.leaves(tree, is_leaf=is_complete)))


def _lifted_of(function: Callable[..., Any]) -> LiftedFunction | None:
    try:
        return _lifted.get(function)
    except TypeError:  # it has no hash, or takes no weak references
        return None


def _captured(function: Callable[..., Any]) -> list[str]:
    """Return the names of the implicit arrays that a function captures."""
    try:
        stripped, leaves = lift(function, is_implicit)
    except ArgumentError:
        return []
    return [name for name, x in zip(stripped.names, leaves, strict=True) if is_implicit(x)]


def _with_captured(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    stripped, leaves = lift(function, is_implicit)
    lifted = _lifted_of(function)
    if lifted is None or lifted.stripped != stripped:
        lifted = LiftedFunction(stripped)
    result = called(lifted, (leaves, *args), kwargs)
    with suppress(TypeError):  # as above
        _lifted[function] = lifted
    return result
