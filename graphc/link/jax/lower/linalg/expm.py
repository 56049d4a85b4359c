"""Exponentials of matrices by scaling and squaring."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.linalg.expm import LIMIT, PADE, Expm


@backend.lower(Expm)
def expm(op: Expm, a: Any) -> Any:
    """Scale and square each matrix as often as its norm needs."""
    if not a.size:
        return a
    norms = jnp.abs(a).sum(-2).max(-1)
    is_finite = jnp.isfinite(norms)
    norms = jnp.where(is_finite, norms, 0)
    _, exponents = jnp.frexp(norms / LIMIT)
    squarings = jnp.maximum(exponents, 0).astype(np.int32)[..., None, None]
    scale = jnp.ldexp(jnp.ones_like(norms), -squarings[..., 0, 0])[..., None, None]
    y = pade_approximant(jnp.where(is_finite[..., None, None], a, 0) * scale.astype(a.dtype))

    def square(i: Any, y: Any) -> Any:
        return jnp.where(i < squarings, _matmul(y, y), y)

    y = lax.fori_loop(0, squarings.max(), square, y)
    return jnp.where(is_finite[..., None, None], y, jnp.asarray(jnp.nan, y.dtype))


def _matmul(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def pade_approximant(a: Any) -> Any:
    """Return the Padé approximant of exp for matrices of norm up to ``LIMIT``."""
    b = PADE
    one = jnp.eye(a.shape[-1], dtype=a.dtype)
    a2 = _matmul(a, a)
    a4 = _matmul(a2, a2)
    a6 = _matmul(a2, a4)
    odd = _matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
    odd = _matmul(a, odd + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = _matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2)
    even = even + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    factors, _, order = lax.linalg.lu(even - odd)
    right = jnp.take_along_axis(even + odd, order[..., None], -2)
    inner = lax.linalg.triangular_solve(
        factors, right, left_side=True, lower=True, unit_diagonal=True
    )
    return lax.linalg.triangular_solve(factors, inner, left_side=True, lower=False)
