"""Running sums, products and extremes, and linear recurrences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.link.mlx.arrays import device_array, device_of, from_numpy, to_numpy
from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.arrays.reduce import in_wide_floats
from graphc.link.mlx.segments import DRIVERS, CompiledFunction
from graphc.tensor.arrays.coupled import CoupledRecurrence, apply_matrices, compose_matrices
from graphc.tensor.arrays.cumulative import CumMax, CumMin, CumProd, CumSum, Cumulative, Recurrence
from graphc.tensor.core.axes import slice_at_axis

ACCUMULATE = {
    CumSum: mx.cumsum,
    CumProd: mx.cumprod,
    CumMax: mx.cummax,
    CumMin: mx.cummin,
}


@backend.lower(Cumulative)
def accumulate(op: Cumulative, x: Any) -> Any:
    """Half-width floats are accumulated in float32, where MLX keeps NaN too."""
    y = ACCUMULATE[type(op)](in_wide_floats(x), axis=op.axis, reverse=op.reverse)
    return y.astype(x.dtype)


WIDE = 4096
"""From so many elements on that each step has, what they cost is more than what it takes to call
MLX, and joining steps pairwise, which is several times the work, gains nothing."""

LONG = 2**22
"""The number of elements joined pairwise at a time, which takes several times their memory."""

CHUNK = 32
"""The number of steps written out at a time."""


@backend.lower(Recurrence)
def recurrence(op: Recurrence, a: Any, b: Any) -> Any:
    """All steps are joined pairwise."""
    return recurring(_wide(a), _wide(b), op.axis, op.reverse).astype(b.dtype)


def driven(op: Recurrence, options: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    """Between compiled segments: block by block, where there is much of it."""
    whole = CompiledFunction(partial(_all_of, op), {}, options)
    joined = CompiledFunction(partial(_block, op, recurring), {}, options)
    stepwise = CompiledFunction(partial(_block, op, _stepping), {}, options)

    def run(a: Any, b: Any) -> Any:
        a, b = map(device_array, (a, b))
        n = b.shape[op.axis]
        width = b.size // max(n, 1)
        if width <= WIDE and b.size <= LONG:
            return whole(a, b)[0]
        size, step = (LONG // width, joined) if width <= WIDE else (CHUNK, stepwise)
        found = []
        before: list[Any] = []
        for part in _blocks(n, size, op.reverse):
            here = slice_at_axis(part, op.axis)
            y, *before = step(a[here], b[here], *before)
            mx.async_eval(y, *before)  # type: ignore[no-untyped-call]
            found.append(y)
        return mx.concatenate(found[::-1] if op.reverse else found, op.axis)

    return run


DRIVERS[Recurrence] = driven


def _wide(x: Any) -> Any:
    """Half-width floats in float32; bool, "or" of "and", by counting."""
    return x.astype(mx.int32) if x.dtype == mx.bool_ else in_wide_floats(x)


def _all_of(op: Recurrence, a: Any, b: Any) -> list[Any]:
    return [recurrence(op, a, b)]


def _block(
    op: Recurrence, way: Callable[..., Any], a: Any, b: Any, *before: Any
) -> tuple[Any, Any]:
    """The results of some steps after others, and the last of them, which the next one takes."""
    dtype, axis = b.dtype, op.axis
    a, b = map(_wide, (a, b))
    begins, ends = (_last, _first) if op.reverse else (_first, _last)
    if before:
        rest = b.shape[axis] - 1
        begun = begins(a, 1, axis) * before[0] + begins(b, 1, axis)
        parts = [begun, ends(b, rest, axis)]
        b = mx.concatenate(parts[::-1] if op.reverse else parts, axis)
    y = way(a, b, axis, op.reverse)
    return y.astype(dtype), ends(y, 1, axis)


def _blocks(n: int, size: int, reverse: bool) -> Iterator[slice]:
    for start in range(0, n, size):
        end = min(start + size, n)
        yield slice(n - end, n - start) if reverse else slice(start, end)


def _stepping(a: Any, b: Any, axis: int, reverse: bool) -> Any:
    """Step by step."""
    n = b.shape[axis]
    order = range(n)[:: -1 if reverse else 1]
    factors, terms = mx.split(a, n, axis), mx.split(b, n, axis)
    found: list[Any] = [*terms]
    for before, i in pairwise(order):
        found[i] = factors[i] * found[before] + terms[i]
    return mx.concatenate(found, axis)


@backend.lower(CoupledRecurrence)
def coupled_recurrence(op: CoupledRecurrence, a: Any, b: Any) -> Any:
    """All steps are joined pairwise, as matrices."""
    a, wide = in_wide_floats(a), in_wide_floats(b)
    times = partial(apply_matrices, times=_keeping_zeros(a))
    return recurring(a, wide, -1, op.reverse, times, compose_matrices).astype(b.dtype)


def driven_coupled(op: CoupledRecurrence, options: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    """Between compiled segments: by NumPy on processors, where it takes a tenth of the time.

    On GPUs too, where a product of matrices overflows.
    """

    def run(a: Any, b: Any) -> Any:
        a, b = map(device_array, (a, b))
        if device_of(options).type != mx.cpu:
            y = coupled_recurrence(op, a, b)
            if not mx.issubdtype(b.dtype, mx.inexact) or mx.all(mx.isfinite(y)).item():
                return y
        with np.errstate(all="ignore"):
            return from_numpy(op.perform(*map(to_numpy, (a, b))))

    return run


DRIVERS[CoupledRecurrence] = driven_coupled


def recurring(
    a: Any,
    b: Any,
    axis: int,
    reverse: bool,
    times: Callable[[Any, Any], Any] = mx.multiply,
    joined: Callable[[Any, Any], Any] = mx.multiply,
) -> Any:
    """Every second y by a recurrence of double steps, half as long; then those between.

    So it takes a logarithmic number of operations and a linear amount of work. From the end, the
    steps are counted from there, and no array is turned. ``times`` multiplies a state, ``joined``
    factors.
    """
    n = b.shape[axis]
    if n < 2:
        return b
    half, rest = n // 2, (n - 1) // 2
    # The first step is one of those between; from the end, it is at the last element.
    start = 1 - n % 2 if reverse else 0
    firsts, seconds = (slice_at_axis(slice(i, None, 2), axis) for i in (start, 1 - start))
    a_first, b_first, a_second, b_second = a[firsts], b[firsts], a[seconds], b[seconds]
    begins, ends = (_last, _first) if reverse else (_first, _last)
    factor = joined(a_second, begins(a_first, half, axis))
    term = times(a_second, begins(b_first, half, axis)) + b_second
    deeper = _keeping_zeros(a) if times is mx.multiply else times
    y_second = recurring(factor, term, axis, reverse, deeper, joined)
    before = begins(y_second, rest, axis)
    others = times(ends(a_first, rest, axis), before) + ends(b_first, rest, axis)
    initial = begins(b_first, 1, axis)
    y_first = mx.concatenate([others, initial] if reverse else [initial, others], axis)
    return _alternating(y_second, y_first, axis) if start else _alternating(y_first, y_second, axis)


def _keeping_zeros(a: Any) -> Callable[[Any, Any], Any]:
    """Return a multiplication by products of these factors that keeps zeros zero, step by step.

    A product of many may be infinite where none of the factors is.
    """
    # MLX may reduce nothing without end.
    if not a.size or not mx.issubdtype(a.dtype, mx.inexact):
        return mx.multiply
    are_finite = mx.logical_not(mx.any(mx.isinf(a)))

    def times(product: Any, y: Any) -> Any:
        is_kept = mx.logical_and(mx.logical_and(mx.isinf(product), y == 0), are_finite)
        return mx.where(is_kept, y, product * y)

    return times


def _first(x: Any, count: int, axis: int) -> Any:
    return x[slice_at_axis(slice(count), axis)]


def _last(x: Any, count: int, axis: int) -> Any:
    return x[slice_at_axis(slice(x.shape[axis] - count, None), axis)]


def _alternating(x: Any, y: Any, axis: int) -> Any:
    """An element of x and one of y along an axis, and so on; x may have one more."""
    axis %= x.ndim
    more, m = x.shape[axis] - y.shape[axis], y.shape[axis]
    shape = [*y.shape]
    shape[axis] = 2 * m
    both = mx.reshape(mx.stack([_first(x, m, axis), y], axis + 1), shape)
    return mx.concatenate([both, _last(x, 1, axis)], axis) if more else both
