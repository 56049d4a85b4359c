"""The Gumbel distribution."""

from __future__ import annotations

from typing import Any

from graphc.random.bits import Lengths
from graphc.random.distribution import distribution
from graphc.random.uniform import LEAST, uniforms
from graphc.tensor.exponential import log
from graphc.tensor.tensor import Tensor

__all__ = ["gumbels"]


def gumbels(key: Any, shape: Lengths, dtype: str) -> Tensor:
    """Numbers of location 0 and scale 1, those of ``jax.random.gumbel``."""
    return -log(-log(uniforms(key, shape, dtype, LEAST[dtype], 1.0)))


@distribution
def gumbel(key: Tensor, shape: Lengths, dtype: str, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Numbers of the Gumbel distribution, as the largest of many exponential numbers are.

    Args:
        loc: Where the density is highest.
        scale: The scale, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.gumbel(scale=[1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return loc + scale * gumbels(key, shape, dtype)  # type: ignore[no-any-return]
