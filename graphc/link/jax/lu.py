"""Triangular factors and exchanges of rows in ``jax.lax.linalg``."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.lu import LU, PivotsToPermutation

__all__: list[str] = []


@backend.lower(LU)
def lu(op: LU, a: Any) -> Any:
    """LAPACK's."""
    return tuple(lax.linalg.lu(a))


@backend.lower(PivotsToPermutation)
def pivots_to_permutation(op: PivotsToPermutation, exchanges: Any, x: Any) -> Any:
    """One exchange after the other."""
    return lax.linalg.lu_pivots_to_permutation(exchanges, x.shape[0])
