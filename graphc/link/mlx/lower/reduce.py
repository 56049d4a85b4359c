"""Reductions: sums, products, extremes and their indices, truth values, sums over processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.ir import numpy_dtype
from graphc.link.mlx.arrays import are_dynamic, from_numpy, name_of, saves_dynamic_lengths
from graphc.link.mlx.backend import backend
from graphc.link.mlx.devices import device_choice
from graphc.link.mlx.distributed import exchange_group
from graphc.tensor.arrays import reduce as reductions
from graphc.tensor.core.all_sum import AllMean, AllSum
from graphc.tensor.core.axes import slice_at_axis


def widen_halves(x: Any) -> Any:
    """Return half-width floats as float32, other arrays unchanged."""
    return x.astype(mx.float32) if x.dtype in {mx.float16, mx.bfloat16} else x


def identity_element(op: reductions.Reduction, dtype: np.dtype[Any]) -> Any:
    """Return the result of a reduction over no elements."""
    match op:
        case reductions.Sum() | reductions.Any_():
            return 0
        case reductions.Prod() | reductions.All():
            return 1
    lowest, highest = reductions.dtype_range(dtype)
    return lowest if isinstance(op, reductions.Max) else highest


def reduce_nonempty(op: reductions.Reduction, reduce: Callable[..., Any], x: Any) -> Any:
    """Reduce by a function of MLX, which may loop forever on an array without elements."""
    if x.size:
        unit_axes = [axis for axis in op.axes if x.shape[axis] == 1]
        if unit_axes and saves_dynamic_lengths():
            return _reduce_without_unit_axes(op, reduce, x, unit_axes)
        return reduce(x, op.axes)
    shape = [n for axis, n in enumerate(x.shape) if axis not in op.axes]
    dtype = numpy_dtype(name_of(x))
    return mx.broadcast_to(from_numpy(np.array(identity_element(op, dtype), dtype)), shape)


def _reduce_without_unit_axes(
    op: reductions.Reduction, reduce: Callable[..., Any], x: Any, unit_axes: Sequence[int]
) -> Any:
    """Reduce over longer axes only: a saved program crashes at axes of length 1."""
    axes = tuple(i - len([j for j in unit_axes if j < i]) for i in op.axes if i not in unit_axes)
    x = mx.squeeze(x, unit_axes)
    if axes:
        return reduce(x, axes)
    return x.astype(mx.bool_) if isinstance(op, reductions.All | reductions.Any_) else x


BLOCK = 1024
"""Elements of a block, which are added one by one."""

MAX_PLAIN = 8 * BLOCK
"""Elements that are summed without blocks."""


def sum_axes(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the sum; sum many narrow floats axis by axis and in blocks.

    MLX adds elements one by one: the sum of 640,000 squares in float32 was 2.5e-4 off.
    """
    is_narrow = x.dtype in {mx.float32, mx.complex64}
    if is_narrow and are_dynamic(*[x.shape[axis] for axis in axes]):
        return sum_in_float64(lambda x: mx.sum(x, axes), x)
    if not is_narrow or math.prod(x.shape[axis] for axis in axes) <= MAX_PLAIN:
        return mx.sum(x, axes)
    if len(axes) == x.ndim:
        x, axes = mx.flatten(x), (0,)
    longest = max(axes, key=lambda axis: x.shape[axis])
    rest = tuple(axis - (axis > longest) for axis in axes if axis != longest)
    return sum_axes(sum_along(x, longest), rest)


def sum_in_float64(add: Callable[..., Any], *xs: Any) -> Any:
    """Apply a sum of any number of narrow floats, in float64 if MLX has it."""
    if not device_choice("has float64") or mx.complex64 in {x.dtype for x in xs}:
        return add(*xs)
    return add(*[x.astype(mx.float64) for x in xs]).astype(mx.float32)


def sum_along(x: Any, axis: int) -> Any:
    """Return the sum along an axis; for a long axis, the sum of sums of blocks."""
    n = x.shape[axis]
    if n <= MAX_PLAIN:
        return mx.sum(x, axis)
    end = n // BLOCK * BLOCK
    blocks = mx.unflatten(x[slice_at_axis(slice(end), axis)], axis, (-1, BLOCK))
    y = sum_along(mx.sum(blocks, axis + 1), axis)
    return y if end == n else y + mx.sum(x[slice_at_axis(slice(end, None), axis)], axis)


@backend.lower(reductions.Sum)
def sum(op: reductions.Sum, x: Any) -> Any:
    """Return the sum; half-width floats are summed in float32.

    MLX sums narrow integers as wider ones; the cast to their dtype makes the result wrap around.
    """
    return reduce_nonempty(op, sum_axes, widen_halves(x)).astype(x.dtype)


@backend.lower(reductions.Prod)
def prod(op: reductions.Prod, x: Any) -> Any:
    return reduce_nonempty(op, mx.prod, widen_halves(x)).astype(x.dtype)


@backend.lower(reductions.Extreme)
def extreme(op: reductions.Extreme, x: Any) -> Any:
    """Return the extreme value; an empty slice without a default raises as in NumPy."""
    op.refuse_empty(x.shape)
    return reduce_nonempty(op, mx.max if isinstance(op, reductions.Max) else mx.min, x)


@backend.lower(reductions.All, reductions.Any_)
def all_or_any(op: reductions.Reduction, x: Any) -> Any:
    return reduce_nonempty(op, mx.all if isinstance(op, reductions.All) else mx.any, x)


@backend.lower(reductions.ArgExtreme)
def arg_extreme(op: reductions.ArgExtreme, x: Any) -> Any:
    """Return the index of the first of equal values, or of the first NaN."""
    reductions.Max((op.axis,)).refuse_empty(x.shape)
    if not x.size:
        return mx.zeros([n for axis, n in enumerate(x.shape) if axis != op.axis], mx.int64)
    find = mx.argmax if isinstance(op, reductions.ArgMax) else mx.argmin
    return find(x, op.axis).astype(mx.int64)


@backend.lower(reductions.LogSumExp)
def logsumexp(op: reductions.LogSumExp, x: Any) -> Any:
    """Return ``log(sum(exp(x)))`` in one pass over the elements."""
    if not x.size:
        return reduce_nonempty(reductions.MaxWithDefault(op.axes), mx.max, x)
    return mx.logsumexp(widen_halves(x), op.axes).astype(x.dtype)


@backend.lower(AllSum)
def all_sum(op: AllSum, x: Any) -> Any:
    group = exchange_group(op, x)
    return x if group is None else mx.distributed.all_sum(x)


@backend.lower(AllMean)
def all_mean(op: AllMean, x: Any) -> Any:
    group = exchange_group(op, x)
    return x if group is None else mx.distributed.all_sum(x) / mx.array(group.size, x.dtype)
