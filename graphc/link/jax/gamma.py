"""The gamma functions in JAX; those that it has lose digits in float32, next to their zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax

from graphc.link.jax.special import in_float64, traced
from graphc.tensor.gamma import (
    beta_below,
    beta_share,
    betaincinv,
    betaln,
    digamma,
    gamma,
    gamma_share,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
)

__all__: list[str] = []


def _digamma(x: Any) -> Any:
    """At 0 a pole whose sides differ, as its sign tells."""
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


gamma_tails = traced(lambda a, x: [gammainc(a, x), gammaincc(a, x), a * gamma_share(a, x)])
beta_tail = traced(lambda a, b, x, y: [beta_below(a, b, x, y), a * beta_share(a, b, x, y)])
beta_size = traced(lambda a, b: [betaln(a, b)])


def _gamma_quantile(a: Any, p: Any, q: Any) -> Any:
    """The x at which the lower tail is p, and the upper one q = 1 - p."""
    sound = (a > 0) & (a < np.inf) & (p > 0) & (q > 0)
    a1, p1, q1 = (jnp.where(sound, y, z) for y, z in ((a, 1.0), (p, 0.5), (q, 0.5)))
    lower = p1 < q1
    z = jnp.where(lower, jax.scipy.special.ndtri(p1), -jax.scipy.special.ndtri(q1))
    # Wilson and Hilferty's cube is near enough for a > 1.
    cube = 1 - 1 / (9 * a1) + z / (3 * jnp.sqrt(a1))
    power = (jnp.log(p1) + lax.lgamma(a1 + 1)) / a1
    small = jnp.where(lower, power, jnp.log(-jnp.log(q1)))
    large = jnp.where(cube > 0.1, jnp.log(a1) + 3 * jnp.log(jnp.maximum(cube, 0.1)), power)

    def f(u: Any) -> Any:
        below, above, density = gamma_tails(a1, jnp.exp(u))
        tail = jnp.where(lower, below, above)
        slope = jnp.where(tail > 0, density / tail, 1)
        return jnp.log(tail / jnp.where(lower, p1, q1)), jnp.where(lower, slope, -slope)

    y = jnp.exp(newton(f, jnp.where(a1 > 1, large, small)))
    inside = (a > 0) & (p >= 0) & (q >= 0)
    edge = jnp.where(inside, jnp.where(p == 0, 0.0, jnp.where(q == 0, np.inf, np.nan)), np.nan)
    return jnp.where(sound, y, jnp.where((a == 0) & (p >= 0) & (q >= 0), 0.0, edge))


def _beta_quantile(a: Any, b: Any, p: Any) -> Any:
    """From the smaller of the two tails, as its logit."""
    sound = (a > 0) & (b > 0) & (p > 0) & (p < 1) & (a < np.inf) & (b < np.inf)
    a, b, p1 = (jnp.where(sound, y, z) for y, z in ((a, 1.0), (b, 1.0), (p, 0.5)))
    upper = p1 > 0.5
    c, d, t = jnp.where(upper, b, a), jnp.where(upper, a, b), jnp.where(upper, 1 - p1, p1)
    normal = jnp.log(c / d) + jax.scipy.special.ndtri(t) * jnp.sqrt(1 / c + 1 / d)
    (size,) = beta_size(c, d)
    power = jnp.minimum((jnp.log(t) + jnp.log(c) + size) / c, np.log(0.5))
    power = jnp.where(power < np.log(0.5), power - jnp.log1p(-jnp.exp(power)), np.inf)
    power = jnp.minimum(jnp.log(c / d), power)

    def f(u: Any) -> Any:
        tail, density = beta_tail(c, d, lax.logistic(u), lax.logistic(-u))
        return jnp.log(tail / t), jnp.where(tail > 0, density / tail, 1)

    u = newton(f, jnp.where((c > 1) & (d > 1), normal, power))
    y = lax.logistic(jnp.where(upper, -u, u))
    edge = jnp.where((p == 0) | (p == 1), p, np.nan)
    return jnp.where(sound, y, edge)


in_float64(gammaincinv, lambda a, y: _gamma_quantile(a, y, 1 - y))
in_float64(gammainccinv, lambda a, y: _gamma_quantile(a, 1 - y, y))
in_float64(betaincinv, _beta_quantile)
