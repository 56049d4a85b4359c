"""Counts of a kind among what is taken without putting back."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphc.random.bits import Lengths
from graphc.random.distribution import as_draws, discrete
from graphc.random.factorial import log_of_ratio
from graphc.random.rejection import accepted
from graphc.random.uniform import uniforms
from graphc.tensor.broadcast import broadcast_to
from graphc.tensor.elementwise import (
    clip,
    equal,
    floor,
    greater,
    greater_equal,
    isfinite,
    less_equal,
    logical_and,
    maximum,
    minimum,
    sqrt,
    where,
)
from graphc.tensor.exponential import log
from graphc.tensor.tensor import Tensor

__all__: list[str] = []

WIDE = 2 * math.sqrt(2 / math.e), 3 - 2 * math.sqrt(3 / math.e)
"""How wide the region of points is, in standard deviations and beyond them."""


def _ratios(key: Tensor, shape: Lengths, few: Tensor, many: Tensor, taken: Tensor) -> Tensor:
    """How many of the rarer kind are taken, at most half of all: by a ratio of uniform numbers.

    Source: Stadlober, Journal of Computational and Applied Mathematics 31, 1990, algorithm HRUE.
    """
    total = few + many
    share = few / maximum(total, 1)
    middle = taken * share + 0.5
    variance = (total - taken) * taken * share * (1 - share) / maximum(total - 1, 1)
    width = WIDE[0] * sqrt(variance + 0.5) + WIDE[1]
    mode = floor((taken + 1) * (few + 1) / (total + 2))
    least, most = maximum(0, taken - many), minimum(taken, few)

    def height(k: Tensor) -> Tensor:
        """The logarithm of how likely k is, over the mode's likelihood."""
        up = [log_of_ratio(mode, k), log_of_ratio(many - taken + mode, many - taken + k)]
        down = [log_of_ratio(few - mode, few - k), log_of_ratio(taken - mode, taken - k)]
        slope = up[0][0] + up[1][0] - down[0][0] - down[1][0]
        return (mode - k) * slope + up[0][1] + up[1][1] + down[0][1] + down[1][1]

    def attempt(keys: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        u = uniforms(keys[0], shape, few.dtype)
        v = uniforms(keys[1], shape, few.dtype)
        k = floor(middle + width * (v - 0.5) / u)
        within = clip(k, least, most)
        below = less_equal(2 * log(u), height(within))
        return within, logical_and(equal(k, within), below)

    return accepted(key, shape, few.dtype, attempt)


@discrete
def hypergeometric(
    key: Tensor, shape: Lengths, dtype: str, ngood: Tensor, nbad: Tensor, nsample: Tensor
) -> Tensor:
    """How many of ``nsample`` things are good, taken from among so many good and bad ones.

    Args:
        ngood: How many good ones there are, from 0 on; as the others, rounded down.
        nbad: How many bad ones there are, from 0 on.
        nsample: How many are taken, from 0 on and at most all of them. Elsewhere a draw is -1.

    Source: Stadlober, Journal of Computational and Applied Mathematics 31, 1990.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.hypergeometric(50, 450, 100, size=5, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [9, 7, 3, 10, 13]
    """
    good, bad, taken = (broadcast_to(floor(x), shape) for x in (ngood, nbad, nsample))
    valid = logical_and(isfinite(good), isfinite(bad))
    for x in (good, bad, taken, good + bad - taken):
        valid = logical_and(valid, greater_equal(x, 0))
    good, bad, taken = (where(valid, x, 1) for x in (good, bad, taken))
    rest = good + bad - taken
    # What is left behind is a sample too, and what is not good is bad.
    draws = _ratios(key, shape, minimum(good, bad), maximum(good, bad), minimum(taken, rest))
    draws = where(greater(good, bad), minimum(taken, rest) - draws, draws)
    draws = where(greater(taken, rest), good - draws, draws)
    return as_draws(draws, valid, dtype)
