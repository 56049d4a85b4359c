"""Cholesky factors in ``jax.lax.linalg``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, make_ragged, rule
from graphc.link.jax.lower.linalg.triangular import pad_with_identity
from graphc.tensor.linalg.cholesky import Cholesky
from graphc.tensor.linalg.cholesky_inverse import CholeskyInverse


@backend.lower(Cholesky)
def cholesky(op: Cholesky, x: Any) -> Any:
    """Factorise; a matrix that is not positive definite gives NaN in both triangles."""
    y = lax.linalg.cholesky(x, symmetrize_input=False)
    has_failed = jnp.isnan(jnp.diagonal(y, axis1=-2, axis2=-1)).any(-1)
    return jnp.where(has_failed[..., None, None], jnp.asarray(jnp.nan, y.dtype), y)


@rule(Cholesky, CholeskyInverse)
def ragged_cholesky(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Factorise, or invert a factor, with an identity block as padding."""
    (x,) = values
    return make_ragged(lowering(node.op, pad_with_identity(node, x)), x.shape)
