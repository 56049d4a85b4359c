"""Order, and places in it."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.arrays.sort import ArgSort, SearchSorted, Sort


@backend.lower(Sort)
def sort(op: Sort, x: Any) -> Any:
    """NaN comes last."""
    if x.dtype == mx.complex64:
        return mx.take_along_axis(x, complex_order(x, op.axis), op.axis)
    return mx.sort(x, op.axis)


@backend.lower(ArgSort)
def argsort(op: ArgSort, x: Any) -> Any:
    """Equal elements keep their order."""
    if x.dtype == mx.complex64:
        return complex_order(x, op.axis).astype(mx.int64)
    return mx.argsort(x, op.axis).astype(mx.int64)


def complex_order(x: Any, axis: int) -> Any:
    """The places that sort complex numbers by their keys, as MLX's own sort scatters NaN."""
    first, *others = keys(x)
    order = mx.argsort(first, axis)
    for key in others:
        again = mx.argsort(mx.take_along_axis(key, order, axis), axis)
        order = mx.take_along_axis(order, again, axis)
    return order


def keys(x: Any) -> tuple[Any, Any, Any]:
    """Keys that sort complex numbers, the primary key last.

    As in NumPy, NaN in the imaginary part alone stands before NaN in the real part, both behind
    all numbers.
    """
    re, im = mx.real(x), mx.imag(x)
    return im, re, 2 * mx.isnan(re).astype(mx.int32) + mx.isnan(im).astype(mx.int32)


@backend.lower(SearchSorted)
def searchsorted(op: SearchSorted, x: Any, v: Any) -> Any:
    """By halves, all values at once; a vector at a time where there are several."""
    n = x.shape[-1]
    if not v.size or not n:
        return mx.zeros(v.shape, mx.int64)
    wanted = mx.reshape(v, (*v.shape[: op.batched], -1))
    found = mx.zeros(wanted.shape, mx.int64)
    step = 1 << (n.bit_length() - 1)
    while step:
        further = found + step
        place = mx.minimum(further, n) - 1
        element = mx.take_along_axis(x, place, -1)
        before = not_after(element, wanted) if op.right else is_before(element, wanted)
        found = mx.where((further <= n) & before, further, found)
        step >>= 1
    return mx.reshape(found, v.shape)


def is_before(a: Any, b: Any) -> Any:
    """Whether a stands before b in ascending order, with NaN behind all numbers."""
    if a.dtype != mx.complex64:
        return mx.less(a, b) | (~mx.isnan(a) & mx.isnan(b))
    before = False
    # From the least to the most telling: what decides where all that follow are equal.
    for first, second in zip(keys(a), keys(b), strict=True):
        before = is_before(first, second) | (~is_before(second, first) & before)
    return before


def not_after(a: Any, b: Any) -> Any:
    """Whether a stands before b, or is equal to it."""
    return ~is_before(b, a)
