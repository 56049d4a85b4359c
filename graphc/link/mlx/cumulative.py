"""Running sums, products and extremes, and linear recurrences."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.link.mlx.reduce import in_wide_floats
from graphc.tensor.axes import slice_at_axis
from graphc.tensor.cumulative import CumMax, CumMin, CumProd, CumSum, Cumulative, Recurrence

__all__: list[str] = []

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


@backend.lower(Recurrence)
def recurrence(op: Recurrence, a: Any, b: Any) -> Any:
    """Half-width floats in float32; bool, "or" of "and", by counting."""
    dtype = b.dtype
    a, b = (x.astype(mx.int32) if dtype == mx.bool_ else in_wide_floats(x) for x in (a, b))
    return recurring(a, b, op.axis, op.reverse).astype(dtype)


def recurring(a: Any, b: Any, axis: int, reverse: bool) -> Any:
    """Every second y by a recurrence of double steps, half as long; then those between.

    So it takes a logarithmic number of operations and a linear amount of work. From the end, the
    steps are counted from there, and no array is turned.
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
    factor = a_second * begins(a_first, half, axis)
    term = a_second * begins(b_first, half, axis) + b_second
    y_second = recurring(factor, term, axis, reverse)
    before = begins(y_second, rest, axis)
    others = ends(a_first, rest, axis) * before + ends(b_first, rest, axis)
    initial = begins(b_first, 1, axis)
    y_first = mx.concatenate([others, initial] if reverse else [initial, others], axis)
    return _alternating(y_second, y_first, axis) if start else _alternating(y_first, y_second, axis)


def _first(x: Any, count: int, axis: int) -> Any:
    return x[slice_at_axis(slice(count), axis)]


def _last(x: Any, count: int, axis: int) -> Any:
    return x[slice_at_axis(slice(x.shape[axis] - count, None), axis)]


def _alternating(x: Any, y: Any, axis: int) -> Any:
    """An element of x and one of y along an axis, and so on; x may have one more."""
    more, m = x.shape[axis] - y.shape[axis], y.shape[axis]
    shape = [*y.shape]
    shape[axis] = 2 * m
    both = mx.reshape(mx.stack([_first(x, m, axis), y], axis + 1), shape)
    return mx.concatenate([both, _last(x, 1, axis)], axis) if more else both
