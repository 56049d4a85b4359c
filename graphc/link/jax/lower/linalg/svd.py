"""Singular values in ``jax.lax.linalg``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.linalg.svd import SVD, Svdvals


def are_finite(x: Any) -> Any:
    """Return which matrices are finite; for others JAX gives NaN in some results only."""
    return jnp.all(jnp.isfinite(x), axis=(-2, -1))


def nan_unless(finite: Any, y: Any) -> Any:
    """Replace the results of matrices that are not finite by NaN."""
    return jnp.where(lax.expand_dims(finite, range(finite.ndim, y.ndim)), y, jnp.nan)


@backend.lower(SVD)
def svd(op: SVD, x: Any) -> Any:
    """Decompose; NaN for a matrix that is not finite."""
    finite = are_finite(x)
    return tuple(nan_unless(finite, y) for y in lax.linalg.svd(x, full_matrices=op.full))


@backend.lower(Svdvals)
def svdvals(op: Svdvals, x: Any) -> Any:
    return nan_unless(are_finite(x), lax.linalg.svd(x, compute_uv=False))
