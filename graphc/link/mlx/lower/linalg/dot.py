"""Products over axes, as products of matrices."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from graphc.link.mlx.arrays import are_dynamic, reshape_array
from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.arrays.reduce import sum_along, sum_in_float64
from graphc.tensor.linalg.dot import DotGeneral, ProductAndSum

MAX_EXPANDED = 2**20
"""Products of integers, 8 MB, that are computed before they are added up."""

LIMB = 16
"""Bits of a limb: the digits of integers that are multiplied."""

BLOCK = 2**13
"""Terms of a product that are added one by one: the rounding error is 1e-4 at worst."""

MOST_TERMS = 2 ** (53 - 2 * LIMB)
"""Products of limbs whose sum is exact in float64."""


@backend.lower(DotGeneral)
def dot_general(op: DotGeneral, a: Any, b: Any) -> Any:
    """Merge the axes of each kind into one; transpose only if their order requires it."""
    batch = [a.shape[i] for i in op.batch_axes[0]]
    rows, columns = op.free(0, a.ndim), op.free(1, b.ndim)
    shape = [*batch, *[a.shape[i] for i in rows], *[b.shape[i] for i in columns]]
    left = order_axes(a, (*op.batch_axes[0], *rows, *op.contract[0]))
    right = order_axes(b, (*op.batch_axes[1], *op.contract[1], *columns))
    terms = math.prod(a.shape[i] for i in op.contract[0])
    left = reshape_array(left, (*batch, math.prod(a.shape[i] for i in rows), terms))
    right = reshape_array(right, (*batch, terms, math.prod(b.shape[i] for i in columns)))
    return reshape_array(product(left, right), shape)


def product_and_sum(op: ProductAndSum, a: Any, b: Any, c: Any) -> Any:
    """Return ``a @ b + c`` by one call."""
    shape = (*a.shape[:-1], b.shape[-1])
    if 0 in (*a.shape, *b.shape):
        return mx.broadcast_to(c, shape)
    rows = mx.reshape(a, (-1, a.shape[-1]))
    if c.ndim > 1:
        c = mx.reshape(mx.broadcast_to(c, shape), (-1, shape[-1]))
    return mx.reshape(mx.addmm(c, rows, b), shape)


# On the CPU MLX copies c first, and cannot fuse the sum with what follows: this takes up to 1.5
# times as long (tanh of 1024 x 1024 float32).
if mx.is_available(mx.Device(mx.gpu)):
    backend.lower(ProductAndSum)(product_and_sum)


def order_axes(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the array with its axes in this order."""
    return x if axes == (*range(x.ndim),) else mx.transpose(x, axes)


def product(a: Any, b: Any) -> Any:
    """Return the product of matrices; bool is "or" of "and", integers wrap around."""
    if a.dtype in {mx.float32, mx.complex64}:
        return narrow_product(a, b)
    if mx.issubdtype(a.dtype, mx.inexact):
        return mx.matmul(a, b)
    if a.dtype == mx.bool_:
        # The number of true terms may be rounded, but not to zero.
        return mx.matmul(a.astype(mx.float32), b.astype(mx.float32)) != 0
    if a.size * b.shape[-1] <= MAX_EXPANDED:
        terms = mx.expand_dims(a, -1) * mx.expand_dims(b, -3)
        return mx.sum(terms, -2).astype(a.dtype)
    return integer_product(a, b)


def narrow_product(a: Any, b: Any) -> Any:
    """Return the product of float32 or complex64 matrices, as a sum of blocks if it has many terms.

    On the CPU MLX adds terms one by one: the sum of a million equal terms was 1 % off.
    """
    (m, k), n = a.shape[-2:], b.shape[-1]
    if are_dynamic(k):
        return sum_in_float64(mx.matmul, a, b)
    # Blocks only pay if their results are no larger than the operands.
    if k <= BLOCK or BLOCK * (m + n) < m * n or mx.default_device().type != mx.cpu:
        return mx.matmul(a, b)
    end = k // BLOCK * BLOCK
    left = mx.moveaxis(mx.unflatten(a[..., :end], -1, (-1, BLOCK)), -2, -3)
    right = mx.unflatten(b[..., :end, :], -2, (-1, BLOCK))
    y = sum_along(mx.matmul(left, right), a.ndim - 2)
    return y if end == k else y + mx.matmul(a[..., end:], b[..., end:, :])


def integer_product(a: Any, b: Any) -> Any:
    """Return the wrapped product of integers, by products of limbs in float64 on the CPU."""
    count = max(a.dtype.size * 8 // LIMB, 1)
    y = mx.zeros((*a.shape[:-1], b.shape[-1]), mx.int64)
    for start in range(0, a.shape[-1], MOST_TERMS):
        terms = slice(start, start + MOST_TERMS)
        left, right = limbs(a[..., terms], count), limbs(b[..., terms, :], count)
        for i in range(count):
            for j in range(count - i):
                part = mx.matmul(left[i], right[j], stream=mx.cpu)
                y = y + (part.astype(mx.int64, stream=mx.cpu) << LIMB * (i + j))
    return y.astype(a.dtype)


def limbs(x: Any, count: int) -> list[Any]:
    """Return the digits of integers to base 2**16, lowest first, as float64; the last is signed."""
    x = x.astype(mx.int64)
    digits = [(x >> LIMB * i) & (2**LIMB - 1) for i in range(count - 1)]
    last = x >> LIMB * (count - 1)
    return [digit.astype(mx.float64, stream=mx.cpu) for digit in (*digits, last)]
