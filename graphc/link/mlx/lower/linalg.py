"""Products of matrices; factorisations, eigenvalues and triangular systems on the processor."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures import toeplitz
from graphc.link.mlx.arrays import are_dynamic, contiguous, reshape_array
from graphc.link.mlx.backend import WIDE, backend
from graphc.link.mlx.devices import device_choice
from graphc.link.mlx.lower.reduce import sum_along, sum_in_float64
from graphc.tensor.linalg.cholesky import (
    Cholesky,
    CholeskyGradient,
    CholeskyInverse,
    factor_gradient,
)
from graphc.tensor.linalg.dot import DotGeneral, ProductAndSum
from graphc.tensor.linalg.eigen import Eig, Eigh, Eigvals, Eigvalsh
from graphc.tensor.linalg.lu import LU
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.linalg.qr import QR
from graphc.tensor.linalg.svd import SVD, Svdvals
from graphc.tensor.linalg.triangular import SolveTriangular


@backend.lower(Cholesky)
def cholesky(op: Cholesky, x: Any) -> Any:
    """Return the factor, or NaN if a pivot is not positive: LAPACK leaves it on the diagonal."""
    if not x.size:
        return x
    y = mx.linalg.cholesky(x, stream=mx.cpu)
    is_positive = mx.all(mx.diagonal(y, 0, -2, -1) > 0, -1)
    return mx.where(is_positive[..., None, None], y, mx.array(mx.nan, y.dtype))


MIN_ROWS = 64
"""Fewer rows are not multiplied by themselves."""


@backend.lower(CholeskyInverse)
def cholesky_inverse(op: CholeskyInverse, x: Any) -> Any:
    """Invert the triangle and multiply it by its adjoint, an eighth of the rows at a time.

    MLX's ``cholesky_inv`` multiplies dense matrices: four times the work for many rows.
    """
    if not x.size:
        return x
    n = x.shape[-1]
    inverse = mx.linalg.tri_inv(mx.tril(x), stream=mx.cpu)
    count = n if are_dynamic(n) else max(MIN_ROWS, -(-n // 8))
    rows = []
    for start in range(0, n, count):
        block = inverse[..., start:, : start + count]
        row = mx.matmul(mx.swapaxes(block[..., start:], -1, -2), block, stream=mx.cpu)
        rows.append(mx.pad(row, [*[(0, 0)] * (x.ndim - 1), (0, n - row.shape[-1])]))
    return mirror(Mirror(lower=True, conjugated=False), mx.concatenate(rows, -2))


@backend.lower(CholeskyGradient)
def cholesky_gradient(op: CholeskyGradient, y: Any, g: Any) -> Any:
    """Return the gradient of real factors by blocks; NumPy computes that of complex ones."""
    if not y.size:
        return g

    def solve_adjoint(y: Any, b: Any) -> Any:
        return solve_triangular(SolveTriangular(True, True, False), y, b)

    return factor_gradient(mx, y, g, solve_adjoint)


@backend.lower(LU)
def lu(op: LU, a: Any) -> Any:
    """Return LAPACK's factors by two calls, of which MLX skips unused ones."""
    *head, n, m = a.shape
    if not a.size:
        order = mx.broadcast_to(mx.arange(n, dtype=mx.int32), (*head, n))
        return a, mx.zeros((*head, min(n, m)), mx.int32), order
    packed, pivots = mx.linalg.lu_factor(a, stream=mx.cpu)
    # In float64 the array claims eight times its size. Elementwise functions, and MLX's triangles,
    # would access memory behind its end; a copy goes by its shape.
    packed = contiguous(packed)
    # MLX returns the inverse permutation.
    inverse, _, _ = mx.linalg.lu(a, stream=mx.cpu)
    return packed, pivots.astype(mx.int32), mx.argsort(inverse, -1).astype(mx.int32)


@backend.lower(QR)
def qr(op: QR, x: Any) -> Any:
    """Return q and r.

    A full q is computed with columns of zeros appended to x, which no reflection changes.
    """
    *front, m, n = x.shape
    if not op.full or m <= n:
        return tuple(mx.linalg.qr(x, stream=mx.cpu))
    padded = mx.concatenate([x, mx.zeros((*front, m, m - n), x.dtype)], -1)
    q, r = mx.linalg.qr(padded, stream=mx.cpu)
    return q, r[..., :n]


@backend.lower(SolveTriangular)
def solve_triangular(op: SolveTriangular, a: Any, b: Any) -> Any:
    """Solve a triangular system; transposes and unit diagonals, which MLX lacks, are written out.

    Zeros on the diagonal, which MLX refuses, become NaN.
    """
    if not b.size:
        return b
    indices = mx.arange(a.shape[-1])
    pivot = mx.array(1 if op.unit_diagonal else mx.nan, a.dtype)
    is_changed = mx.equal(indices[:, None], indices)
    if not op.unit_diagonal:
        is_changed = mx.logical_and(is_changed, mx.equal(a, 0))
    a = mx.where(is_changed, pivot, a)
    if op.transposed:
        a = contiguous(mx.swapaxes(a, -1, -2))
    upper = op.lower == op.transposed
    return mx.linalg.solve_triangular(a, b, upper=upper, stream=mx.cpu)


@backend.lower(Mirror)
def mirror(op: Mirror, x: Any) -> Any:
    """Return the symmetric or Hermitian matrix of one triangle."""
    indices = mx.arange(x.shape[-1])
    row, column = indices[:, None], indices
    is_read = mx.greater(row, column) if op.lower else mx.less(row, column)
    other, diagonal = mx.swapaxes(x, -1, -2), x
    if op.conjugated and x.dtype == mx.complex64:
        other, diagonal = mx.conj(other), mx.real(x).astype(x.dtype)
    return mx.where(is_read, x, mx.where(mx.equal(row, column), diagonal, other))


def finite_part(x: Any, read: Any) -> tuple[Any, Any]:
    """Return which matrices are finite in ``read``, and x with zeros for the others."""
    finite = mx.all(mx.isfinite(read), axis=(-2, -1))
    return finite, mx.where(finite[..., None, None], x, mx.zeros_like(x))


def nan_unless(finite: Any, y: Any, axes: int) -> Any:
    """Return y with NaN in the results of matrices that were not finite."""
    # A product, as MLX's C++ kernels have no complex NaN.
    factor = mx.where(finite, mx.array(1.0), mx.array(float("nan"))).astype(y.dtype)
    return y * factor[(..., *[None] * axes)]


@backend.lower(SVD)
def svd(op: SVD, x: Any) -> Any:
    """Return the singular value decomposition; MLX raises for matrices that are not finite.

    MLX computes u and vh as square matrices only. For thin results, a QR factorisation first
    reduces a rectangular real matrix to the square matrix r.
    """
    finite, x = finite_part(x, x)
    m, n = x.shape[-2:]
    if op.full or m == n or x.dtype == mx.complex64:
        u, s, vh = mx.linalg.svd(x, stream=mx.cpu)
        k = min(m, n)
        u, vh = (u, vh) if op.full else (u[..., :k], vh[..., :k, :])
    elif m > n:
        q, r = mx.linalg.qr(x, stream=mx.cpu)
        u, s, vh = mx.linalg.svd(r, stream=mx.cpu)
        u = mx.matmul(q, u, stream=mx.cpu)
    else:
        q, r = mx.linalg.qr(mx.swapaxes(x, -1, -2), stream=mx.cpu)
        v, s, uh = mx.linalg.svd(r, stream=mx.cpu)
        u = mx.swapaxes(uh, -1, -2)
        vh = mx.swapaxes(mx.matmul(q, v, stream=mx.cpu), -1, -2)
    return nan_unless(finite, u, 2), nan_unless(finite, s, 1), nan_unless(finite, vh, 2)


@backend.lower(Svdvals)
def svdvals(op: Svdvals, x: Any) -> Any:
    finite, x = finite_part(x, x)
    if not x.size:
        return mx.zeros((*x.shape[:-2], min(x.shape[-2:])), mx.abs(x).dtype)
    s = mx.linalg.svd(x, compute_uv=False, stream=mx.cpu)
    return nan_unless(finite, s, 1)


@backend.lower(Eigh)
def eigh(op: Eigh, x: Any) -> Any:
    """Decompose the lower triangle; MLX does not report matrices that are not finite."""
    finite, x = finite_part(x, mx.tril(x))
    w, v = mx.linalg.eigh(x, stream=mx.cpu)
    return nan_unless(finite, w, 1), nan_unless(finite, v, 2)


@backend.lower(Eigvalsh)
def eigvalsh(op: Eigvalsh, x: Any) -> Any:
    finite, x = finite_part(x, mx.tril(x))
    return nan_unless(finite, mx.linalg.eigvalsh(x, stream=mx.cpu), 1)


@backend.lower(Eig)
def eig(op: Eig, x: Any) -> Any:
    """Return eigenvalues and LAPACK's vectors."""
    finite, x = finite_part(x, x)
    w, v = mx.linalg.eig(x, stream=mx.cpu)
    if x.dtype == mx.complex64 and x.size:
        v = _correct_vectors(x, w, v)
    return nan_unless(finite, w, 1), nan_unless(finite, v, 2)


def _correct_vectors(x: Any, w: Any, v: Any) -> Any:
    """Return the vectors or their conjugates, whichever satisfy ``x v = w v`` better.

    For complex matrices, MLX up to 0.32.4 returns the conjugates.
    """
    conjugate = mx.conjugate(v)
    residual, conjugate_residual = (
        mx.sum(mx.abs(mx.matmul(x, y, stream=mx.cpu) - y * w[..., None, :]), axis=(-2, -1))
        for y in (v, conjugate)
    )
    return mx.where((residual <= conjugate_residual)[..., None, None], v, conjugate)


@backend.lower(Eigvals)
def eigvals(op: Eigvals, x: Any) -> Any:
    finite, x = finite_part(x, x)
    return nan_unless(finite, mx.linalg.eigvals(x, stream=mx.cpu), 1)


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


if device_choice("fast functions"):
    backend.lower(ProductAndSum)(product_and_sum)


def order_axes(x: Any, axes: tuple[int, ...]) -> Any:
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
    """Return the product of float32 or complex64 matrices, a sum of blocks if it has many terms."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    if are_dynamic(k):
        return sum_in_float64(mx.matmul, a, b)
    # Blocks only pay if their results are no larger than the operands.
    if k <= BLOCK or BLOCK * (m + n) < m * n or not device_choice("sums one by one"):
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


WIDE.update({CholeskyGradient, toeplitz.ToeplitzProduct})


@backend.lower(toeplitz.ToeplitzProduct)
def toeplitz_product(op: toeplitz.ToeplitzProduct, t: Any, x: Any) -> Any:
    """Multiply by Fourier transforms in 32 bits, or by blocks in float64."""
    return toeplitz.product(numpy_like(t), t, x, op.m, op.n)
