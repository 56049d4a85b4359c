"""The Laplace distribution."""

from __future__ import annotations

from typing import Any

from graphc.random.bits import Lengths
from graphc.random.distribution import distribution
from graphc.random.normal import above
from graphc.random.uniform import uniforms
from graphc.tensor.elementwise import abs, sign
from graphc.tensor.exponential import log1p
from graphc.tensor.tensor import Tensor


@distribution
def laplace(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Numbers of the Laplace distribution, whose distances from ``loc`` are exponential.

    Args:
        loc: The mean.
        scale: The mean distance from it, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.laplace(scale=[1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    u = uniforms(key, shape, dtype, above(dtype), 1.0)
    return loc + scale * (sign(u) * log1p(-abs(u)))  # type: ignore[no-any-return]
