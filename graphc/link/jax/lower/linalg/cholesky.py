"""Cholesky factors in ``jax.lax.linalg``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, ragged, rule
from graphc.link.jax.lower.linalg.triangular import bordered
from graphc.tensor.linalg.cholesky import Cholesky


@backend.lower(Cholesky)
def cholesky(op: Cholesky, x: Any) -> Any:
    """Factorise; a matrix that is not positive definite gives NaN in both triangles."""
    y = lax.linalg.cholesky(x, symmetrize_input=False)
    fails = jnp.isnan(jnp.diagonal(y, axis1=-2, axis2=-1)).any(-1)
    return jnp.where(fails[..., None, None], jnp.asarray(jnp.nan, y.dtype), y)


@rule(Cholesky)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Factorise with an identity block behind."""
    (x,) = values
    return ragged(lowering(node.op, bordered(node, x)), x.shape)
