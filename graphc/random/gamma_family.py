"""The gamma distribution, and distributions derived from it: beta, Dirichlet, chi-square, t."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.loop.functional import loop
from graphc.random.distribution import distribution
from graphc.random.gaussian import normals
from graphc.random.inversion import exponentials
from graphc.random.keys import Lengths, Words, child
from graphc.random.reparameterized import ReparameterizedDraw, draw_each
from graphc.random.uniform import uniforms
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.arrays.reduce import all
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.exponential import exp, log
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.special.gamma import log_gamma_by_a
from graphc.tensor.special.special import softmax

__all__ = ["beta", "chisquare", "dirichlet", "gamma", "gengamma", "invgamma", "t"]

MAX_CANDIDATES = 1000
"""The largest number of candidates for a draw; more than 19 in 20 are accepted."""

SQUEEZE = 0.0331
"""For a candidate z, ``1 - SQUEEZE * z**4`` is a lower bound of the acceptance probability."""


def _draw_by_rejection(words: Words, a: Tensor) -> Tensor:
    """Draw with shape a >= 1, divided by ``a - 1/3``: cubes of normal numbers, with rejection.

    Source: Marsaglia & Tsang, A simple method for generating gamma variables, ACM TOMS 26(3), 2000.
    """
    dtype = a.dtype
    d = a - 1 / 3
    c = (1 / 3) / ew.sqrt(d)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        key, inner, uniform, again, done, draws = carry
        key, inner, uniform = (
            tuple([ew.where(again, new, old) for new, old in zip(child(key, i), now, strict=True)])
            for i, now in enumerate((key, inner, uniform))
        )
        inner, key_normal = child(inner, 0), child(inner, 1)
        z = normals(key_normal, (), dtype)
        v = 1 + z * c
        # Where v is not positive, z is drawn again and compared with the same uniform number.
        again = ew.logical_not(ew.less_equal(v, 0))
        square, cube = z * z, v * v * v
        u = uniforms(uniform, (), dtype)
        rejected = ew.logical_and(
            ew.greater_equal(u, 1 - SQUEEZE * (square * square)),
            ew.greater_equal(log(u), square / 2 + d * (1 - cube + log(cube))),
        )
        good = ew.logical_and(again, ew.logical_not(rejected))
        fresh = ew.logical_and(good, ew.logical_not(done))
        return (
            key,
            inner,
            uniform,
            again,
            ew.logical_or(done, good),
            ew.where(fresh, cube, draws),
        ), None

    first = zeros_like(a, "bool")
    carry = (words, words, words, ew.logical_not(first), first, zeros_like(a))
    (*_, draws), _ = loop(step, carry, until=lambda carry: all(carry[4]), max_steps=MAX_CANDIDATES)
    return draws  # type: ignore[no-any-return]


def _draw_high_shape(k0: Tensor, k1: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return whether a is at least 1, the shape to draw with (a or a + 1), and a draw."""
    is_high = ew.greater_equal(a, 1)
    high = ew.where(is_high, a, a + 1)
    return is_high, high, _draw_by_rejection(child((k0, k1), 0), high)


@dataclass(frozen=True, slots=True)
class Gamma(ReparameterizedDraw):
    """A gamma draw of rate 1 for each key and shape a."""

    name = "random_gamma"

    def draw(self, k0: Tensor, k1: Tensor, a: Tensor) -> Tensor:  # type: ignore[override]
        """Draw with a, or with a + 1 times a power of a uniform number if a is below 1."""
        is_high, high, cube = _draw_high_shape(k0, k1, a)
        u = 1 - uniforms(child((k0, k1), 1), (), a.dtype)
        y = (high - 1 / 3) * cube * ew.where(is_high, 1, u ** (1 / a))
        return ew.where(ew.greater_equal(a, 0), y, np.nan)

    def derivatives(self, y: Tensor, a: Tensor) -> tuple[Tensor]:  # type: ignore[override]
        """Return the derivative of the logarithm times the draw; 0 where the draw is 0."""
        positive = ew.greater(y, 0)
        return (ew.where(positive, y * log_gamma_by_a(a, log(ew.where(positive, y, 1))), 0),)


@dataclass(frozen=True, slots=True)
class LogGamma(ReparameterizedDraw):
    """The logarithm of a gamma draw; with a small shape, the draw may underflow."""

    name = "random_log_gamma"

    def draw(self, k0: Tensor, k1: Tensor, a: Tensor) -> Tensor:  # type: ignore[override]
        """Draw with a, or with a + 1 minus an exponential draw over a if a is below 1."""
        is_high, high, cube = _draw_high_shape(k0, k1, a)
        e = exponentials(child((k0, k1), 1), (), a.dtype)
        boost = ew.where(ew.logical_or(is_high, ew.equal(e, 0)), 0, -e * (1 / a))
        y = log(high - 1 / 3) + log(cube) + boost
        return ew.where(ew.greater_equal(a, 0), y, np.nan)

    def derivatives(self, y: Tensor, a: Tensor) -> tuple[Tensor]:  # type: ignore[override]
        return (log_gamma_by_a(a, y),)


def gammas(key: Any, shape: Lengths, dtype: str, a: Tensor) -> Tensor:
    """Draw gamma numbers of shape a and rate 1, as ``jax.random.gamma``."""
    return draw_each(Gamma(), key, shape, a)


def log_gammas(key: Any, shape: Lengths, dtype: str, a: Tensor) -> Tensor:
    """Draw logarithms of gamma numbers, as ``jax.random.loggamma``."""
    return draw_each(LogGamma(), key, shape, a)


@distribution
def gamma(
    key: Tensor, lengths: Lengths, dtype: str, shape: Any, rate: Any = None, scale: Any = None
) -> Tensor:
    """Draw from the gamma distribution, differentiable in all parameters, ``shape`` too.

    Args:
        shape: The shape, positive.
        rate: The reciprocal of ``scale``, positive.
        scale: The scale, 1 by default.

    Distribution:
        - density at x: ``x**(shape - 1) * exp(-x / scale) / (gamma(shape) *
          scale**shape)``, where ``x > 0``
        - mean: ``shape * scale``
        - variance: ``shape * scale**2``
        - draws are differentiable in shape and scale, or rate

    Raises:
        ArgumentError: If there are both a rate and a scale.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.gamma([0.5, 2.0], rate=3.0, rng=gt.random.key(0)).type
        float64[2]
    """
    if rate is not None and scale is not None:
        raise ArgumentError("gamma: got both a rate and a scale.", "Give one of them.")
    y = gammas(key, lengths, dtype, shape)
    if rate is not None:
        return y / rate  # type: ignore[no-any-return]
    return y if scale is None else y * scale


@distribution
def invgamma(key: Tensor, lengths: Lengths, dtype: str, shape: Any, scale: Any = 1.0) -> Tensor:
    """Draw reciprocals of gamma-distributed numbers.

    Args:
        shape: The shape of the gamma distribution, positive.
        scale: The scale of the reciprocals, positive.

    Distribution:
        - density at x: ``scale**shape * x**(-shape - 1) * exp(-scale / x) /
          gamma(shape)``, where ``x > 0``
        - mean: ``scale / (shape - 1)`` if ``shape > 1``
        - variance: ``scale**2 / ((shape - 1)**2 * (shape - 2))`` if ``shape > 2``
        - draws are differentiable in shape and scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.invgamma([0.5, 2.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return scale * exp(-log_gammas(key, lengths, dtype, shape))  # type: ignore[no-any-return]


@distribution
def gengamma(
    key: Tensor, shape: Lengths, dtype: str, alpha: Any = 1.0, p: Any = 1.0, lambd: Any = 1.0
) -> Tensor:
    """Draw powers of gamma-distributed numbers, with density ``x**(alpha - 1) * exp(-x**p)``.

    Args:
        alpha: The first shape parameter, positive: the exponent at 0, plus 1.
        p: The second shape parameter, positive: the reciprocal of the power.
        lambd: The scale, positive.

    Distribution:
        - density at x: ``p / lambd * (x / lambd)**(alpha - 1) * exp(-((x / lambd)**p))
          / gamma(alpha / p)``, where ``x > 0``
        - mean: ``lambd * gamma((alpha + 1) / p) / gamma(alpha / p)``
        - variance: ``lambd**2 * gamma((alpha + 2) / p) / gamma(alpha / p) - mean**2``
        - draws are differentiable in alpha, p and lambd

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.gengamma([0.5, 2.0], 2.0, rng=gt.random.key(0)).type
        float64[2]
    """
    return lambd * exp(log_gammas(key, shape, dtype, alpha / p) / p)  # type: ignore[no-any-return]


@distribution
def chisquare(key: Tensor, shape: Lengths, dtype: str, df: Any) -> Tensor:
    """Draw from the chi-square distribution: sums of squares of normal draws.

    Args:
        df: The degrees of freedom, positive; the number of squares where it is an integer.

    Distribution:
        - density at x: ``x**(df / 2 - 1) * exp(-x / 2) / (2**(df / 2) * gamma(df /
          2))``, where ``x > 0``
        - mean: ``df``
        - variance: ``2 * df``
        - draws are differentiable in df

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.chisquare([1.0, 5.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return exp(log_gammas(key, shape, dtype, df / 2)) * 2


def betas(key: Any, shape: Lengths, dtype: str, a: Tensor, b: Tensor) -> Tensor:
    """Draw beta numbers, as ``jax.random.beta``."""
    x = log_gammas(child(key, 0), shape, dtype, a)
    y = log_gammas(child(key, 1), shape, dtype, b)
    # Both may underflow, but not their ratio.
    high = ew.maximum(x, y)
    x, y = exp(x - high), exp(y - high)
    return x / (x + y)


@distribution
def beta(key: Tensor, shape: Lengths, dtype: str, alpha: Any, beta: Any) -> Tensor:
    """Draw from the beta distribution, between 0 and 1, differentiable in both parameters.

    Args:
        alpha: The first shape parameter, positive: the exponent at 0, plus 1.
        beta: The second shape parameter, positive: the exponent at 1, plus 1.

    Distribution:
        - density at x: ``x**(alpha - 1) * (1 - x)**(beta - 1) * exp(-betaln(alpha,
          beta))``, where ``0 < x < 1``
        - mean: ``alpha / (alpha + beta)``
        - variance: ``alpha * beta / ((alpha + beta)**2 * (alpha + beta + 1))``
        - draws are differentiable in alpha and beta

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.beta([0.5, 2.0], 3.0, rng=gt.random.key(0)).type
        float64[2]
    """
    return betas(key, shape, dtype, alpha, beta)


@distribution("(k)->(k)")
def dirichlet(key: Tensor, shape: Lengths, dtype: str, alphas: Any) -> Tensor:
    """Draw from the Dirichlet distribution along the last axis, differentiable in all parameters.

    Args:
        alphas: The concentrations, positive; larger ones reduce the variance.

    Distribution:
        - density at x: ``gamma(sum(alphas)) * prod(x**(alphas - 1) / gamma(alphas))``,
          where ``all(x > 0) and sum(x) == 1``
        - mean: ``alphas / sum(alphas)``
        - variance: ``mean * (1 - mean) / (sum(alphas) + 1)``
        - draws are differentiable in alphas

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.dirichlet([1.0, 2.0, 3.0], size=2, rng=gt.random.key(0))
        >>> x.sum(-1).eval(mode="NUMPY").round(12).tolist()
        [1.0, 1.0]
    """
    return softmax(log_gammas(key, (*shape, length(alphas, -1)), dtype, alphas), -1)


@distribution
def t(key: Tensor, shape: Lengths, dtype: str, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Draw from Student's t distribution, differentiable in all parameters.

    Args:
        df: The degrees of freedom, positive.
        loc: The median.
        scale: The scale, positive.

    Distribution:
        - density at x: ``gamma((df + 1) / 2) / (gamma(df / 2) * sqrt(pi * df) * scale)
          * (1 + ((x - loc) / scale)**2 / df)**(-(df + 1) / 2)``
        - mean: ``loc`` if ``df > 1``
        - variance: ``scale**2 * df / (df - 2)`` if ``df > 2``
        - draws are differentiable in df, loc and scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.t([1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    n = normals(child(key, 0), shape, dtype)
    half = df / 2
    # The divisor may underflow.
    g = log_gammas(child(key, 1), shape, dtype, half)
    return loc + scale * (n * ew.sqrt(half) * exp(-g / 2))  # type: ignore[no-any-return]
