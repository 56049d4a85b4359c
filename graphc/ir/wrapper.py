"""Objects around a symbolic array, which replace it in functions of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self


class Wrapper:
    """An object around one symbolic array, such as an array whose dimensions have names.

    Functions of graphs (``function``, ``grad``, ``scan``, ``eval``) unwrap the array, and wrap
    results of the same axes in the same way. Functions of arrays refuse a wrapper. No graph and no
    compiled program holds one.

    Attributes:
        values: The array.
    """

    __slots__ = ()

    values: Any

    @property
    def type(self) -> Any:
        """The array's type in messages."""
        return self.values.type

    def alike(self, values: Any) -> Self:
        """Wrap another array of the same axes in the same way."""
        raise NotImplementedError

    def positional(self, sharding: Any) -> Any:
        """Return a user's sharding with entries by position."""
        return sharding

    def order_axes(self, given: Any) -> Any:
        """Return the array of a value whose axes correspond to this wrapper's, in this order.

        Args:
            given: A wrapper, an array with named axes, or an array by position.
        """
        return unwrap(given)

    def element(self, values: Any) -> Any:
        """Wrap an element of the array in a step of a loop, which lacks the first axis."""
        return self.alike(values)

    def rows(self, values: Any, sequences: Sequence[Wrapper]) -> Any:
        """Wrap a loop's result: arrays like this one, stacked along a new first axis.

        Args:
            values: The array.
            sequences: The sequences of the loop.
        """
        return self.alike(values)


def unwrap(x: Any) -> Any:
    """Return the array of a wrapper, or any other object itself."""
    return x.values if isinstance(x, Wrapper) else x


def unwrap_all(given: Any) -> Any:
    """Return an object, or a list or tuple of objects, with arrays instead of wrappers."""
    if isinstance(given, list | tuple):
        return [unwrap(x) for x in given]
    return unwrap(given)


def wrap_like(like: Any, x: Any) -> Any:
    """Return an array in the wrapper class of ``like``, if ``like`` is a wrapper; None for None."""
    return like.alike(x) if isinstance(like, Wrapper) and x is not None else x


def unwrap_pair(old: Any, new: Any) -> tuple[Any, Any]:
    """Return a part of a graph and its replacement or value, as arrays."""
    return (old.values, old.order_axes(new)) if isinstance(old, Wrapper) else (old, new)
