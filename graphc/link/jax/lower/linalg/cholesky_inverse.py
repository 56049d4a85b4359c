"""Inverses from Cholesky factors, block by block: ``jax.lax`` has no function for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.export import is_symbolic_dim

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, ragged, rule
from graphc.link.jax.lower.linalg.triangular import bordered
from graphc.tensor.linalg.cholesky_inverse import CholeskyInverse

BLOCK = 128
"""Matrices of no more rows are not taken apart: what is saved then is less than what it costs."""


@backend.lower(CholeskyInverse)
def cholesky_inverse(op: CholeskyInverse, x: Any) -> Any:
    """Invert the triangle, and multiply it by its adjoint."""
    return _product(_inverse(x))


def _inverse(x: Any) -> Any:
    """Invert lower triangles, without computing their zeros."""
    n = x.shape[-1]
    if is_symbolic_dim(n) or n <= BLOCK:
        whole = jnp.broadcast_to(jnp.eye(n, dtype=x.dtype), x.shape)
        return lax.linalg.triangular_solve(x, whole, left_side=True, lower=True)
    first, across, last = _parts(x)
    a, b = _inverse(first), _inverse(last)
    return _whole(a, jnp.zeros_like(jnp.swapaxes(across, -1, -2)), -(b @ (across @ a)), b)


def _product(x: Any) -> Any:
    """``x^H @ x`` of lower triangles; of two equal parts, one is computed."""
    n = x.shape[-1]
    if is_symbolic_dim(n) or n <= BLOCK:
        return _adjoint(x) @ x
    first, across, last = _parts(x)
    low = _adjoint(last) @ across
    return _whole(_product(first) + _adjoint(across) @ across, _adjoint(low), low, _product(last))


def _parts(x: Any) -> tuple[Any, Any, Any]:
    h = x.shape[-1] // 2
    return x[..., :h, :h], x[..., h:, :h], x[..., h:, h:]


def _whole(a: Any, b: Any, c: Any, d: Any) -> Any:
    rows = jnp.concatenate([a, b], -1), jnp.concatenate([c, d], -1)
    return jnp.concatenate(rows, -2)


def _adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -1, -2))


@rule(CholeskyInverse)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Invert with an identity block behind."""
    (x,) = values
    return ragged(lowering(node.op, bordered(node, x)), x.shape)
