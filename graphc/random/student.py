"""Student's t distribution."""

from __future__ import annotations

from typing import Any

from graphc.random.bits import Lengths, child
from graphc.random.distribution import distribution
from graphc.random.gamma import log_gammas
from graphc.random.normal import normals
from graphc.tensor.elementwise import sqrt
from graphc.tensor.exponential import exp
from graphc.tensor.tensor import Tensor


@distribution
def t(key: Tensor, shape: Lengths, dtype: str, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Tensor:
    """Numbers of Student's t distribution; gradients by all parameters.

    Args:
        df: The degrees of freedom, positive.
        loc: The median.
        scale: What a number of scale 1 is multiplied by, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.t([1.0, 10.0], rng=gt.random.key(0)).type
        float64[2]
    """
    n = normals(child(key, 0), shape, dtype)
    half = df / 2
    # What it is divided by may be too small for a float.
    g = log_gammas(child(key, 1), shape, dtype, half)
    return loc + scale * (n * sqrt(half) * exp(-g / 2))  # type: ignore[no-any-return]
