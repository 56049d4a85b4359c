"""Products over axes, as matrix products."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from graphc.link.mlx.arrays import are_open, reshaped
from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.arrays.reduce import added_along, in_doubles
from graphc.tensor.linalg.dot import DotGeneral, ProductAndSum

FEW = 2**20
"""So many products of integers, 8 MB, are made before they are added up."""

LIMB = 16
"""Bits of an integer that are multiplied at a time."""

BLOCK = 2**13
"""So many terms of a product are added up one after the other: their rounding is 1e-4 at worst."""

MOST_TERMS = 2 ** (53 - 2 * LIMB)
"""The sum of so many products of limbs is exact in float64."""


@backend.lower(DotGeneral)
def dot_general(op: DotGeneral, a: Any, b: Any) -> Any:
    """Axes of each kind are merged into one, and put in order only where they are not."""
    batch = [a.shape[i] for i in op.batch_axes[0]]
    rows, columns = op.free(0, a.ndim), op.free(1, b.ndim)
    shape = [*batch, *[a.shape[i] for i in rows], *[b.shape[i] for i in columns]]
    left = ordered(a, (*op.batch_axes[0], *rows, *op.contract[0]))
    right = ordered(b, (*op.batch_axes[1], *op.contract[1], *columns))
    terms = math.prod(a.shape[i] for i in op.contract[0])
    left = reshaped(left, (*batch, math.prod(a.shape[i] for i in rows), terms))
    right = reshaped(right, (*batch, terms, math.prod(b.shape[i] for i in columns)))
    return reshaped(product(left, right), shape)


def product_and_sum(op: ProductAndSum, a: Any, b: Any, c: Any) -> Any:
    """As one product of matrices."""
    shape = (*a.shape[:-1], b.shape[-1])
    if 0 in (*a.shape, *b.shape):
        return mx.broadcast_to(c, shape)
    rows = mx.reshape(a, (-1, a.shape[-1]))
    if c.ndim > 1:
        c = mx.reshape(mx.broadcast_to(c, shape), (-1, shape[-1]))
    return mx.reshape(mx.addmm(c, rows, b), shape)


# On the CPU MLX copies c first, and fuses the sum no longer with what follows: up to 1.5 times as
# long (tanh of 1024 x 1024 float32).
if mx.is_available(mx.Device(mx.gpu)):
    backend.lower(ProductAndSum)(product_and_sum)


def ordered(x: Any, axes: tuple[int, ...]) -> Any:
    """The axes in this order."""
    return x if axes == (*range(x.ndim),) else mx.transpose(x, axes)


def product(a: Any, b: Any) -> Any:
    """Of matrices; bool is "or" of "and", integers wrap around."""
    if a.dtype in {mx.float32, mx.complex64}:
        return of_narrow_floats(a, b)
    if mx.issubdtype(a.dtype, mx.inexact):
        return mx.matmul(a, b)
    if a.dtype == mx.bool_:
        # A count of trues may round, but not to zero.
        return mx.matmul(a.astype(mx.float32), b.astype(mx.float32)) != 0
    if a.size * b.shape[-1] <= FEW:
        terms = mx.expand_dims(a, -1) * mx.expand_dims(b, -3)
        return mx.sum(terms, -2).astype(a.dtype)
    return of_integers(a, b)


def of_narrow_floats(a: Any, b: Any) -> Any:
    """Of many terms, the sum of products of blocks.

    MLX adds them one after the other on the CPU: of a million equal ones, that left 1 % wrong.
    """
    (m, k), n = a.shape[-2:], b.shape[-1]
    if are_open(k):
        return in_doubles(mx.matmul, a, b)
    # The blocks' results are no larger than the operands.
    if k <= BLOCK or BLOCK * (m + n) < m * n or mx.default_device().type != mx.cpu:
        return mx.matmul(a, b)
    whole = k // BLOCK * BLOCK
    left = mx.moveaxis(mx.unflatten(a[..., :whole], -1, (-1, BLOCK)), -2, -3)
    right = mx.unflatten(b[..., :whole, :], -2, (-1, BLOCK))
    y = added_along(mx.matmul(left, right), a.ndim - 2)
    return y if whole == k else y + mx.matmul(a[..., whole:], b[..., whole:, :])


def of_integers(a: Any, b: Any) -> Any:
    """Each exact to its width, by products of their limbs in float64, which the CPU has."""
    count = max(a.dtype.size * 8 // LIMB, 1)
    y = mx.zeros((*a.shape[:-1], b.shape[-1]), mx.int64)
    for start in range(0, a.shape[-1], MOST_TERMS):
        some = slice(start, start + MOST_TERMS)
        left, right = limbs(a[..., some], count), limbs(b[..., some, :], count)
        for i in range(count):
            for j in range(count - i):
                part = mx.matmul(left[i], right[j], stream=mx.cpu)
                y = y + (part.astype(mx.int64, stream=mx.cpu) << LIMB * (i + j))
    return y.astype(a.dtype)


def limbs(x: Any, count: int) -> list[Any]:
    """The digits of integers to base 2**16, the lowest first, as float64; the last is signed."""
    x = x.astype(mx.int64)
    digits = [(x >> LIMB * i) & (2**LIMB - 1) for i in range(count - 1)]
    last = x >> LIMB * (count - 1)
    return [digit.astype(mx.float64, stream=mx.cpu) for digit in (*digits, last)]
