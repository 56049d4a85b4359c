"""Triangular systems of real numbers, on the processor."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.arrays import contiguous
from graphc.link.mlx.backend import backend
from graphc.tensor.linalg.triangular import SolveTriangular


@backend.lower(SolveTriangular)
def solve_triangular(op: SolveTriangular, a: Any, b: Any) -> Any:
    """MLX has neither transposes nor ones that are not read; both are made before.

    A zero on the diagonal, which it refuses, becomes NaN.
    """
    if not b.size:
        return b
    places = mx.arange(a.shape[-1])
    fixed = mx.array(1 if op.unit_diagonal else mx.nan, a.dtype)
    changed = mx.equal(places[:, None], places)
    if not op.unit_diagonal:
        changed = mx.logical_and(changed, mx.equal(a, 0))
    a = mx.where(changed, fixed, a)
    if op.transposed:
        a = contiguous(mx.swapaxes(a, -1, -2))
    upper = op.lower == op.transposed
    return mx.linalg.solve_triangular(a, b, upper=upper, stream=mx.cpu)
