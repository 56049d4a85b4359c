"""Elements of an array at indices that lie in an interval: the least and the most of a range.

The least elements of all ranges of 1, 2, 4, … elements are computed once (a sparse table), and
those of any range are the lesser of two of these that overlap: O(n log n) and nothing per range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.attention.intervals.interval import (
    Interval,
    bounded_where,
    casted,
    dtype_of,
    is_point,
    library,
    library_of,
    point,
    unknown,
)
from graphc.ir import is_complex


class Fold(NamedTuple):
    """A reduction, as a function of two elements and as one of an axis."""

    pair: str
    axis: str


LEAST, MOST = Fold("minimum", "min"), Fold("maximum", "max")
EVERY, SOME = Fold("logical_and", "all"), Fold("logical_or", "any")


def gathered(x: Interval, indices: Sequence[Interval], span: int) -> Interval:
    """The interval of ``x[indices]``, of one integer for each axis.

    Args:
        x: The array, ``point(array)`` where its elements are known.
        indices: For each axis, from 0 on and below its length; nothing is known of elements at
            indices that may be others. Of those that are not all of an axis, at most one may be
            other than a point, or nothing is known at all.
        span: The longest range of indices that is looked up as such. A longer one has the bounds
            of the whole axis.

    Example:
        >>> q = Interval(np.array([0, 2]), np.array([1, 3]))
        >>> low, high = gathered(point(np.array([7, 5, 9, 9])), [q], 2)
        >>> low.tolist(), high.tolist()
        ([5, 9], [7, 9])
    """
    dtype, lengths = dtype_of(x.low), library(x.low).shape_of(x.low)
    if is_complex(dtype) or 0 in [n for n in lengths if isinstance(n, int)]:
        return unknown(dtype)
    whole = tuple(
        [
            i
            for i, (index, n) in enumerate(zip(indices, lengths, strict=True))
            if _is_whole(index, n)
        ]
    )
    if whole:
        rest = [index for axis, index in enumerate(indices) if axis not in whole]
        return gathered(_reduced(x, whole), rest, span)
    wide = [axis for axis, index in enumerate(indices) if not is_point(index)]
    if len(wide) > 1:
        return unknown(dtype)
    indices = [_signed(index) for index in indices]
    xp = library_of(x, *indices)
    sure, inside = np.True_, []
    for index, n in zip(indices, lengths, strict=True):
        holds, index = _inside(index, n)
        sure = library(sure, holds).logical_and(sure, holds)
        inside.append(index)
    if wide:
        (axis,) = wide
        found = [*inside[:axis], indices[axis], *inside[axis + 1 :]]
        if _is_short(indices[axis], span):
            low, high = _read(x, axis, found)
        else:
            low, high = _looked_up(x, axis, found, span)
    else:
        places = tuple([index.low for index in inside])
        low = xp.getitem(x.low, places)
        high = low if is_point(x) else xp.getitem(x.high, places)
    if isinstance(sure, np.ndarray | np.generic) and np.all(sure):
        return Interval(low, high)
    return bounded_where(library(sure, low), sure, low, high)


def _is_whole(index: Interval, n: Any) -> bool:
    """Whether indices may be all those of an axis, in each block."""
    known = isinstance(n, int) and all(isinstance(x, np.ndarray | np.generic) for x in index)
    if not known or is_point(index):
        return False
    return bool(np.all(index.low == 0) and np.all(index.high == n - 1))


def _reduced(x: Interval, axes: tuple[int, ...]) -> Interval:
    """The least and the most element along axes."""
    xp, (least, most) = library(*x), _folds(x)
    return Interval(
        getattr(xp, least.axis)(x.low, axis=axes), getattr(xp, most.axis)(x.high, axis=axes)
    )


def wrapped(index: Interval, n: Any) -> Interval:
    """Indices of which negative ones count from the end, as indices from 0 on.

    Args:
        index: Integers.
        n: The length of the axis, an integer or a symbolic scalar.
    """
    index = _signed(index)
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
    # Indices on both sides of 0 are any, if those below it are of elements.
    around = xp.logical_and(xp.less(index.low, zero), xp.logical_not(negative))
    around = xp.logical_and(around, xp.greater_equal(index.low, xp.negative(n)))
    low = xp.where(around, zero, low)
    last = xp.subtract(n, np.array(1, dtype))
    return Interval(low, xp.where(around, xp.maximum(high, last), high))


def _signed(index: Interval) -> Interval:
    """Indices in a dtype that holds every length."""
    return index if dtype_of(index.low) in {"int32", "int64"} else casted(index, "int32")


def _inside(index: Interval, n: Any) -> tuple[Any, Interval]:
    """Where indices are those of elements, and they, moved to elements elsewhere."""
    xp, dtype = library(*index, n), dtype_of(index.low)
    n = xp.cast(np.asarray(n) if isinstance(n, int) else n, dtype)
    zero, last = np.array(0, dtype), xp.subtract(n, np.array(1, dtype))
    holds = xp.logical_and(xp.greater_equal(index.low, zero), xp.less_equal(index.high, last))
    ends = [xp.minimum(xp.maximum(x, zero), last) for x in index[: 2 - is_point(index)]]
    return holds, Interval(ends[0], ends[-1])


LIMIT = 2**18
"""Up to so many elements are read range by range, which is a single operation."""


def _is_short(index: Interval, span: int) -> bool:
    """Whether ranges are known, and so short that all of their elements may be read."""
    if not all(isinstance(end, np.ndarray | np.generic) for end in index):
        return False
    return _width(index) <= span and np.broadcast(*index).size * _width(index) <= LIMIT


def _width(index: Interval) -> int:
    """How long the longest of known ranges is."""
    return int(np.max(index.high - index.low, initial=0)) + 1


def _folds(x: Interval) -> tuple[Fold, Fold]:
    return (EVERY, SOME) if dtype_of(x.low) == "bool" else (LEAST, MOST)


def _read(x: Interval, axis: int, indices: Sequence[Interval]) -> Interval:
    """The least and the most of all elements of ranges along an axis."""
    index = indices[axis]
    steps = np.arange(_width(index), dtype=dtype_of(index.low))
    places = np.minimum(index.low[..., None] + steps, index.high[..., None])
    n = library(x.low).shape_of(x.low)[axis]
    _, (places, _) = _inside(point(places), n)
    at = tuple([places if i == axis else x.low[..., None] for i, x in enumerate(indices)])
    xp = library(x.low, *at)
    ends = [xp.getitem(end, at) for end in x[: 2 - is_point(x)]]
    least, most = _folds(x)
    return Interval(
        getattr(xp, least.axis)(ends[0], axis=-1), getattr(xp, most.axis)(ends[-1], axis=-1)
    )


def _looked_up(x: Interval, axis: int, indices: Sequence[Interval], span: int) -> Interval:
    """The least and the most element of ranges along an axis, at points of the others."""
    places = tuple([index.low for i, index in enumerate(indices) if i != axis])
    _, index = _inside(indices[axis], library(x.low).shape_of(x.low)[axis])
    least, most = _folds(x)
    low = _over_ranges(x.low, axis, index, places, span, least)
    return Interval(low, _over_ranges(x.high, axis, index, places, span, most))


def _over_ranges(
    x: Any, axis: int, index: Interval, places: tuple[Any, ...], span: int, fold: Fold
) -> Any:
    xp = library(x)
    rows = xp.moveaxis(x, axis, 0)
    n = xp.shape_of(rows)[0]
    longest = min(n, span) if isinstance(n, int) else span
    tables = [rows]
    while 2 ** len(tables) <= longest:
        tables.append(_doubled(tables[-1], 2 ** (len(tables) - 1), fold))
    which, start, end = _covering(index, len(tables))
    table = xp.stack(tables)
    xp = library(table, which, start, *places)
    found = getattr(xp, fold.pair)(
        xp.getitem(table, (which, start, *places)), xp.getitem(table, (which, end, *places))
    )
    if isinstance(n, int) and n < 2 ** len(tables):
        return found
    whole = getattr(xp, fold.axis)(rows, axis=0)
    whole = xp.getitem(whole, places) if places else whole
    width = xp.subtract(index.high, index.low)
    short = xp.less(width, np.array(2 ** len(tables), dtype_of(index.low)))
    return xp.where(short, found, whole)


def _doubled(x: Any, step: int, fold: Fold) -> Any:
    """The reductions of ranges twice as long as ``step``; at the end they are cut off."""
    xp = library(x)
    both = getattr(xp, fold.pair)(x[:-step], x[step:])
    return xp.concatenate([both, x[-step:]], axis=0)


def _covering(index: Interval, count: int) -> tuple[Any, Any, Any]:
    """Which table has ranges at least half as long, and where the first and the last start."""
    xp, dtype = library_of(index), dtype_of(index.low)
    width = xp.add(xp.subtract(index.high, index.low), np.array(1, dtype))
    which = xp.cast(np.zeros((), np.int32), dtype)
    size = np.array(1, dtype)
    for i in range(1, count):
        fits = xp.greater_equal(width, np.array(2**i, dtype))
        which = xp.add(which, xp.cast(fits, dtype))
        size = xp.where(fits, np.array(2**i, dtype), size)
    return which, index.low, xp.add(xp.subtract(index.high, size), np.array(1, dtype))
