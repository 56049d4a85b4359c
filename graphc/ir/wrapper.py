"""Objects around a symbolic array, which stand for it where whole graphs are taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self


class Wrapper:
    """An object around one symbolic array, such as an array whose dimensions have names.

    What takes graphs as they are (``function``, ``grad``, ``scan``, ``eval``) takes it for its
    array, and wraps what is like it in the same way. Functions of arrays refuse it. No graph holds
    it, so nothing of it is in a compiled program.

    Attributes:
        values: The array.
    """

    __slots__ = ()

    values: Any

    @property
    def type(self) -> Any:
        """Its type in messages."""
        return self.values.type

    def alike(self, values: Any) -> Self:
        """Wrap another array of the same axes in the same way."""
        raise NotImplementedError

    def placed(self, sharding: Any) -> Any:
        """Return a sharding that a user gave as one by position."""
        return sharding

    def fitted(self, given: Any) -> Any:
        """Return the array of a value that is to be like this one, its axes in the same order.

        Args:
            given: A wrapper, an array with names of its own, or an array by position.
        """
        return unwrapped(given)

    def element(self, values: Any) -> Any:
        """Wrap what a step of a loop gets of it: an array without the first axis."""
        return self.alike(values)

    def rows(self, values: Any, sequences: Sequence[Wrapper]) -> Any:
        """Wrap a loop's result: an array like this one at every step, along a new first axis.

        Args:
            values: The array.
            sequences: What the loop goes along.
        """
        return self.alike(values)


def unwrapped(x: Any) -> Any:
    """Return the array that a wrapper stands for, and anything else as it is."""
    return x.values if isinstance(x, Wrapper) else x


def unwrapped_all(given: Any) -> Any:
    """Return what is given, one thing or a list or tuple of them, with arrays for wrappers."""
    if isinstance(given, list | tuple):
        return [unwrapped(x) for x in given]
    return unwrapped(given)


def wrapped(like: Any, x: Any) -> Any:
    """Return an array in the wrapper that something like it has, if it has one; None stays None."""
    return like.alike(x) if isinstance(like, Wrapper) and x is not None else x


def unwrapped_pair(old: Any, new: Any) -> tuple[Any, Any]:
    """Return a part of a graph and what replaces it, or is its value, as arrays."""
    return (old.values, old.fitted(new)) if isinstance(old, Wrapper) else (old, new)
