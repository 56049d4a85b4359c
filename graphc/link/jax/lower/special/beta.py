"""The inverse of the incomplete beta function in JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax

from graphc.link.jax.lower.special.gamma import newton
from graphc.link.jax.lower.special.special import in_float64, traced
from graphc.tensor.special.beta import betaincinv, log_beta_first_term, log_beta_tail

log_tail = traced(log_beta_tail)
log_first_term = traced(log_beta_first_term)


def _beta_quantile(a: Any, b: Any, p: Any) -> Any:
    """Solve from the smaller of the two tails, for the logit."""
    sound = (a > 0) & (b > 0) & (p > 0) & (p < 1) & (a < np.inf) & (b < np.inf)
    a1, b1, p1 = (jnp.where(sound, y, z) for y, z in ((a, 1.0), (b, 1.0), (p, 0.5)))
    upper = p1 > 0.5
    c, d = jnp.where(upper, b1, a1), jnp.where(upper, a1, b1)
    wanted = jnp.log(jnp.where(upper, 1 - p1, p1))
    middle = jnp.log(c / d)
    normal = middle + jax.scipy.special.ndtri(jnp.exp(wanted)) * jnp.sqrt(1 / c + 1 / d)
    # Of the tail's first term x**c / (c * beta(c, d)), where that is below 1/2.
    (size,) = log_first_term(c, d)
    power = (wanted + size) / c
    early = power < np.log(0.5)
    power = jnp.where(early, power - jnp.log1p(-jnp.exp(jnp.where(early, power, -1))), np.inf)

    def f(u: Any) -> Any:
        tail, slope = log_tail(c, d, lax.logistic(u), lax.logistic(-u))
        return tail - wanted, slope

    u = newton(f, jnp.where((c > 1) & (d > 1), normal, jnp.minimum(middle, power)))
    edge = jnp.where((a > 0) & (b > 0) & ((p == 0) | (p == 1)), p, np.nan)
    return jnp.where(sound, lax.logistic(jnp.where(upper, -u, u)), edge)


in_float64(betaincinv, _beta_quantile)
