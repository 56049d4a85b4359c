"""The logistic distribution."""

from __future__ import annotations

from typing import Any

from graphc.random.bits import Lengths
from graphc.random.distribution import distribution
from graphc.random.uniform import LEAST, uniforms
from graphc.tensor.exponential import log, log1p
from graphc.tensor.tensor import Tensor


@distribution
def logistic(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Numbers of the logistic distribution.

    Args:
        loc: The mean.
        scale: The standard deviation, positive, times the square root of 3, over pi.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.logistic(scale=[1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    u = uniforms(key, shape, dtype, LEAST[dtype], 1.0)
    return loc + scale * (log(u) - log1p(-u))  # type: ignore[no-any-return]
