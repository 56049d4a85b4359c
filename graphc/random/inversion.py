"""Distributions sampled by inverting their distribution function."""

from __future__ import annotations

import math
from typing import Any

from graphc.random.distribution import distribution, nan_unless
from graphc.random.gaussian import least_above_minus_one
from graphc.random.keys import Lengths
from graphc.random.uniform import FRACTION, LEAST, uniforms
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.exponential import exp, expm1, log, log1p
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.core.trigonometric import tan

__all__ = [
    "cauchy", "exponential", "gumbel", "halfcauchy", "laplace", "logistic", "pareto",
    "rayleigh", "triangular", "truncexpon", "weibull",
]  # fmt: skip


def exponentials(key: Any, shape: Lengths, dtype: str) -> Tensor:
    """Draw exponential numbers of mean 1, as ``jax.random.exponential``."""
    return -log1p(-uniforms(key, shape, dtype))


@distribution
def exponential(key: Tensor, shape: Lengths, dtype: str, scale: Any = 1.0) -> Tensor:
    """Draw from the exponential distribution: times between random events.

    Args:
        scale: The mean, positive.

    Distribution:
        - density at x: ``exp(-x / scale) / scale``, where ``x >= 0``
        - mean: ``scale``
        - variance: ``scale**2``
        - draws are differentiable in scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.exponential([1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return scale * exponentials(key, shape, dtype)  # type: ignore[no-any-return]


@distribution
def truncexpon(
    key: Tensor, shape: Lengths, dtype: str, b: Any, loc: Any = 0.0, scale: Any = 1.0
) -> Tensor:
    """Draw from the exponential distribution truncated to values below ``b * scale``.

    Args:
        b: The upper end, positive, as a multiple of ``scale``.
        loc: The lower end.
        scale: The mean of the distribution before truncation.

    Distribution:
        - density at x: ``exp(-(x - loc) / scale) / (scale * (1 - exp(-b)))``, where
          ``loc <= x <= loc + b * scale``
        - mean: ``loc + scale * (1 - b / (exp(b) - 1))``
        - variance: ``scale**2 * (1 - b**2 * exp(b) / (exp(b) - 1)**2)``
        - draws are differentiable in b, loc and scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.truncexpon([1.0, 2.0], rng=gt.random.key(0)).type
        float64[2]
    """
    x = -log1p(uniforms(key, shape, dtype) * expm1(-b))
    return nan_unless(ew.greater_equal(b, 0), loc + scale * ew.minimum(x, b))


@distribution
def weibull(key: Tensor, lengths: Lengths, dtype: str, shape: Any) -> Tensor:
    """Draw from the Weibull distribution: powers of exponential draws.

    Args:
        shape: The reciprocal of the power, positive.

    Distribution:
        - density at x: ``shape * x**(shape - 1) * exp(-(x**shape))``, where ``x >= 0``
        - mean: ``gamma(1 + 1 / shape)``
        - variance: ``gamma(1 + 2 / shape) - mean**2``
        - draws are differentiable in shape

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.weibull([0.5, 2.0], rng=gt.random.key(0)).type
        float64[2]
    """
    x = exponentials(key, lengths, dtype) ** (1 / shape)
    return nan_unless(ew.greater_equal(shape, 0), x)


@distribution
def rayleigh(key: Tensor, shape: Lengths, dtype: str, scale: Any = 1.0) -> Tensor:
    """Draw from the Rayleigh distribution: lengths of normal vectors in the plane.

    Args:
        scale: The standard deviation of the vectors' elements, positive.

    Distribution:
        - density at x: ``x / scale**2 * exp(-((x / scale)**2) / 2)``, where ``x >= 0``
        - mean: ``scale * sqrt(pi / 2)``
        - variance: ``scale**2 * (2 - pi / 2)``
        - draws are differentiable in scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.rayleigh([1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    # A uniform 0 represents all numbers below the resolution.
    u = ew.maximum(uniforms(key, shape, dtype), 2.0 ** -(FRACTION[dtype] + 1))
    return scale * ew.sqrt(-2 * log(u))  # type: ignore[no-any-return]


@distribution
def pareto(key: Tensor, shape: Lengths, dtype: str, b: Any, scale: Any = 1.0) -> Tensor:
    """Draw from the Pareto distribution, which exceed x with probability ``(scale / x)**b``.

    Args:
        b: The exponent, positive.
        scale: The lower end, positive.

    Distribution:
        - density at x: ``b * scale**b / x**(b + 1)``, where ``x >= scale``
        - mean: ``b * scale / (b - 1)`` if ``b > 1``
        - variance: ``scale**2 * b / ((b - 1)**2 * (b - 2))`` if ``b > 2``
        - draws are differentiable in b and scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.pareto([1.0, 3.0], rng=gt.random.key(0)).type
        float64[2]
    """
    x = scale * exp(exponentials(key, shape, dtype) / b)
    return nan_unless(ew.greater_equal(b, 0), x)


def gumbels(key: Any, shape: Lengths, dtype: str) -> Tensor:
    """Draw Gumbel numbers of location 0 and scale 1, as ``jax.random.gumbel``."""
    return -log(-log(uniforms(key, shape, dtype, LEAST[dtype], 1.0)))


@distribution
def gumbel(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Draw from the Gumbel distribution: the limit of the largest of many exponential draws.

    Args:
        loc: The mode.
        scale: The scale, positive.

    Distribution:
        - density at x: ``exp(-(x - loc) / scale - exp(-(x - loc) / scale)) / scale``
        - mean: ``loc + scale * euler_gamma``
        - variance: ``(pi * scale)**2 / 6``
        - draws are differentiable in loc and scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.gumbel(scale=[1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return loc + scale * gumbels(key, shape, dtype)  # type: ignore[no-any-return]


@distribution
def laplace(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Draw from the Laplace distribution, whose distances from ``loc`` are exponential.

    Args:
        loc: The mean.
        scale: The mean distance from ``loc``, positive.

    Distribution:
        - density at x: ``exp(-abs(x - loc) / scale) / (2 * scale)``
        - mean: ``loc``
        - variance: ``2 * scale**2``
        - draws are differentiable in loc and scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.laplace(scale=[1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    u = uniforms(key, shape, dtype, least_above_minus_one(dtype), 1.0)
    return loc + scale * (ew.sign(u) * log1p(-ew.abs(u)))  # type: ignore[no-any-return]


@distribution
def logistic(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Draw from the logistic distribution.

    Args:
        loc: The mean.
        scale: The standard deviation, positive, times the square root of 3, over pi.

    Distribution:
        - density at x: ``1 / (4 * scale * cosh((x - loc) / (2 * scale))**2)``
        - mean: ``loc``
        - variance: ``(pi * scale)**2 / 3``
        - draws are differentiable in loc and scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.logistic(scale=[1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    u = uniforms(key, shape, dtype, LEAST[dtype], 1.0)
    return loc + scale * (log(u) - log1p(-u))  # type: ignore[no-any-return]


def cauchys(key: Any, shape: Lengths, dtype: str) -> Tensor:
    """Draw Cauchy numbers of location 0 and scale 1, as ``jax.random.cauchy``."""
    u = uniforms(key, shape, dtype, 2.0 ** -FRACTION[dtype], 1.0)
    return tan(math.pi * (u - 0.5))


@distribution
def cauchy(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Draw from the Cauchy distribution.

    Args:
        loc: The median.
        scale: Half the distance between the quartiles, positive.

    Distribution:
        - density at x: ``1 / (pi * scale * (1 + ((x - loc) / scale)**2))``
        - it has no mean and no variance
        - draws are differentiable in loc and scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.cauchy(scale=[1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return loc + scale * cauchys(key, shape, dtype)  # type: ignore[no-any-return]


@distribution
def halfcauchy(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Draw absolute values of Cauchy numbers, plus ``loc``.

    Args:
        loc: The lower end.
        scale: The distance of the median from ``loc``, positive.

    Distribution:
        - density at x: ``2 / (pi * scale * (1 + ((x - loc) / scale)**2))``, where ``x
          >= loc``
        - it has no mean and no variance
        - draws are differentiable in loc and scale

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.halfcauchy(scale=[1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return loc + scale * ew.abs(cauchys(key, shape, dtype))  # type: ignore[no-any-return]


@distribution
def triangular(key: Tensor, shape: Lengths, dtype: str, left: Any, mode: Any, right: Any) -> Tensor:
    """Draw from the triangular distribution on ``left`` to ``right``, densest at ``mode``.

    Args:
        left: The lower end.
        mode: The mode, from ``left`` to ``right``.
        right: The upper end, above ``left``.

    Distribution:
        - density at x: ``2 / (right - left) * minimum((x - left) / (mode - left),
          (right - x) / (right - mode))``, where ``left <= x <= right``
        - mean: ``(left + mode + right) / 3``
        - variance: ``(left**2 + mode**2 + right**2 - left * mode - left * right - mode
          * right) / 18``
        - draws are differentiable in left, mode and right

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.triangular(0.0, [0.5, 1.0], 1.0, rng=gt.random.key(0)).type
        float64[2]
    """
    u = uniforms(key, shape, dtype)
    width = right - left
    rising = left + ew.sqrt(u * width * (mode - left))
    falling = right - ew.sqrt((1 - u) * width * (right - mode))
    valid = ew.less_equal(left, mode) & ew.less_equal(mode, right)
    return nan_unless(valid, ew.where(ew.less(u, (mode - left) / width), rising, falling))
