"""Gamma functions in JAX, whose own lose digits in float32 near their zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax

from graphc.link.jax.lower.special.special import in_float64, traced
from graphc.tensor.special.gamma import (
    digamma,
    gamma,
    gammainccinv,
    gammaincinv,
    gammaln,
    log_gamma_tails,
)


def _digamma(x: Any) -> Any:
    """Return digamma; at 0 its sign of infinity follows that of the zero."""
    return jnp.where(x == 0, -1 / x, lax.digamma(x))


in_float64(gamma, jax.scipy.special.gamma)
in_float64(gammaln, lambda x: jnp.where(x == -np.inf, x, lax.lgamma(x)))
in_float64(digamma, _digamma)


# Inverses: Newton's rule for the logarithm of the smaller tail, by that of the bound. It is
# concave, so that steps from the one side of the root stay on it.

ROUNDS = 100
LONGEST = 20.0
"""The longest step, for where the tail is flat."""


def newton(f: Callable[[Any], tuple[Any, Any]], start: Any) -> Any:
    """The root of a function that is given with its slope."""

    def unfinished(state: Any) -> Any:
        _, step, count = state
        return lax.bitwise_and(jnp.any(jnp.abs(step) > 1e-15), count < ROUNDS)

    def moved(state: Any) -> Any:
        u, step, count = state
        value, slope = f(u)
        found = jnp.clip(jnp.nan_to_num(value / slope), -LONGEST, LONGEST)
        # A step that no longer shrinks is rounding.
        over = (jnp.abs(found) < 1e-10 * (1 + jnp.abs(u))) & (jnp.abs(found) >= jnp.abs(step) / 2)
        found = jnp.where((step == 0) | over, 0, found)
        return u - found, found, count + 1

    return lax.while_loop(unfinished, moved, (start, jnp.full_like(start, np.inf), 0))[0]


log_tails = traced(log_gamma_tails)


def _gamma_quantile(a: Any, p: Any, q: Any) -> Any:
    """The x at which the lower tail is p, and the upper one q = 1 - p."""
    sound = (a > 0) & (a < np.inf) & (p > 0) & (q > 0)
    a1, p1, q1 = (jnp.where(sound, y, z) for y, z in ((a, 1.0), (p, 0.5), (q, 0.5)))
    # Products with a smaller one are subnormal.
    a1 = jnp.maximum(a1, 1e-290)
    lower = p1 < q1
    smaller = jnp.where(lower, p1, q1)
    z = jax.scipy.special.ndtri(smaller)
    # Wilson and Hilferty's cube is near enough for a > 1.
    cube = 1 - 1 / (9 * a1) + jnp.where(lower, z, -z) / (3 * jnp.sqrt(a1))
    power = (jnp.log(p1) + lax.lgamma(a1 + 1)) / a1
    small = jnp.where(lower, power, jnp.log(-jnp.log(q1)))
    large = jnp.where(cube > 0.1, jnp.log(a1) + 3 * jnp.log(jnp.maximum(cube, 0.1)), power)
    wanted = jnp.log(smaller)

    def f(u: Any) -> Any:
        x = jnp.exp(u)
        below, above, density = log_tails(a1, jnp.where(x > 0, x, 1))
        tail = jnp.where(lower, below, above)
        slope = jnp.exp(density - tail)
        # An x that is 0 is no further from the root.
        return jnp.where(x > 0, tail - wanted, 0), jnp.where(lower, slope, -slope)

    y = jnp.exp(newton(f, jnp.where(a1 > 1, large, small)))
    return jnp.where(sound, y, _gamma_edge(a, p, q))


def _gamma_edge(a: Any, p: Any, q: Any) -> Any:
    """Return the quantile where a tail is empty."""
    inside = (a >= 0) & (p >= 0) & (q >= 0)
    y = jnp.where(q == 0, np.inf, jnp.where(p == 0, 0.0, np.nan))
    return jnp.where(inside, y, np.nan)


in_float64(gammaincinv, lambda a, y: _gamma_quantile(a, y, 1 - y))
in_float64(gammainccinv, lambda a, y: _gamma_quantile(a, 1 - y, y))
