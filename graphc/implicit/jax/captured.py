"""JAX's functions that capture implicit arrays, from closures, ``self`` or globals.

Operators of these work in a function that JAX traces, and so do their fields. JAX's functions take
no object of another class, though: where one refuses, the captured arrays become arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from graphc.capture import Stripped, lift, rebuild
from graphc.errors import ArgumentError
from graphc.implicit.array import is_implicit
from graphc.implicit.jax.trace import called

__all__ = ["call"]


class Holder:
    """A function whose captured arrays are its first argument.

    Args:
        stripped: The function without them.
    """

    def __init__(self, stripped: Stripped) -> None:
        self.stripped = stripped

    def __call__(self, captured: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        return rebuild(self.stripped, captured)(*args, **kwargs)


_holders: WeakKeyDictionary[Any, Holder] = WeakKeyDictionary()


def call(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The function's results, nested as they are; arrays among them may be implicit."""
    if _holder(function) is not None:
        return _with_captured(function, args, kwargs)
    try:
        return called(function, args, kwargs)
    except TypeError as error:
        names = _captured(function)
        if not names:
            raise
        try:
            return _with_captured(function, args, kwargs)
        except TypeError:
            error.add_note(f"It captures implicit arrays, {', '.join(names)}: make them arguments.")
            raise error from None


def _holder(function: Callable[..., Any]) -> Holder | None:
    try:
        return _holders.get(function)
    except TypeError:  # it has no hash, or takes no weak references
        return None


def _captured(function: Callable[..., Any]) -> list[str]:
    """What the implicit arrays that it captures are called."""
    try:
        stripped, leaves = lift(function, is_implicit)
    except ArgumentError:
        return []
    return [name for name, x in zip(stripped.names, leaves, strict=True) if is_implicit(x)]


def _with_captured(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    stripped, leaves = lift(function, is_implicit)
    holder = _holder(function)
    if holder is None or holder.stripped != stripped:
        holder = Holder(stripped)
    result = called(holder, (leaves, *args), kwargs)
    with suppress(TypeError):  # as above
        _holders[function] = holder
    return result
