"""Exponentials of matrices by scaling and squaring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, Ragged, agree, cut, ragged, rule, unequal, zero_beyond
from graphc.tensor.linalg.expm import LIMIT, PADE, Expm


@backend.lower(Expm)
def expm(op: Expm, a: Any) -> Any:
    """Scale and square all matrices together, each as often as it needs."""
    if not a.size:
        return a
    norms = jnp.abs(a).sum(-2).max(-1)
    finite = jnp.isfinite(norms)
    norms = jnp.where(finite, norms, 0)
    _, exponents = jnp.frexp(norms / LIMIT)
    times = jnp.maximum(exponents, 0).astype(np.int32)[..., None, None]
    scale = jnp.ldexp(jnp.ones_like(norms), -times[..., 0, 0])[..., None, None]
    y = approximant(jnp.where(finite[..., None, None], a, 0) * scale.astype(a.dtype))

    def squared(i: Any, y: Any) -> Any:
        return jnp.where(i < times, _times(y, y), y)

    y = lax.fori_loop(0, times.max(), squared, y)
    return jnp.where(finite[..., None, None], y, jnp.asarray(jnp.nan, y.dtype))


def _times(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def approximant(a: Any) -> Any:
    """Return the Padé approximant of exp, for matrices with a norm within its limit."""
    b = PADE
    one = jnp.eye(a.shape[-1], dtype=a.dtype)
    a2 = _times(a, a)
    a4 = _times(a2, a2)
    a6 = _times(a2, a4)
    odd = _times(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
    odd = _times(a, odd + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = _times(a6, b[12] * a6 + b[10] * a4 + b[8] * a2)
    even = even + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    factors, _, order = lax.linalg.lu(even - odd)
    right = jnp.take_along_axis(even + odd, order[..., None], -2)
    inner = lax.linalg.triangular_solve(
        factors, right, left_side=True, lower=True, unit_diagonal=True
    )
    return lax.linalg.triangular_solve(factors, inner, left_side=True, lower=False)


@rule(Expm)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Exponentiate with zeros behind matrices of unknown length, which make an identity block."""
    (x,) = values
    assert isinstance(x, Ragged)
    n, m = x.shape[-2:]
    agree(n, m, unequal(node))
    size = min(x.buffer.shape[-2:])
    buffer = zero_beyond(x, (x.ndim - 2, x.ndim - 1))
    for axis in (x.ndim - 2, x.ndim - 1):
        buffer = cut(buffer, size, axis)
    return ragged(lowering(node.op, buffer), x.shape)
