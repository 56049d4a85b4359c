"""The triangular distribution."""

from __future__ import annotations

from typing import Any

from graphc.random.bits import Lengths
from graphc.random.distribution import distribution
from graphc.random.uniform import uniforms
from graphc.tensor.elementwise import less, sqrt, where
from graphc.tensor.tensor import Tensor


@distribution
def triangular(key: Tensor, shape: Lengths, dtype: str, left: Any, mode: Any, right: Any) -> Tensor:
    """Numbers whose density rises evenly from ``left`` to ``mode``, and falls so to ``right``.

    Args:
        left: The lower end.
        mode: Where the density is highest, from ``left`` to ``right``.
        right: The upper end, above ``left``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.triangular(0.0, [0.5, 1.0], 1.0, rng=gt.random.key(0)).type
        float64[2]
    """
    u = uniforms(key, shape, dtype)
    whole = right - left
    rising = left + sqrt(u * whole * (mode - left))
    falling = right - sqrt((1 - u) * whole * (right - mode))
    return where(less(u, (mode - left) / whole), rising, falling)  # type: ignore[no-any-return]
