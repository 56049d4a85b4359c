"""Intervals of arrays: the axes of an array follow the axes of the blocks.

Both ends have the axes of the blocks, ``rank`` of them, and then the array's axes, of the array's
length or of length 1: one interval may bound all elements along an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from graphc.attention.intervals.interval import (
    Interval,
    dtype_of,
    elementwise_interval,
    is_point,
    library,
    library_of,
    point,
)
from graphc.attention.intervals.ranges import gather, reduce_axes

MAX_SIZE = 2**20
"""The most elements of an array of ends; larger arrays have one interval for all elements."""

MAX_TERMS = 16
"""The most terms that are added one by one."""

Shape = tuple[int, ...]


def array_point(x: Any, rank: int) -> Interval | None:
    """Return an array that is equal in all blocks; None if a length is unknown."""
    shape = library(x).shape_of(x)
    if not shape:
        return point(x)
    if not all(isinstance(n, int) for n in shape):
        return None
    return point(library(x).reshape(x, (*[1] * rank, *shape)))


def align(x: Interval, rank: int, before: int, after: int = 0) -> Interval:
    """Return an interval with axes of length 1 before and after the array's axes.

    Args:
        x: The interval of an array, or of a scalar, which may lack axes of the blocks.
        rank: The number of axes of the blocks.
        before: The number of new axes before the array's.
        after: The number of new axes after the array's.
    """
    if not before and not after:
        return x

    def shape(old: Shape) -> Shape:
        first = (*[1] * (rank - len(old)), *old[:rank])
        return (*first, *[1] * before, *old[rank:], *[1] * after)

    return reshape(x, shape)


def reshape(x: Interval, shape: Callable[[Shape], Shape]) -> Interval:
    """Return an interval whose ends have another shape, a function of their shape."""
    return map_ends(x, lambda xp, end: xp.reshape(end, shape(xp.shape_of(end))))


def map_ends(x: Interval, function: Callable[[Any, Any], Any]) -> Interval:
    """Return the interval of a function of the library and an end."""
    low = function(library(x.low), x.low)
    return point(low) if is_point(x) else Interval(low, function(library(x.high), x.high))


def shape_of(x: Interval) -> Shape:
    """Return the shape of the ends."""
    shape: Shape = library(x.low).shape_of(x.low)
    return shape


def with_equal_shapes(x: Interval) -> Interval:
    """Return an interval whose ends have one shape."""
    shapes = [library(end).shape_of(end) for end in x]
    if shapes[0] == shapes[1]:
        return x
    return broadcast(x, np.broadcast_shapes(*shapes))


def broadcast(x: Interval, shape: Shape) -> Interval:
    """Return an interval whose ends are broadcast to a shape."""
    return map_ends(x, lambda xp, end: xp.broadcast_to(end, shape))


def hull(x: Interval, axes: Sequence[int]) -> Interval:
    """Return one interval for all elements along axes of the ends, of which length 1 is left."""
    shape = shape_of(x)
    long = tuple([axis for axis in axes if shape[axis] != 1])
    if not long:
        return x
    lengths = tuple([1 if axis in long else n for axis, n in enumerate(shape)])
    return reshape(reduce_axes(x, long), lambda _: lengths)


def limit_size(operands: Sequence[Interval], rank: int) -> Sequence[Interval]:
    """Return operands whose elementwise function has few elements, by common bounds if need be."""
    shapes = [library(end).shape_of(end) for x in operands for end in x]
    if prod(np.broadcast_shapes(*shapes)) <= MAX_SIZE:
        return operands
    return [hull(x, range(rank, len(shape_of(x)))) for x in operands]


def concatenate(xs: Sequence[Interval], shapes: Sequence[Shape], rank: int, axis: int) -> Interval:
    """Return the interval of arrays of these shapes, concatenated along an axis."""
    blocks = np.broadcast_shapes(*[shape_of(x)[:rank] for x in xs])
    full = [broadcast(x, (*blocks, *shape)) for x, shape in zip(xs, shapes, strict=True)]
    xp = library_of(*full)
    low, high = [xp.concatenate(ends, axis=rank + axis) for ends in zip(*full, strict=True)]
    return point(low) if all(map(is_point, full)) else Interval(low, high)


def fold(name: str, x: Interval, axes: Sequence[int]) -> Interval:
    """Return the interval of a reduction that equal elements do not change, along axes."""
    return map_ends(x, lambda xp, end: getattr(xp, name)(end, axis=tuple(axes)))


def add_up(x: Interval, axes: Sequence[int], lengths: Sequence[int]) -> Interval | None:
    """Return the interval of the sum of integers along axes of these lengths."""
    dtype = dtype_of(x.low)
    for axis, n in reversed([*zip(axes, lengths, strict=True)]):
        if n > MAX_TERMS:
            x = hull(x, [axis])
        terms = [_element(x, axis, i) for i in range(shape_of(x)[axis])]
        if not terms or n > np.iinfo(dtype).max:
            return None
        if len(terms) < n:
            terms = [elementwise_interval("multiply", terms[0], point(np.array(n, dtype)))]
        y = terms[0]
        for term in terms[1:]:
            y = None if y is None else elementwise_interval("add", y, term)
        if y is None:
            return None
        x = with_equal_shapes(y)
    return x


def _element(x: Interval, axis: int, i: int) -> Any:
    return map_ends(x, lambda _, end: end[(slice(None),) * axis + (i,)])


Axis = Interval | slice
"""The indices of an axis, aligned with the result's axes; or the part that the result keeps."""


def take(x: Interval, lengths: Shape, axes: Sequence[tuple[Axis, int]], size: Sequence[int]) -> Any:
    """Return the interval of an array indexed along each of its axes.

    Args:
        x: The interval of the array.
        lengths: The array's shape.
        axes: For each axis its indices, which count from 0, and for a part that is kept the
            position of its axis in the result.
        size: The numbers of axes of the blocks and of the result, and the longest range of the
            array whose elements are bounded exactly.
    """
    rank, ndim, span = size
    blocks = shape_of(x)[:rank]
    x = broadcast(x, (*blocks, *lengths))
    x = reshape(x, lambda shape: (*[n for n in blocks if n != 1], *shape[rank:]))
    own = [_positions(range(n), ndim + rank - 1 - i) for i, n in enumerate(blocks) if n != 1]
    indices = [*own, *[_indices(axis, n, ndim) for axis, n in zip(axes, lengths, strict=True)]]
    shapes = [library(end).shape_of(end) for index in indices for end in index]
    if prod(np.broadcast_shapes(*shapes)) > MAX_SIZE:
        pairs = zip(axes, lengths, strict=True)
        indices = [*own, *[_common_indices(axis, n, ndim) for axis, n in pairs]]
    y = gather(x, indices, span)

    def full_rank(shape: Shape) -> Shape:
        return (*[1] * (rank + ndim - len(shape)), *shape)

    return with_equal_shapes(reshape(y, full_rank) if ndim else y)


def _indices(axis: tuple[Axis, int], n: int, ndim: int) -> Interval:
    index, position = axis
    if not isinstance(index, slice):
        return index
    return _positions(range(n)[index], ndim - 1 - position)


def _positions(values: Sequence[int], after: int) -> Interval:
    """Return indices along one axis, before other axes."""
    return point(np.array(values, np.int64).reshape(-1, *[1] * after))


def _common_indices(axis: tuple[Axis, int], n: int, ndim: int) -> Interval:
    """Return indices with one range for all elements that a result keeps."""
    index = _indices(axis, n, ndim)
    if not isinstance(axis[0], slice):
        return index
    return Interval(*[np.full((1,) * ndim, f(index.low)) for f in (np.min, np.max)])
