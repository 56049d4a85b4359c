"""Singular values, on the processor."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.linalg.svd import SVD, Svdvals


def finite_part(x: Any, read: Any) -> tuple[Any, Any]:
    """Which matrices are finite where they are read, and zeros in place of the others."""
    finite = mx.all(mx.isfinite(read), axis=(-2, -1))
    return finite, mx.where(finite[..., None, None], x, mx.zeros_like(x))


def nan_unless(finite: Any, y: Any, axes: int) -> Any:
    """NaN in the results of matrices that were not finite."""
    # A factor, as MLX's C++ kernels have no complex NaN.
    factor = mx.where(finite, mx.array(1.0), mx.array(float("nan"))).astype(y.dtype)
    return y * factor[(..., *[None] * axes)]


@backend.lower(SVD)
def svd(op: SVD, x: Any) -> Any:
    """MLX raises where a matrix is not finite, and always has full matrices.

    Of many rows, what is to be decomposed is r of a QR factorisation.
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
    """Without vectors."""
    finite, x = finite_part(x, x)
    if not x.size:
        return mx.zeros((*x.shape[:-2], min(x.shape[-2:])), mx.abs(x).dtype)
    s = mx.linalg.svd(x, compute_uv=False, stream=mx.cpu)
    return nan_unless(finite, s, 1)
