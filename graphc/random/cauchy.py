"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from graphc.random.bits import Lengths
from graphc.random.distribution import distribution
from graphc.random.uniform import FRACTION, uniforms
from graphc.tensor.elementwise import abs
from graphc.tensor.tensor import Tensor
from graphc.tensor.trigonometric import tan


def cauchys(key: Any, shape: Lengths, dtype: str) -> Tensor:
    """Numbers of location 0 and scale 1, those of ``jax.random.cauchy``."""
    u = uniforms(key, shape, dtype, 2.0 ** -FRACTION[dtype], 1.0)
    return tan(math.pi * (u - 0.5))


@distribution
def cauchy(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Numbers of the Cauchy distribution.

    Args:
        loc: The median.
        scale: Half the distance between the quartiles, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.cauchy(scale=[1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return loc + scale * cauchys(key, shape, dtype)  # type: ignore[no-any-return]


@distribution
def halfcauchy(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Magnitudes of numbers of the Cauchy distribution, from ``loc`` on.

    Args:
        loc: The least.
        scale: The median's distance from it, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.halfcauchy(scale=[1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return loc + scale * abs(cauchys(key, shape, dtype))  # type: ignore[no-any-return]
