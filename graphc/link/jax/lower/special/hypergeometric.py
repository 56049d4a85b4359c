"""The hypergeometric function in JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.lower.special.special import in_float64
from graphc.tensor.special.hypergeometric import (
    hyp2f1,
    hyp2f1_below_one,
    hyp2f1_by_a,
    hyp2f1_by_b,
    hyp2f1_by_c,
    slope,
)


def _hyp2f1(a: Any, b: Any, c: Any, z: Any) -> Any:
    a, b, c, z = jnp.broadcast_arrays(a, b, c, z)
    polynomial = _is_pole(a) | _is_pole(b)
    # Euler's transformation (DLMF 15.8.1) where it gives a polynomial: in the series, the slowly
    # decaying terms would cancel. An integer power is real beyond z = 1 too.
    power = c - a - b
    is_real = (z < 1) | ((z > 1) & (power == jnp.floor(power)))
    is_transformed = ~polynomial & is_real & (_is_pole(c - a) | _is_pole(c - b))
    has_series = ((z < 1) | polynomial | is_transformed) & jnp.isfinite(a + b + c + z)
    is_transformed = is_transformed & has_series
    factor = jnp.where(is_transformed, (1 - jnp.where(is_transformed, z, 0)) ** power, 1)
    first, second = (jnp.where(is_transformed, c - x, x) for x in (a, b))
    parameters = [jnp.where(has_series, x, 1.0) for x in (first, second, c)]
    y = factor * hyp2f1_below_one(jnp, lax.while_loop, *parameters, jnp.where(has_series, z, 0.0))
    # Gauss's sum (DLMF 15.4.20).
    gauss_sum = jnp.exp(lax.lgamma(c) + lax.lgamma(power) - lax.lgamma(c - a) - lax.lgamma(c - b))
    sign = _sign(c) * _sign(power) * _sign(c - a) * _sign(c - b)
    at_one = jnp.where(power > 0, sign * gauss_sum, np.inf)
    other = jnp.where(z == 1, at_one, jnp.where(z > 1, np.inf, np.nan))
    other = jnp.where(jnp.isnan(a + b + c + z), np.nan, other)
    return jnp.where(has_series, y, other)


def _is_pole(x: Any) -> Any:
    return (x <= 0) & (x == jnp.floor(x))


def _sign(x: Any) -> Any:
    return jnp.where(x < 0, 1 - 2 * (jnp.floor(x) % 2), 1)


in_float64(hyp2f1, _hyp2f1)
for _which, _row in enumerate((hyp2f1_by_a, hyp2f1_by_b, hyp2f1_by_c)):
    in_float64(
        _row,
        lambda *xs, which=_which: slope(jnp, lax.while_loop, which, *jnp.broadcast_arrays(*xs)),
    )
