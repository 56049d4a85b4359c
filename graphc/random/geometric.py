"""Counts of trials up to a success."""

from __future__ import annotations

from graphc.random.bits import Lengths
from graphc.random.distribution import as_draws, discrete
from graphc.random.uniform import uniforms
from graphc.tensor.elementwise import equal, floor, greater, less_equal, logical_and, where
from graphc.tensor.exponential import log, log1p
from graphc.tensor.tensor import Tensor

__all__: list[str] = []


@discrete
def geometric(key: Tensor, shape: Lengths, dtype: str, p: Tensor) -> Tensor:
    """How many trials there are up to the first success: the draws of ``jax.random.geometric``.

    Args:
        p: The probability of success, above 0 and at most 1; elsewhere a draw is -1.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.geometric(0.1, size=5, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [9, 15, 1, 6, 6]
    """
    u = uniforms(key, shape, p.dtype)
    # Of 0 there is no logarithm.
    trials = floor(log(where(equal(u, 0), 1, u)) / log1p(-p)) + 1
    return as_draws(trials, logical_and(greater(p, 0), less_equal(p, 1)), dtype)
