"""Reductions: sums, extremes and their places, truths."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.ir import numpy_dtype
from graphc.link.mlx.arrays import are_open, from_numpy, name_of, saves_any_length
from graphc.link.mlx.backend import backend
from graphc.tensor.arrays.reduce import (
    All,
    Any_,
    ArgExtreme,
    ArgMax,
    Extreme,
    LogSumExp,
    Max,
    MaxWithDefault,
    Prod,
    Reduction,
    Sum,
    dtype_range,
)
from graphc.tensor.core.axes import slice_at_axis


def in_wide_floats(x: Any) -> Any:
    """Half-width floats as float32, others as they are."""
    return x.astype(mx.float32) if x.dtype in {mx.float16, mx.bfloat16} else x


def neutral(op: Reduction, dtype: np.dtype[Any]) -> Any:
    """The result of a reduction over no elements."""
    match op:
        case Sum() | Any_():
            return 0
        case Prod() | All():
            return 1
    lowest, highest = dtype_range(dtype)
    return lowest if isinstance(op, Max) else highest


def of_elements(op: Reduction, reduce: Callable[..., Any], x: Any) -> Any:
    """The reduction by a function of MLX, which may run without end where there is no element."""
    if x.size:
        ones = [axis for axis in op.axes if x.shape[axis] == 1]
        if ones and saves_any_length():
            return _without(op, reduce, x, ones)
        return reduce(x, op.axes)
    left = [n for axis, n in enumerate(x.shape) if axis not in op.axes]
    dtype = numpy_dtype(name_of(x))
    return mx.broadcast_to(from_numpy(np.array(neutral(op, dtype), dtype)), left)


def _without(op: Reduction, reduce: Callable[..., Any], x: Any, ones: Sequence[int]) -> Any:
    """The reduction over all but axes of length 1, at which a saved program crashes."""
    rest = tuple(i - sum(j < i for j in ones) for i in op.axes if i not in ones)
    x = mx.squeeze(x, ones)
    return reduce(x, rest) if rest else x.astype(mx.bool_) if isinstance(op, All | Any_) else x


BLOCK = 1024
"""So many terms are added up one after the other where there are many."""

MOST = 8 * BLOCK
"""So many are few."""


def added(x: Any, axes: tuple[int, ...]) -> Any:
    """The sum; of many narrow floats, axis by axis, and that of the sums of blocks.

    MLX adds one after the other: of 640,000 squares in float32, that left 2.5e-4 wrong.
    """
    narrow = x.dtype in {mx.float32, mx.complex64}
    if narrow and are_open(*[x.shape[axis] for axis in axes]):
        return in_doubles(lambda x: mx.sum(x, axes), x)
    if not narrow or math.prod(x.shape[axis] for axis in axes) <= MOST:
        return mx.sum(x, axes)
    if len(axes) == x.ndim:
        x, axes = mx.flatten(x), (0,)
    longest = max(axes, key=lambda axis: x.shape[axis])
    rest = tuple(axis - (axis > longest) for axis in axes if axis != longest)
    return added(added_along(x, longest), rest)


def in_doubles(add: Callable[..., Any], *xs: Any) -> Any:
    """What adds up narrow floats, as many as there may be, in float64 where MLX has that."""
    if mx.default_device().type != mx.cpu or mx.complex64 in {x.dtype for x in xs}:
        return add(*xs)
    return add(*[x.astype(mx.float64) for x in xs]).astype(mx.float32)


def added_along(x: Any, axis: int) -> Any:
    """The sum along an axis; of a long one that of the sums of blocks."""
    n = x.shape[axis]
    if n <= MOST:
        return mx.sum(x, axis)
    whole = n // BLOCK * BLOCK
    blocks = mx.unflatten(x[slice_at_axis(slice(whole), axis)], axis, (-1, BLOCK))
    y = added_along(mx.sum(blocks, axis + 1), axis)
    return y if whole == n else y + mx.sum(x[slice_at_axis(slice(whole, None), axis)], axis)


@backend.lower(Sum)
def add_up(op: Sum, x: Any) -> Any:
    """Half-width floats are added up in float32.

    MLX takes narrow integers for wider ones; cut to their width again, they have wrapped around.
    """
    return of_elements(op, added, in_wide_floats(x)).astype(x.dtype)


@backend.lower(Prod)
def multiply_up(op: Prod, x: Any) -> Any:
    """In the dtypes in which sums are made."""
    return of_elements(op, mx.prod, in_wide_floats(x)).astype(x.dtype)


@backend.lower(Extreme)
def extreme(op: Extreme, x: Any) -> Any:
    """An empty slice has no extreme value, and raises as in NumPy; or it has its peak or pit."""
    op.refuse_empty(x.shape)
    return of_elements(op, mx.max if isinstance(op, Max) else mx.min, x)


@backend.lower(All, Any_)
def truth(op: Reduction, x: Any) -> Any:
    """Whether all are true, or any is."""
    return of_elements(op, mx.all if isinstance(op, All) else mx.any, x)


@backend.lower(ArgExtreme)
def arg_extreme(op: ArgExtreme, x: Any) -> Any:
    """The first of equal values, or the first NaN."""
    Max((op.axis,)).refuse_empty(x.shape)
    if not x.size:
        return mx.zeros([n for axis, n in enumerate(x.shape) if axis != op.axis], mx.int64)
    find = mx.argmax if isinstance(op, ArgMax) else mx.argmin
    return find(x, op.axis).astype(mx.int64)


@backend.lower(LogSumExp)
def logsumexp(op: LogSumExp, x: Any) -> Any:
    """In one pass over the elements."""
    if not x.size:
        return of_elements(MaxWithDefault(op.axes), mx.max, x)
    return mx.logsumexp(in_wide_floats(x), op.axes).astype(x.dtype)
