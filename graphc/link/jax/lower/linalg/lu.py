"""LU factors and pivots in ``jax.lax.linalg``."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.linalg.lu import LU, PivotsToPermutation


@backend.lower(LU)
def lu(op: LU, a: Any) -> Any:
    return tuple(lax.linalg.lu(a))


@backend.lower(PivotsToPermutation)
def pivots_to_permutation(op: PivotsToPermutation, exchanges: Any, x: Any) -> Any:
    return lax.linalg.lu_pivots_to_permutation(exchanges, x.shape[0])
