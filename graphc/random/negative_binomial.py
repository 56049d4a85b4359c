"""Counts of failures before so many successes."""

from __future__ import annotations

from graphc.random.bits import Lengths
from graphc.random.distribution import as_draws, discrete
from graphc.random.gamma import gammas
from graphc.random.generator import DISTRIBUTIONS
from graphc.random.keys import split
from graphc.random.poisson import poissons
from graphc.tensor.elementwise import greater, greater_equal, less_equal, logical_and
from graphc.tensor.tensor import Tensor

__all__: list[str] = []


@discrete
def nbinom(key: Tensor, shape: Lengths, dtype: str, n: Tensor, p: Tensor) -> Tensor:
    """How many trials fail before ``n`` succeed.

    It is Poisson's with a mean of the gamma distribution, so that n may be any number.

    Args:
        n: How many successes are awaited, above 0.
        p: The probability of success, above 0 and at most 1. Elsewhere a draw is -1.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.nbinom(3, 0.5, size=5, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [2, 5, 5, 0, 8]
    """
    first, second = split(key)
    mean = gammas(first, shape, n.dtype, n) * ((1 - p) / p)
    draws = poissons(second, shape, mean)
    possible = logical_and(greater(n, 0), logical_and(greater(p, 0), less_equal(p, 1)))
    return as_draws(draws, logical_and(possible, greater_equal(draws, 0)), dtype)


negative_binomial = DISTRIBUTIONS["negative_binomial"] = nbinom
