"""The beta distribution and that of several shares of a whole, by numbers of the gamma one."""

from __future__ import annotations

from typing import Any

from graphc.random.bits import Lengths, child
from graphc.random.distribution import distribution
from graphc.random.gamma import log_gammas
from graphc.tensor.elementwise import maximum
from graphc.tensor.exponential import exp
from graphc.tensor.shape import length
from graphc.tensor.special import softmax
from graphc.tensor.tensor import Tensor

__all__ = ["betas"]


def betas(key: Any, shape: Lengths, dtype: str, a: Tensor, b: Tensor) -> Tensor:
    """Numbers of the beta distribution, those of ``jax.random.beta``."""
    x = log_gammas(child(key, 0), shape, dtype, a)
    y = log_gammas(child(key, 1), shape, dtype, b)
    # Both may be too small for a float, not their ratio.
    high = maximum(x, y)
    x, y = exp(x - high), exp(y - high)
    return x / (x + y)


@distribution
def beta(key: Tensor, shape: Lengths, dtype: str, alpha: Any, beta: Any) -> Tensor:
    """Numbers of the beta distribution, from 0 to 1; gradients by both parameters.

    Args:
        alpha: The exponent of small numbers, plus 1, positive.
        beta: The exponent of what is left to 1, plus 1, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.beta([0.5, 2.0], 3.0, rng=gt.random.key(0)).type
        float64[2]
    """
    return betas(key, shape, dtype, alpha, beta)


@distribution("(k)->(k)")
def dirichlet(key: Tensor, shape: Lengths, dtype: str, alphas: Any) -> Tensor:
    """Shares of a whole, along the last axis; gradients by all parameters.

    Args:
        alphas: How much of it goes to each, positive; the larger all of them, the less it varies.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.dirichlet([1.0, 2.0, 3.0], size=2, rng=gt.random.key(0))
        >>> x.sum(-1).eval(mode="NUMPY").round(12).tolist()
        [1.0, 1.0]
    """
    return softmax(log_gammas(key, (*shape, length(alphas, -1)), dtype, alphas), -1)
