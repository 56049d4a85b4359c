"""The normal distribution between two ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.grad.barriers import disconnected_grad
from graphc.random.bits import Lengths
from graphc.random.distribution import distribution
from graphc.random.uniform import uniforms
from graphc.tensor.arithmetic import nextafter
from graphc.tensor.elementwise import clip, greater, isinf, less, logical_or, maximum, where
from graphc.tensor.exponential import log, log1p, logaddexp
from graphc.tensor.special import erf, erfinv, log_ndtr, ndtri_exp
from graphc.tensor.tensor import Tensor

FAR = 1.0
"""Of two ends that are both so far on one side, the logarithms of the tails are what is drawn
from: the shares below them are too near to 0 or 1 for a float."""


def _in_tail(u: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """The negative numbers whose shares of smaller ones lie between those of two ends."""
    return ndtri_exp(logaddexp(log1p(-u) + _log_share(near), log(u) + _log_share(far)))


def _log_share(x: Tensor) -> Any:
    """That of smaller numbers, with no slope where there are none."""
    return where(isinf(x), -np.inf, log_ndtr(where(isinf(x), -2, x)))


@distribution
def truncnorm(  # noqa: PLR0913, PLR0917
    key: Tensor, shape: Lengths, dtype: str, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0
) -> Tensor:
    """Numbers of the normal distribution that lie between two ends; gradients by all parameters.

    Args:
        a: The lower end, in standard deviations from ``loc``; may be -inf.
        b: The upper end, likewise; may be inf.
        loc: The mean of the distribution that is cut off.
        scale: Its standard deviation, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.truncnorm(0.0, [0.5, 2.0], rng=gt.random.key(0)).type
        float64[2]
    """
    u = uniforms(key, shape, dtype)
    right, left = greater(a, FAR), less(b, -FAR)
    tail = logical_or(right, left)
    low, high = erf(where(tail, 0, a) / math.sqrt(2)), erf(where(tail, 1, b) / math.sqrt(2))
    middle = math.sqrt(2) * erfinv(maximum(low, u * (high - low) + low))
    # The tail on the right is that on the left, mirrored.
    near = where(right, -a, where(left, a, -1))
    far = where(right, -b, where(left, b, -2))
    outer = _in_tail(u, near, far)
    x = where(right, -outer, where(left, outer, middle))
    first = nextafter(disconnected_grad(a), np.inf)
    last = nextafter(disconnected_grad(b), -np.inf)
    return loc + scale * clip(x, first, last)  # type: ignore[no-any-return]
