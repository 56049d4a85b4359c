"""The numbers of outcomes."""

from __future__ import annotations

from graphc.random.bits import Lengths
from graphc.random.distribution import as_draws, discrete
from graphc.random.gumbel import gumbels
from graphc.tensor.broadcast import broadcast_to
from graphc.tensor.create import arange
from graphc.tensor.elementwise import equal, greater, greater_equal, logical_and, where
from graphc.tensor.exponential import log
from graphc.tensor.reduce import all, any, max, min
from graphc.tensor.shape import length
from graphc.tensor.tensor import Tensor

__all__: list[str] = []


def _first_of_largest(x: Tensor, n: int | Tensor) -> Tensor:
    """As ``argmax``, which XLA does one number at a time, together with what the numbers are of."""
    is_largest = equal(x, max(x, -1, keepdims=True))
    return min(where(is_largest, arange(n), n), -1)


@discrete("(p)->()")
def categorical(key: Tensor, shape: Lengths, dtype: str, p: Tensor) -> Tensor:
    """The number of an outcome: the draws of ``jax.random.categorical`` of ``log(p)``.

    Args:
        p: The probability of each outcome along the last axis, or numbers in proportion to it:
            none below 0, and one above. Elsewhere a draw is -1.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.categorical([0.7, 0.2, 0.1], size=8, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [2, 0, 0, 1, 1, 0, 1, 0]
    """
    outcomes = length(p, -1)
    draws = _first_of_largest(gumbels(key, (*shape, outcomes), p.dtype) + log(p), outcomes)
    valid = logical_and(all(greater_equal(p, 0), -1), any(greater(p, 0), -1))
    return as_draws(draws, broadcast_to(valid, shape), dtype)
