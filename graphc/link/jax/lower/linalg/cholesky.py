"""Cholesky factors in ``jax.lax.linalg``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.linalg.cholesky import Cholesky


@backend.lower(Cholesky)
def cholesky(op: Cholesky, x: Any) -> Any:
    """Factorise; a matrix that is not positive definite gives NaN in both triangles."""
    y = lax.linalg.cholesky(x, symmetrize_input=False)
    has_failed = jnp.isnan(jnp.diagonal(y, axis1=-2, axis2=-1)).any(-1)
    return jnp.where(has_failed[..., None, None], jnp.asarray(jnp.nan, y.dtype), y)
