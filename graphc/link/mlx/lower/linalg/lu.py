"""Triangular factors of real matrices, on the processor."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.arrays import contiguous
from graphc.link.mlx.backend import backend
from graphc.tensor.linalg.lu import LU


@backend.lower(LU)
def lu(op: LU, a: Any) -> Any:
    """LAPACK's, of whose two calls what is not used is not computed."""
    *head, n, m = a.shape
    if not a.size:
        order = mx.broadcast_to(mx.arange(n, dtype=mx.int32), (*head, n))
        return a, mx.zeros((*head, min(n, m)), mx.int32), order
    packed, exchanges = mx.linalg.lu_factor(a, stream=mx.cpu)
    # It says to be eight times as long as it is, in float64. Functions of elements would read and
    # write behind its end; a copy goes by its shape. MLX's own triangles of it are not safe either.
    packed = contiguous(packed)
    # MLX gives the order that puts the rows back.
    back, _, _ = mx.linalg.lu(a, stream=mx.cpu)
    return packed, exchanges.astype(mx.int32), mx.argsort(back, -1).astype(mx.int32)
