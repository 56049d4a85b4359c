"""Sorts, searches and distinct elements."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.arrays.sets import Unique
from graphc.tensor.arrays.sort import ArgSort, SearchSorted, Sort


@backend.lower(Sort)
def sort(op: Sort, x: Any) -> Any:
    """Sort along an axis; NaN comes last."""
    if x.dtype == mx.complex64:
        return mx.take_along_axis(x, complex_order(x, op.axis), op.axis)
    return mx.sort(x, op.axis)


@backend.lower(ArgSort)
def argsort(op: ArgSort, x: Any) -> Any:
    """Return the indices of a stable sort."""
    if x.dtype == mx.complex64:
        return complex_order(x, op.axis).astype(mx.int64)
    return mx.argsort(x, op.axis).astype(mx.int64)


def complex_order(x: Any, axis: int) -> Any:
    """Return the indices of a stable sort of complex numbers; MLX's own sort misplaces NaN."""
    first, *others = keys(x)
    order = mx.argsort(first, axis)
    for key in others:
        again = mx.argsort(mx.take_along_axis(key, order, axis), axis)
        order = mx.take_along_axis(order, again, axis)
    return order


def keys(x: Any) -> tuple[Any, Any, Any]:
    """Return keys that sort complex numbers, the primary key last.

    As in NumPy, all numbers come first, then NaN in the imaginary part only, then NaN in the real
    part.
    """
    re, im = mx.real(x), mx.imag(x)
    return im, re, 2 * mx.isnan(re).astype(mx.int32) + mx.isnan(im).astype(mx.int32)


@backend.lower(SearchSorted)
def searchsorted(op: SearchSorted, x: Any, v: Any) -> Any:
    """Search by bisection, for all values at once."""
    n = x.shape[-1]
    if not v.size or not n:
        return mx.zeros(v.shape, mx.int64)
    values = mx.reshape(v, (*v.shape[: op.batched], -1))
    positions = mx.zeros(values.shape, mx.int64)
    step = 1 << (n.bit_length() - 1)
    while step:
        candidate = positions + step
        index = mx.minimum(candidate, n) - 1
        element = mx.take_along_axis(x, index, -1)
        before = ~is_before(values, element) if op.right else is_before(element, values)
        positions = mx.where((candidate <= n) & before, candidate, positions)
        step >>= 1
    return mx.reshape(positions, v.shape)


def is_before(a: Any, b: Any) -> Any:
    """Return whether a comes before b in ascending order, with NaN last."""
    if a.dtype != mx.complex64:
        return mx.less(a, b) | (~mx.isnan(a) & mx.isnan(b))
    before = False
    # From the last key to the primary one: a key decides if all primary ones are equal.
    for first, second in zip(keys(a), keys(b), strict=True):
        before = is_before(first, second) | (~is_before(second, first) & before)
    return before


# NumPy finds distinct elements, between compiled segments.
backend.lower(Unique)(Unique.perform)
