"""Numbers that are equally likely everywhere between two ends."""

from __future__ import annotations

from typing import Any

from graphc.random.bits import Lengths, bits_of
from graphc.random.distribution import distribution
from graphc.tensor.elementwise import cast, maximum, right_shift
from graphc.tensor.tensor import Tensor, constant

__all__ = ["FRACTION", "LEAST", "uniforms"]

FRACTION = {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}
"""How many bits of a float stand behind the leading 1: so fine are the steps between 0 and 1."""

WIDTH = {"bfloat16": 8, "float16": 16, "float32": 32, "float64": 64}
"""How many random bits are drawn for one."""

LEAST = {"bfloat16": 2.0**-126, "float16": 2.0**-14, "float32": 2.0**-126, "float64": 2.0**-1022}
"""The smallest number that has all its digits."""


def uniforms(key: Any, shape: Lengths, dtype: str, low: Any = 0.0, high: Any = 1.0) -> Tensor:
    """Numbers from ``low`` on and below ``high``, those of ``jax.random.uniform``.

    Args:
        key: A key, an array of keys, or the words of either.
        shape: Lengths for each key.
        dtype: A floating dtype.
        low: A number, or an array of the dtype that broadcasts with the result.
        high: The same.
    """
    fraction, width = FRACTION[dtype], WIDTH[dtype]
    down = constant(width - fraction, dtype=f"uint{width}")
    unit = cast(right_shift(bits_of(key, shape, width), down), dtype) * 2.0**-fraction
    if isinstance(low, float) and isinstance(high, float) and (low, high) == (0.0, 1.0):
        return unit
    # Rounding must not lead below the lower end.
    return maximum(low, unit * (high - low) + low)


@distribution
def uniform(key: Tensor, shape: Lengths, dtype: str, low: Any = 0.0, high: Any = 1.0) -> Tensor:
    """Numbers that are equally likely everywhere from ``low`` on and below ``high``.

    Args:
        low: The lower end.
        high: The upper end.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.uniform(-1.0, 1.0, size=3, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").round(4).tolist()
        [-0.1631, -0.5674, 0.9306]
    """
    return uniforms(key, shape, dtype, low, high)
