"""Inverses of real matrices from their Cholesky factors, on the processor."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.linalg.cholesky_inverse import CholeskyInverse


@backend.lower(CholeskyInverse)
def cholesky_inverse(op: CholeskyInverse, x: Any) -> Any:
    """LAPACK's, of a triangle that MLX wants zeros beside."""
    return mx.linalg.cholesky_inv(mx.tril(x), stream=mx.cpu) if x.size else x
