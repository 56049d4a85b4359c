"""Triangular systems in ``jax.lax.linalg``."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.linalg.triangular import SolveTriangular


@backend.lower(SolveTriangular)
def solve_triangular(op: SolveTriangular, a: Any, b: Any) -> Any:
    """Solve by BLAS."""
    return lax.linalg.triangular_solve(
        a,
        b,
        left_side=True,
        lower=op.lower,
        transpose_a=op.transposed,
        unit_diagonal=op.unit_diagonal,
    )
