"""The exponential distribution, and those that are powers or exponentials of its numbers."""

from __future__ import annotations

from typing import Any

from graphc.random.bits import Lengths
from graphc.random.distribution import distribution
from graphc.random.uniform import FRACTION, uniforms
from graphc.tensor.elementwise import maximum, minimum, sqrt
from graphc.tensor.exponential import exp, expm1, log, log1p
from graphc.tensor.tensor import Tensor

__all__ = ["exponentials"]


def exponentials(key: Any, shape: Lengths, dtype: str) -> Tensor:
    """Numbers of mean 1, those of ``jax.random.exponential``."""
    return -log1p(-uniforms(key, shape, dtype))


@distribution
def exponential(key: Tensor, shape: Lengths, dtype: str, scale: Any = 1.0) -> Tensor:
    """Numbers of the exponential distribution, as the times between events are.

    Args:
        scale: The mean, positive.

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
    """Numbers of the exponential distribution that are below ``b``, times ``scale``.

    Args:
        b: The upper end, positive, as a multiple of ``scale``.
        loc: The lower end.
        scale: The mean of the distribution that is cut off.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.truncexpon([1.0, 2.0], rng=gt.random.key(0)).type
        float64[2]
    """
    x = -log1p(uniforms(key, shape, dtype) * expm1(-b))
    return loc + scale * minimum(x, b)  # type: ignore[no-any-return]


@distribution
def weibull(key: Tensor, lengths: Lengths, dtype: str, shape: Any) -> Tensor:
    """Numbers of the Weibull distribution: powers of numbers of the exponential one.

    Args:
        shape: The reciprocal of the power, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.weibull([0.5, 2.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return exponentials(key, lengths, dtype) ** (1 / shape)  # type: ignore[no-any-return]


@distribution
def rayleigh(key: Tensor, shape: Lengths, dtype: str, scale: Any = 1.0) -> Tensor:
    """Numbers of the Rayleigh distribution, as lengths of normal vectors of a plane are.

    Args:
        scale: The standard deviation of the vectors' elements, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.rayleigh([1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    # 0 stands for all that is below the first step.
    u = maximum(uniforms(key, shape, dtype), 2.0 ** -(FRACTION[dtype] + 1))
    return scale * sqrt(-2 * log(u))  # type: ignore[no-any-return]


@distribution
def pareto(key: Tensor, shape: Lengths, dtype: str, b: Any, scale: Any = 1.0) -> Tensor:
    """Numbers of the Pareto distribution: those above x are ``(scale / x)**b`` of all.

    Args:
        b: The exponent, positive.
        scale: The least, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.pareto([1.0, 3.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return scale * exp(exponentials(key, shape, dtype) / b)  # type: ignore[no-any-return]
