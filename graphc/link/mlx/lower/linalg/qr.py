"""Orthonormal factors of real matrices, on the processor."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.linalg.qr import QR


@backend.lower(QR)
def qr(op: QR, x: Any) -> Any:
    """A full q is that of x with columns of zeros behind, which no reflection changes."""
    *front, m, n = x.shape
    if not op.full or m <= n:
        return tuple(mx.linalg.qr(x, stream=mx.cpu))
    padded = mx.concatenate([x, mx.zeros((*front, m, m - n), x.dtype)], -1)
    q, r = mx.linalg.qr(padded, stream=mx.cpu)
    return q, r[..., :n]
