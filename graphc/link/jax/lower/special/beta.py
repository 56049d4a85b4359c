"""The inverse of the incomplete beta function in JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax

from graphc.link.jax.lower.special.gamma import newton
from graphc.link.jax.lower.special.special import as_jax_function, in_float64
from graphc.tensor.special.beta import betaincinv, log_beta_first_term, log_beta_tail

log_tail = as_jax_function(log_beta_tail)
log_first_term = as_jax_function(log_beta_first_term)


def _beta_quantile(a: Any, b: Any, p: Any) -> Any:
    """Apply Newton's method to the logarithm of the smaller tail, for the logit of the quantile."""
    is_inside = (a > 0) & (b > 0) & (p > 0) & (p < 1) & (a < np.inf) & (b < np.inf)
    a1, b1, p1 = (jnp.where(is_inside, y, z) for y, z in ((a, 1.0), (b, 1.0), (p, 0.5)))
    upper = p1 > 0.5
    c, d = jnp.where(upper, b1, a1), jnp.where(upper, a1, b1)
    log_p = jnp.log(jnp.where(upper, 1 - p1, p1))
    log_odds = jnp.log(c / d)
    normal = log_odds + jax.scipy.special.ndtri(jnp.exp(log_p)) * jnp.sqrt(1 / c + 1 / d)
    # Invert the tail's first term x**c / (c * beta(c, d)) where x is below 1/2.
    (log_scale,) = log_first_term(c, d)
    power = (log_p + log_scale) / c
    is_small = power < np.log(0.5)
    power = jnp.where(is_small, power - jnp.log1p(-jnp.exp(jnp.where(is_small, power, -1))), np.inf)

    def f(u: Any) -> Any:
        tail, slope = log_tail(c, d, lax.logistic(u), lax.logistic(-u))
        return tail - log_p, slope

    u = newton(f, jnp.where((c > 1) & (d > 1), normal, jnp.minimum(log_odds, power)))
    at_bounds = jnp.where((a > 0) & (b > 0) & ((p == 0) | (p == 1)), p, np.nan)
    return jnp.where(is_inside, lax.logistic(jnp.where(upper, -u, u)), at_bounds)


in_float64(betaincinv, _beta_quantile)
