"""Special functions, by ``jax.scipy.special`` where it is exact, in float64.

In float32 the exponentials of Bessel functions overflow before their products, and gamma functions
lose digits near their zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax

from graphc.ir import Graph, TensorType, dtype_name
from graphc.link.jax.backend import WIDENED, backend
from graphc.link.jax.lower.elementwise import broadcast_operands, in_float32
from graphc.link.legalize import inline
from graphc.link.program import Program
from graphc.tensor.core.elementwise import Elementwise
from graphc.tensor.special.bessel import i0, i0e, i1, i1e
from graphc.tensor.special.beta import betaincinv, log_beta_first_term, log_beta_tail
from graphc.tensor.special.gamma import digamma, gamma, gammaln
from graphc.tensor.special.hypergeometric import (
    hyp2f1,
    hyp2f1_below_one,
    hyp2f1_by_a,
    hyp2f1_by_b,
    hyp2f1_by_c,
    slope,
)
from graphc.tensor.special.series import polynomial
from graphc.tensor.special.special import erfcx, ndtr, ndtri


def in_float64(row: Elementwise, compute: Callable[..., Any]) -> None:
    """Register a lowering that computes in float64 for every dtype."""

    def lower(op: Elementwise, *xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype == "float64":
            return compute(*broadcast_operands(*xs))
        wide = broadcast_operands(*[lax.convert_element_type(x, "float64") for x in xs])
        return lax.convert_element_type(compute(*wide), dtype)

    backend.lower(row)(lower)
    WIDENED.add(row)


INVERSE_SQUARES = (1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0, -135135.0)


def _erfcx(x: Any) -> Any:
    """Return erfcx: JAX's underflows near 26.6, so use a series from 20 on (DLMF 7.12.1)."""
    far = jnp.where(x > 20, x, 20)
    series = polynomial(1 / (2 * far * far), INVERSE_SQUARES) / (far * math.sqrt(math.pi))
    return jnp.where(x > 20, series, jax.scipy.special.erfcx(jnp.minimum(x, 20)))


in_float64(erfcx, _erfcx)

for _row, _compute in {ndtr: jax.scipy.special.ndtr, ndtri: jax.scipy.special.ndtri}.items():
    _narrow = in_float32(_compute)
    backend.lower(_row)(lambda op, x, compute=_narrow: compute(x))


def as_jax_function(expand: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of JAX arrays that computes a graph's function, for use in loops."""

    def compute(*xs: Any) -> Any:
        inputs = [TensorType(dtype_name(x.dtype), x.shape)() for x in xs]
        graph = inline(Graph(inputs, expand(*inputs)), backend)
        return Program(graph, backend, None).trace(*xs)

    return compute


in_float64(i0, jax.scipy.special.i0)
in_float64(i1, jax.scipy.special.i1)
in_float64(i0e, jax.scipy.special.i0e)
in_float64(i1e, jax.scipy.special.i1e)


in_float64(gamma, jax.scipy.special.gamma)
in_float64(gammaln, lambda x: jnp.where(x == -np.inf, x, lax.lgamma(x)))
# digamma(-0.0) = inf, and digamma(0.0) = -inf
in_float64(digamma, lambda x: jnp.where(x == 0, -1 / x, lax.digamma(x)))


# The inverse of the incomplete beta function, whose definition XLA compiles slowly: Newton's method
# for log(smaller tail) as a function of the logit of the quantile.

MAX_NEWTON_STEPS = 100
LONGEST_STEP = 20.0
"""The limit of a step, which is reached where the tail is flat."""


def newton(f: Callable[[Any], tuple[Any, Any]], start: Any) -> Any:
    """Return a root of ``f``, which returns its value and its derivative, elementwise."""

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


log_tail = as_jax_function(log_beta_tail)
log_first_term = as_jax_function(log_beta_first_term)


def _beta_quantile(a: Any, b: Any, p: Any) -> Any:
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
for _which, _slope in enumerate((hyp2f1_by_a, hyp2f1_by_b, hyp2f1_by_c)):
    in_float64(
        _slope,
        lambda *xs, which=_which: slope(jnp, lax.while_loop, which, *jnp.broadcast_arrays(*xs)),
    )
