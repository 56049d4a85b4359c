"""The normal distribution, and what is a function of one of its numbers."""

from __future__ import annotations

import math
from typing import Any

from graphc.random.bits import Lengths
from graphc.random.distribution import distribution
from graphc.random.uniform import FRACTION, uniforms
from graphc.tensor.elementwise import abs
from graphc.tensor.exponential import exp
from graphc.tensor.special import erfinv
from graphc.tensor.tensor import Tensor

__all__ = ["above", "normals"]


def above(dtype: str) -> float:
    """The least number above -1."""
    return 2.0 ** -(FRACTION[dtype] + 1) - 1


def normals(key: Any, shape: Lengths, dtype: str) -> Tensor:
    """Numbers of mean 0 and variance 1, those of ``jax.random.normal``."""
    return math.sqrt(2) * erfinv(uniforms(key, shape, dtype, above(dtype), 1.0))


@distribution
def normal(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Numbers of the normal distribution.

    Args:
        loc: The mean.
        scale: The standard deviation.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.normal(10.0, [0.1, 1.0], rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").round(4).tolist()
        [9.9794, 9.2152]
    """
    return loc + scale * normals(key, shape, dtype)  # type: ignore[no-any-return]


@distribution
def standard_normal(key: Tensor, shape: Lengths, dtype: str) -> Tensor:
    """Numbers of the normal distribution of mean 0 and variance 1.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.standard_normal(size=(2, 3), rng=gt.random.key(0)).type
        float64[2, 3]
    """
    return normals(key, shape, dtype)


@distribution
def lognormal(key: Tensor, shape: Lengths, dtype: str, mean: Any = 0.0, sigma: Any = 1.0) -> Tensor:
    """Numbers whose logarithms are of the normal distribution.

    Args:
        mean: The mean of the logarithm.
        sigma: The standard deviation of the logarithm.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.lognormal(0.0, [0.5, 1.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return exp(mean + sigma * normals(key, shape, dtype))


@distribution
def halfnormal(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Magnitudes of numbers of the normal distribution, from ``loc`` on.

    Args:
        loc: The least.
        scale: The standard deviation of the normal distribution.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.halfnormal(scale=[0.5, 1.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return loc + scale * abs(normals(key, shape, dtype))  # type: ignore[no-any-return]
