"""The Wald distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from graphc.random.bits import Lengths, child
from graphc.random.distribution import distribution
from graphc.random.lanes import Lanes
from graphc.random.normal import normals
from graphc.random.uniform import uniforms
from graphc.tensor.broadcast import broadcast_to
from graphc.tensor.elementwise import less_equal, sqrt, where
from graphc.tensor.special import erfcx
from graphc.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Wald(Lanes):
    """A number of mean 1 and scale a, of a normal number and a uniform one.

    Source: Michael, Schucany & Haas, Generating random variates using transformations with multiple
    roots, The American Statistician 30(2), 1976.
    """

    @property
    def name(self) -> str:
        return "random_wald"

    def numbers(self, z: Tensor, u: Tensor, a: Tensor) -> Tensor:  # type: ignore[override]
        """One of two roots that are reciprocals, the smaller one the more often."""
        t = z * z / (2 * a)
        root = 1 + t + sqrt(t * (2 + t))
        return where(less_equal(u, root / (1 + root)), 1 / root, root)  # type: ignore[no-any-return]

    def slopes(self, y: Tensor, a: Tensor) -> tuple[Tensor]:  # type: ignore[override]
        """Of the distribution function, without the terms of its density that cancel."""
        c = sqrt(a / (2 * y)) * (1 + y)
        rest = 1 - c * math.sqrt(math.pi) * erfcx(c)
        return (y / a * ((1 - y) + 2 * y * rest) / (1 + y),)


@distribution
def wald(key: Tensor, shape: Lengths, dtype: str, mean: Any = 1.0, scale: Any = 1.0) -> Tensor:
    """Numbers of the Wald (or inverse Gaussian) distribution; gradients by both parameters.

    Args:
        mean: The mean, positive.
        scale: The mean's cube over the variance, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.wald([0.5, 2.0], rng=gt.random.key(0)).type
        float64[2]
    """
    z = normals(child(key, 0), shape, dtype)
    u = uniforms(child(key, 1), shape, dtype)
    return mean * Tensor.make(Wald(), z, u, broadcast_to(scale / mean, shape))  # type: ignore[no-any-return]
