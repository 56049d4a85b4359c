"""Cholesky factors of real matrices, on the processor."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.linalg.cholesky import Cholesky


@backend.lower(Cholesky)
def cholesky(op: Cholesky, x: Any) -> Any:
    """NaN where a pivot is not positive: LAPACK stops there and leaves it on the diagonal."""
    if not x.size:
        return x
    y = mx.linalg.cholesky(x, stream=mx.cpu)
    holds = mx.all(mx.diagonal(y, 0, -2, -1) > 0, -1)
    return mx.where(holds[..., None, None], y, mx.array(mx.nan, y.dtype))
