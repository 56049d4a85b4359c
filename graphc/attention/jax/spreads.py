"""Intervals of arrays: what is known of each element, or of all elements together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from graphc.attention.intervals.interval import Interval, chosen, point, unknown
from graphc.implicit.level import numpy_like

__all__ = [
    "MOST",
    "Spread",
    "combined",
    "hull",
    "is_bounded",
    "of_array",
    "single",
]

MOST = 16
"""Elements of an array that are told apart; those of a larger one share one interval."""


class Spread(NamedTuple):
    """The intervals of an array's elements.

    Attributes:
        parts: Intervals.
        places: For each element the number of its interval; of the array's shape.
    """

    parts: tuple[Interval, ...]
    places: np.ndarray[Any, Any]


def is_bounded(dtype: Any) -> bool:
    """Whether there are intervals of a dtype: no random keys, complex or very narrow numbers."""
    return dtype in BOUNDED


BOUNDED = frozenset(
    map(np.dtype, ("bool", "int8", "int16", "int32", "int64", "float32", "float64"))
) | frozenset(map(np.dtype, ("uint8", "uint16", "uint32", "uint64")))


def single(part: Interval, shape: Sequence[int] = ()) -> Spread:
    """An array whose elements have one interval."""
    return Spread((part,), np.broadcast_to(FIRST, shape) if shape else FIRST)


FIRST = np.zeros((), np.intp)


def of_array(x: Any, dtype: Any) -> Spread:
    """The elements of an array that is known, or their range where they are many.

    Args:
        x: An array of any library, or a number.
        dtype: The dtype it has in the program.
    """
    if not hasattr(x, "dtype") or isinstance(x, np.generic):
        x = np.asarray(x, dtype)
    if not x.shape:
        return single(point(x))
    if x.size > MOST:
        return single(span(x), x.shape)
    flat = x.reshape(-1)
    return Spread(
        tuple([point(flat[i]) for i in range(x.size)]), np.arange(x.size).reshape(x.shape)
    )


def span(x: Any) -> Interval:
    """The least and the greatest element of an array that is known; NaN if one is."""
    level = numpy_like(x)
    return Interval(level.min(x), level.max(x))


def hull(x: Spread) -> Interval:
    """What holds of every element."""
    if not x.parts:
        return unknown("bool")
    return reduce(_either, x.parts)


def _either(a: Interval, b: Interval) -> Interval:
    return chosen(unknown("bool"), a, b)


def combined(rule: Callable[..., Interval], shape: Sequence[int], *operands: Spread) -> Spread:
    """A function of elements, as many at a time as there are operands.

    Args:
        rule: Of an interval of each operand.
        shape: That of the result, to which the operands broadcast.
        operands: Their elements.
    """
    counts = [len(x.parts) for x in operands]
    if all(n == 1 for n in counts):
        return single(rule(*[x.parts[0] for x in operands]), shape)
    places = np.broadcast_arrays(*[x.places for x in operands])
    codes = np.ravel_multi_index(places, counts) if places[0].size else np.zeros(shape, np.intp)
    found, numbers = np.unique(codes, return_inverse=True)
    if found.size > MOST:
        return single(rule(*map(hull, operands)), shape)
    parts = [
        rule(*[x.parts[i] for x, i in zip(operands, each, strict=True)])
        for each in zip(*np.unravel_index(found, counts), strict=True)
    ]
    return Spread(tuple(parts), np.broadcast_to(numbers.reshape(places[0].shape), shape))
