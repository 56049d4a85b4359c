"""Gamma functions in float64: JAX's lose digits in float32 near their zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax

from graphc.link.jax.lower.special.special import as_jax_function, in_float64
from graphc.tensor.special.gamma import (
    digamma,
    gamma,
    gammainccinv,
    gammaincinv,
    gammaln,
    log_gamma_tails,
)


def _digamma(x: Any) -> Any:
    """Return digamma; ``digamma(-0.0) = inf`` and ``digamma(0.0) = -inf``."""
    return jnp.where(x == 0, -1 / x, lax.digamma(x))


in_float64(gamma, jax.scipy.special.gamma)
in_float64(gammaln, lambda x: jnp.where(x == -np.inf, x, lax.lgamma(x)))
in_float64(digamma, _digamma)


# Inverses: Newton's method for log(smaller tail) as a function of log(x). This function is concave,
# so that the iterates stay on one side of the root.

MAX_NEWTON_STEPS = 100
LONGEST_STEP = 20.0
"""The limit of a step, which is reached where the tail is flat."""


def newton(f: Callable[[Any], tuple[Any, Any]], start: Any) -> Any:
    """Return a root by Newton's method, elementwise.

    Args:
        f: Returns the value and the derivative.
        start: The first iterate.
    """

    def is_running(state: Any) -> Any:
        _, step, count = state
        return lax.bitwise_and(jnp.any(jnp.abs(step) > 1e-15), count < MAX_NEWTON_STEPS)

    def advance(state: Any) -> Any:
        u, step, count = state
        value, derivative = f(u)
        new = jnp.clip(jnp.nan_to_num(value / derivative), -LONGEST_STEP, LONGEST_STEP)
        # A step that no longer shrinks is rounding.
        is_rounding = (jnp.abs(new) < 1e-10 * (1 + jnp.abs(u))) & (
            jnp.abs(new) >= jnp.abs(step) / 2
        )
        new = jnp.where((step == 0) | is_rounding, 0, new)
        return u - new, new, count + 1

    return lax.while_loop(is_running, advance, (start, jnp.full_like(start, np.inf), 0))[0]


log_tails = as_jax_function(log_gamma_tails)


def _gamma_quantile(a: Any, p: Any, q: Any) -> Any:
    """Return the x whose lower tail is p, and whose upper tail is q = 1 - p."""
    is_inside = (a > 0) & (a < np.inf) & (p > 0) & (q > 0)
    a1, p1, q1 = (jnp.where(is_inside, y, z) for y, z in ((a, 1.0), (p, 0.5), (q, 0.5)))
    # Products with a smaller a are subnormal.
    a1 = jnp.maximum(a1, 1e-290)
    lower = p1 < q1
    smaller = jnp.where(lower, p1, q1)
    z = jax.scipy.special.ndtri(smaller)
    # Wilson and Hilferty's cube is a good start for a > 1.
    cube = 1 - 1 / (9 * a1) + jnp.where(lower, z, -z) / (3 * jnp.sqrt(a1))
    power = (jnp.log(p1) + lax.lgamma(a1 + 1)) / a1
    small = jnp.where(lower, power, jnp.log(-jnp.log(q1)))
    large = jnp.where(cube > 0.1, jnp.log(a1) + 3 * jnp.log(jnp.maximum(cube, 0.1)), power)
    log_p = jnp.log(smaller)

    def f(u: Any) -> Any:
        x = jnp.exp(u)
        below, above, density = log_tails(a1, jnp.where(x > 0, x, 1))
        tail = jnp.where(lower, below, above)
        derivative = jnp.exp(density - tail)
        # Make no further step where exp(u) underflows to 0.
        return jnp.where(x > 0, tail - log_p, 0), jnp.where(lower, derivative, -derivative)

    y = jnp.exp(newton(f, jnp.where(a1 > 1, large, small)))
    return jnp.where(is_inside, y, _gamma_edge(a, p, q))


def _gamma_edge(a: Any, p: Any, q: Any) -> Any:
    """Return the quantile where a tail is empty."""
    inside = (a >= 0) & (p >= 0) & (q >= 0)
    y = jnp.where(q == 0, np.inf, jnp.where(p == 0, 0.0, np.nan))
    return jnp.where(inside, y, np.nan)


in_float64(gammaincinv, lambda a, y: _gamma_quantile(a, y, 1 - y))
in_float64(gammainccinv, lambda a, y: _gamma_quantile(a, 1 - y, y))
