"""Inverses from Cholesky factors, block by block, which ``jax.lax`` lacks."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.export import is_symbolic_dim

from graphc.link.jax.backend import backend
from graphc.tensor.linalg.cholesky_inverse import CholeskyInverse

MAX_DIRECT_ROWS = 128
"""Smaller matrices are not split into blocks: the split would take longer than it saves."""


@backend.lower(CholeskyInverse)
def cholesky_inverse(op: CholeskyInverse, x: Any) -> Any:
    """Invert the triangle, and multiply it by its adjoint."""
    return _product(_inverse(x))


def _inverse(x: Any) -> Any:
    """Invert lower triangular matrices without computing the zeros."""
    n = x.shape[-1]
    if is_symbolic_dim(n) or n <= MAX_DIRECT_ROWS:
        identity = jnp.broadcast_to(jnp.eye(n, dtype=x.dtype), x.shape)
        return lax.linalg.triangular_solve(x, identity, left_side=True, lower=True)
    first, off_diagonal, last = _blocks(x)
    a, b = _inverse(first), _inverse(last)
    return _block_matrix(
        a, jnp.zeros_like(jnp.swapaxes(off_diagonal, -1, -2)), -(b @ (off_diagonal @ a)), b
    )


def _product(x: Any) -> Any:
    """Return ``x^H @ x`` of lower triangular matrices; of the off-diagonal blocks compute one."""
    n = x.shape[-1]
    if is_symbolic_dim(n) or n <= MAX_DIRECT_ROWS:
        return _adjoint(x) @ x
    first, off_diagonal, last = _blocks(x)
    lower_left = _adjoint(last) @ off_diagonal
    return _block_matrix(
        _product(first) + _adjoint(off_diagonal) @ off_diagonal,
        _adjoint(lower_left),
        lower_left,
        _product(last),
    )


def _blocks(x: Any) -> tuple[Any, Any, Any]:
    h = x.shape[-1] // 2
    return x[..., :h, :h], x[..., h:, :h], x[..., h:, h:]


def _block_matrix(a: Any, b: Any, c: Any, d: Any) -> Any:
    rows = jnp.concatenate([a, b], -1), jnp.concatenate([c, d], -1)
    return jnp.concatenate(rows, -2)


def _adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -1, -2))
