"""Bounds of the elements of an array at indices that lie in an interval: range minimum queries.

A sparse table holds the minima of all ranges of 1, 2, 4, … elements, in O(n log n). The minimum of
any range is the lesser of two entries whose ranges overlap, in O(1). Maxima are computed likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.attention.intervals.interval import (
    Interval,
    bounded_where,
    cast_interval,
    dtype_of,
    is_point,
    library,
    library_of,
    point,
    unknown,
)
from graphc.ir import is_complex


class Fold(NamedTuple):
    """The names of a reduction: as a function of two elements, and as one of an axis."""

    pair: str
    axis: str


MINIMUM, MAXIMUM = Fold("minimum", "min"), Fold("maximum", "max")
ALL, ANY = Fold("logical_and", "all"), Fold("logical_or", "any")


def gather(x: Interval, indices: Sequence[Interval], span: int) -> Interval:
    """Return the interval of ``x[indices]``, with one integer for each axis.

    Args:
        x: The array, ``point(array)`` if its elements are known.
        indices: An interval for each axis, which counts from 0. The result is unbounded where an
            index may be out of range. At most one index may be neither a point nor a range over
            its full axis; with more, the result is unbounded.
        span: The longest range of indices whose elements are bounded exactly. A longer range has
            the bounds of the whole axis.

    Example:
        >>> q = Interval(np.array([0, 2]), np.array([1, 3]))
        >>> low, high = gather(point(np.array([7, 5, 9, 9])), [q], 2)
        >>> low.tolist(), high.tolist()
        ([5, 9], [7, 9])
    """
    dtype, lengths = dtype_of(x.low), library(x.low).shape_of(x.low)
    if is_complex(dtype) or 0 in [n for n in lengths if isinstance(n, int)]:
        return unknown(dtype)
    pairs = enumerate(zip(indices, lengths, strict=True))
    full = tuple([axis for axis, (index, n) in pairs if _covers_axis(index, n)])
    if full:
        rest = [index for axis, index in enumerate(indices) if axis not in full]
        return gather(reduce_axes(x, full), rest, span)
    wide = [axis for axis, index in enumerate(indices) if not is_point(index)]
    if len(wide) > 1:
        return unknown(dtype)
    indices = [_as_signed(index) for index in indices]
    xp = library_of(x, *indices)
    sure, inside = np.True_, []
    for index, n in zip(indices, lengths, strict=True):
        holds, index = _clip(index, n)
        sure = library(sure, holds).logical_and(sure, holds)
        inside.append(index)
    if wide:
        (axis,) = wide
        inside[axis] = indices[axis]
        if _is_short(indices[axis], span):
            low, high = _gather_ranges(x, axis, inside)
        else:
            low, high = _look_up_ranges(x, axis, inside, span)
    else:
        points = tuple([index.low for index in inside])
        low = xp.getitem(x.low, points)
        high = low if is_point(x) else xp.getitem(x.high, points)
    if isinstance(sure, np.ndarray | np.generic) and np.all(sure):
        return Interval(low, high)
    return bounded_where(library(sure, low), sure, low, high)


def _covers_axis(index: Interval, n: Any) -> bool:
    """Return whether the index covers its axis, in each block."""
    is_static = isinstance(n, int) and all(isinstance(x, np.ndarray | np.generic) for x in index)
    if not is_static or is_point(index):
        return False
    return bool(np.all(index.low == 0) and np.all(index.high == n - 1))


def reduce_axes(x: Interval, axes: tuple[int, ...]) -> Interval:
    """Return the least and the greatest element along axes."""
    xp, (least, most) = library(*x), _folds(x)
    return Interval(
        getattr(xp, least.axis)(x.low, axis=axes), getattr(xp, most.axis)(x.high, axis=axes)
    )


def wrap_indices(index: Interval, n: Any) -> Interval:
    """Return indices from 0 on, for indices of which negative ones count from the end.

    Args:
        index: Integers.
        n: The length of the axis, an integer or a symbolic scalar.
    """
    index = _as_signed(index)
    if all(isinstance(end, np.ndarray | np.generic) for end in index) and np.all(index.low >= 0):
        return index
    dtype = dtype_of(index.low)
    xp = library(*index, n)
    n = xp.cast(np.asarray(n) if isinstance(n, int) else n, dtype)
    zero = np.array(0, dtype)
    if is_point(index):
        x = index.low
        return point(xp.where(xp.less(x, zero), xp.add(x, n), x))
    negative = xp.less(index.high, zero)
    low, high = [xp.where(negative, xp.add(x, n), x) for x in index]
    # An interval with indices on both sides of 0 covers the axis, unless one is out of range.
    around = xp.logical_and(xp.less(index.low, zero), xp.logical_not(negative))
    around = xp.logical_and(around, xp.greater_equal(index.low, xp.negative(n)))
    low = xp.where(around, zero, low)
    last = xp.subtract(n, np.array(1, dtype))
    return Interval(low, xp.where(around, xp.maximum(high, last), high))


def _as_signed(index: Interval) -> Interval:
    """Return indices in a dtype that holds every length."""
    return index if dtype_of(index.low) in {"int32", "int64"} else cast_interval(index, "int32")


def _clip(index: Interval, n: Any) -> tuple[Any, Interval]:
    """Return whether indices are in range, and the indices clipped to the range."""
    xp, dtype = library(*index, n), dtype_of(index.low)
    n = xp.cast(np.asarray(n) if isinstance(n, int) else n, dtype)
    zero, last = np.array(0, dtype), xp.subtract(n, np.array(1, dtype))
    holds = xp.logical_and(xp.greater_equal(index.low, zero), xp.less_equal(index.high, last))
    ends = [xp.minimum(xp.maximum(x, zero), last) for x in index[: 2 - is_point(index)]]
    return holds, Interval(ends[0], ends[-1])


MAX_ELEMENTS = 2**18
"""The largest number of elements that are gathered range by range, in a single operation."""


def _is_short(index: Interval, span: int) -> bool:
    """Return whether ranges are known, and so short that all of their elements may be gathered."""
    if not all(isinstance(end, np.ndarray | np.generic) for end in index):
        return False
    return _width(index) <= span and np.broadcast(*index).size * _width(index) <= MAX_ELEMENTS


def _width(index: Interval) -> int:
    """Return the length of the longest of known ranges."""
    return int(np.max(index.high - index.low, initial=0)) + 1


def _folds(x: Interval) -> tuple[Fold, Fold]:
    return (ALL, ANY) if dtype_of(x.low) == "bool" else (MINIMUM, MAXIMUM)


def _gather_ranges(x: Interval, axis: int, indices: Sequence[Interval]) -> Interval:
    """Return the least and the greatest of all elements of ranges along an axis."""
    index = indices[axis]
    steps = np.arange(_width(index), dtype=dtype_of(index.low))
    positions = np.minimum(index.low[..., None] + steps, index.high[..., None])
    n = library(x.low).shape_of(x.low)[axis]
    _, (positions, _) = _clip(point(positions), n)
    at = tuple([positions if i == axis else x.low[..., None] for i, x in enumerate(indices)])
    xp = library(x.low, *at)
    ends = [xp.getitem(end, at) for end in x[: 2 - is_point(x)]]
    least, most = _folds(x)
    return Interval(
        getattr(xp, least.axis)(ends[0], axis=-1), getattr(xp, most.axis)(ends[-1], axis=-1)
    )


def _look_up_ranges(x: Interval, axis: int, indices: Sequence[Interval], span: int) -> Interval:
    """Return the least and the greatest element of ranges along an axis, at points of others."""
    points = tuple([index.low for i, index in enumerate(indices) if i != axis])
    _, index = _clip(indices[axis], library(x.low).shape_of(x.low)[axis])
    least, most = _folds(x)
    low = _query_table(x.low, axis, index, points, span, least)
    return Interval(low, _query_table(x.high, axis, index, points, span, most))


def _query_table(
    x: Any, axis: int, index: Interval, points: tuple[Any, ...], span: int, fold: Fold
) -> Any:
    xp = library(x)
    rows = xp.moveaxis(x, axis, 0)
    n = xp.shape_of(rows)[0]
    longest = min(n, span) if isinstance(n, int) else span
    tables = [rows]
    while 2 ** len(tables) <= longest:
        tables.append(_next_level(tables[-1], 2 ** (len(tables) - 1), fold))
    level, start, end = _covering_ranges(index, len(tables))
    table = xp.stack(tables)
    xp = library(table, level, start, *points)
    exact = getattr(xp, fold.pair)(
        xp.getitem(table, (level, start, *points)), xp.getitem(table, (level, end, *points))
    )
    if isinstance(n, int) and n < 2 ** len(tables):
        return exact
    of_axis = getattr(xp, fold.axis)(rows, axis=0)
    of_axis = xp.getitem(of_axis, points) if points else of_axis
    width = xp.subtract(index.high, index.low)
    short = xp.less(width, np.array(2 ** len(tables), dtype_of(index.low)))
    return xp.where(short, exact, of_axis)


def _next_level(x: Any, step: int, fold: Fold) -> Any:
    """Return the reductions of ranges twice as long as ``step``, cut off at the end."""
    xp = library(x)
    doubled = getattr(xp, fold.pair)(x[:-step], x[step:])
    return xp.concatenate([doubled, x[-step:]], axis=0)


def _covering_ranges(index: Interval, count: int) -> tuple[Any, Any, Any]:
    """Return the level of the table for each range, and the starts of its two covering ranges."""
    xp, dtype = library_of(index), dtype_of(index.low)
    width = xp.add(xp.subtract(index.high, index.low), np.array(1, dtype))
    level = xp.cast(np.zeros((), np.int32), dtype)
    size = np.array(1, dtype)
    for i in range(1, count):
        fits = xp.greater_equal(width, np.array(2**i, dtype))
        level = xp.add(level, xp.cast(fits, dtype))
        size = xp.where(fits, np.array(2**i, dtype), size)
    return level, index.low, xp.add(xp.subtract(index.high, size), np.array(1, dtype))
