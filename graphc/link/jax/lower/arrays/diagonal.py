"""Diagonals, in ``jax.lax``; lengths are Python integers here."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.arrays.diagonal import FromDiagonal, MatrixDiagonal, diagonal_length


@backend.lower(MatrixDiagonal)
def diagonal(op: MatrixDiagonal, x: Any) -> Any:
    """Read a diagonal: its elements lie one row and one column apart."""
    *batch, n, m = x.shape
    count = diagonal_length(n, m, op.offset)
    first = op.offset if op.offset >= 0 else -op.offset * m
    flat = lax.reshape(x, (*batch, n * m))
    if not count:
        return lax.slice_in_dim(flat, 0, 0, axis=-1)
    end = first + (count - 1) * (m + 1) + 1
    return lax.slice_in_dim(flat, first, end, m + 1, axis=-1)


@backend.lower(FromDiagonal)
def from_diagonal(op: FromDiagonal, v: Any, *symbolic: Any) -> Any:
    """Broadcast each element over its row, and select the diagonal."""
    count = v.shape[-1]
    n, m = op.target(count, symbolic)
    before = min(max(-op.offset, 0), n)
    zero = np.zeros((), v.dtype)
    batch_padding = [(0, 0, 0)] * (v.ndim - 1)
    rows = lax.pad(v, zero, [*batch_padding, (before, n - count - before, 0)])
    shape = (*v.shape[:-1], n, m)
    distance = lax.broadcasted_iota(np.int32, (n, m), 1) - lax.broadcasted_iota(np.int32, (n, m), 0)
    is_diagonal = lax.broadcast_in_dim(distance == op.offset, shape, (v.ndim - 1, v.ndim))
    full = lax.broadcast_in_dim(rows, shape, range(v.ndim))
    return lax.select(is_diagonal, full, lax.full_like(full, 0))
