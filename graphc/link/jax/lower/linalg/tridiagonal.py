"""Tridiagonal systems in ``jax.lax.linalg``."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.linalg.tridiagonal import SolveTridiagonal


@backend.lower(SolveTridiagonal)
def solve_tridiagonal(op: SolveTridiagonal, low: Any, d: Any, up: Any, b: Any) -> Any:
    """Solve by LAPACK with partial pivoting."""
    if not b.size:
        return b
    return lax.linalg.tridiagonal_solve(low, d, up, b)
