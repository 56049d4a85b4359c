"""Counts of successes: Bernoulli, binomial, multinomial, geometric and hypergeometric draws."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphc.errors import SymbolicValueError
from graphc.loop.functional import loop, while_loop
from graphc.random.distribution import as_draws, discrete
from graphc.random.gamma_family import betas
from graphc.random.keys import Lengths, split
from graphc.random.rejection import accepted, log_of_ratio
from graphc.random.uniform import uniforms
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.constants import get_scalar_constant_value
from graphc.tensor.arrays.create import zeros
from graphc.tensor.arrays.cumulative import cumsum
from graphc.tensor.arrays.index import flip
from graphc.tensor.arrays.reduce import all, any
from graphc.tensor.core.axes import moveaxis
from graphc.tensor.core.elementwise import (
    abs,
    cast,
    ceil,
    clip,
    equal,
    floor,
    greater,
    greater_equal,
    isfinite,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    sqrt,
    where,
)
from graphc.tensor.core.exponential import log, log1p
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Tensor


@discrete
def bernoulli(key: Tensor, shape: Lengths, dtype: str, p: Tensor) -> Tensor:
    """Draw 1 with probability ``p`` and 0 otherwise, as ``jax.random.bernoulli`` does.

    Args:
        p: The probability, between 0 and 1; otherwise a draw is -1.

    Distribution:
        - probability of k: ``p**k * (1 - p)**(1 - k)``, where ``k in (0, 1)``
        - mean: ``p``
        - variance: ``p * (1 - p)``
        - draws are integers, which have no derivatives

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.bernoulli(0.5, size=8, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [1, 1, 0, 0, 0, 1, 0, 0]
    """
    draw = less(uniforms(key, shape, p.dtype), p)
    valid = logical_and(greater_equal(p, 0), less_equal(p, 1))
    return as_draws(cast(draw, "int64"), valid, dtype)


FEW = 10
"""The mean up to which successes are counted one by one."""


def binomials(key: Tensor, shape: Lengths, n: Tensor, p: Tensor) -> Tensor:
    """Binomial draws as floating numbers, as by ``jax.random.binomial``; -1 where invalid."""
    most = _most(n)
    n = broadcast_to(floor(n), shape)
    p = broadcast_to(p, shape)
    valid = _is_probable(n, p)
    # The rarer of success and failure is counted.
    rare = less(p, 0.5)
    q = where(valid, where(rare, p, 1 - p), 0.01)
    n = where(valid, n, 0)
    if most < 2:
        draws = cast(less_equal(_waiting_time(split(key)[0], shape, q), n), q.dtype)
    elif most <= 2 * FEW:
        draws = _one_by_one(key, shape, n, q)
    else:
        few = less_equal(n * q, FEW)
        draws = where(
            few,
            _one_by_one(key, shape, where(few, n, 0), q),
            _by_rejection(key, shape, where(few, 1e4, n), where(few, 0.5, q)),
        )
    return where(valid, where(rare, draws, n - draws), -1)


def _most(n: Tensor) -> float:
    """The number of trials, if that is a constant; infinity otherwise."""
    try:
        return float(get_scalar_constant_value(n))
    except SymbolicValueError:
        return math.inf


def _is_probable(n: Tensor, p: Tensor) -> Tensor:
    number = logical_and(greater_equal(n, 0), isfinite(n))
    return logical_and(number, logical_and(greater_equal(p, 0), less_equal(p, 1)))


def _one_by_one(key: Tensor, shape: Lengths, n: Tensor, p: Tensor) -> Tensor:
    """The number of geometric waiting times within ``n`` trials.

    Source: Devroye, Non-uniform random variate generation, 1986, X.4.3.
    """

    def is_left(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        return any(less_equal(state[2], n))

    def step(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        key, count, trials = state
        parts = split(key)
        waited = _waiting_time(parts[0], shape, p)
        return parts[1], count + cast(less_equal(trials, n), p.dtype), trials + waited

    first = key, zeros(shape, p.dtype), zeros(shape, p.dtype)
    return while_loop(is_left, step, first, name="binomial")[1] - 1


def _waiting_time(key: Tensor, shape: Lengths, p: Tensor) -> Tensor:
    """The number of trials up to the first success."""
    return ceil(log(uniforms(key, shape, p.dtype)) / log1p(-p))


def _by_rejection(key: Tensor, shape: Lengths, n: Tensor, p: Tensor) -> Tensor:
    """Draws by transformed rejection, for means of at least 10 and ``p`` up to a half.

    Source: Hörmann, Journal of Statistical Computation and Simulation 46, 1993, algorithm BTRS.
    """
    deviation = sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = floor((n + 1) * p)

    def attempt(keys: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        u = uniforms(keys[0], shape, p.dtype) - 0.5
        v = uniforms(keys[1], shape, p.dtype)
        us = 0.5 - abs(u)
        quick = logical_and(greater_equal(us, 0.07), less_equal(v, v_r))
        k = floor((2 * a / us + b) * u + c)
        refused = logical_or(less(k, 0), greater(k, n))
        height = log(v * alpha / (a / (us * us) + b))
        hits, misses = log_of_ratio(mode, k), log_of_ratio(n - mode, n - k)
        bound = (k - mode) * (log(odds) + misses[0] - hits[0]) + hits[1] + misses[1]
        return k, logical_or(quick, logical_and(logical_not(refused), less_equal(height, bound)))

    return accepted(key, shape, p.dtype, attempt)


@discrete
def binomial(key: Tensor, shape: Lengths, dtype: str, n: Tensor, p: Tensor) -> Tensor:
    """Draw the number of successes in ``n`` trials, as ``jax.random.binomial`` does.

    Where successes and failures both have a mean above 10, JAX rounds a term of the acceptance
    test; there, one draw in thousands differs.

    Args:
        n: The number of trials, at least 0; rounded down.
        p: The probability of success, between 0 and 1. Otherwise, and where n is negative or NaN,
            a draw is -1.

    Distribution:
        - probability of k: ``comb(n, k) * p**k * (1 - p)**(n - k)``, where ``0 <= k <=
          n``
        - mean: ``n * p``
        - variance: ``n * p * (1 - p)``
        - draws are integers, which have no derivatives

    Source: Hörmann, Journal of Statistical Computation and Simulation 46, 1993.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.binomial([5, 1000], 0.5, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [2, 472]
    """
    draws = binomials(key, shape, n, p)
    return as_draws(draws, greater_equal(draws, 0), dtype)


@discrete
def betabinom(key: Tensor, shape: Lengths, dtype: str, n: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Draw the number of successes in ``n`` trials of a beta-distributed probability.

    Args:
        n: The number of trials, at least 0; rounded down.
        a: The first parameter of the beta distribution, positive.
        b: The second, positive. Otherwise a draw is -1.

    Distribution:
        - probability of k: ``comb(n, k) * beta(k + a, n - k + b) / beta(a, b)``, where
          ``0 <= k <= n``
        - mean: ``n * a / (a + b)``
        - variance: ``n * a * b * (a + b + n) / ((a + b)**2 * (a + b + 1))``
        - draws are integers, which have no derivatives

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.betabinom(10, 2.0, 3.0, size=5, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [5, 1, 3, 0, 4]
    """
    first, second = split(key)
    draws = binomials(second, shape, n, betas(first, shape, n.dtype, a, b))
    valid = logical_and(greater_equal(draws, 0), logical_and(greater(a, 0), greater(b, 0)))
    return as_draws(draws, valid, dtype)


@discrete("(),(p)->(p)")
def multinomial(key: Tensor, shape: Lengths, dtype: str, n: Tensor, p: Tensor) -> Tensor:
    """Draw the counts of each outcome in ``n`` trials, along the last axis.

    The count of each outcome in turn is binomial among the remaining trials, as in
    ``jax.random.multinomial``.

    Args:
        n: The number of trials, at least 0.
        p: The probabilities of the outcomes, or numbers proportional to them: none negative, and
            at least one positive. Otherwise a draw is -1.

    Distribution:
        - probability of k: ``gamma(n + 1) * prod(p**k / gamma(k + 1))``, where ``all(k
          >= 0) and sum(k) == n``
        - mean: ``n * p``
        - variance: ``n * p * (1 - p)``
        - draws are integers, which have no derivatives

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.multinomial(100, [0.2, 0.3, 0.5], rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [22, 31, 47]
    """
    outcomes = length(p, -1)
    n = broadcast_to(n, shape)
    p = broadcast_to(p, (*shape, outcomes))
    left = flip(cumsum(flip(p, -1), -1), -1)
    ratios = clip(moveaxis(p / where(equal(left, 0), 1, left), -1, 0), 0, 1)

    def step(remainder: Tensor, element: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        ratio, key = element
        count = binomials(key, shape, remainder, ratio)
        return remainder - count, count

    _, counts = loop(step, n, (ratios, split(key, outcomes)), name="multinomial")
    probable = logical_and(all(greater_equal(p, 0), -1, True), any(greater(p, 0), -1, True))
    counts = moveaxis(counts, 0, -1)
    valid = logical_and(probable, all(greater_equal(counts, 0), -1, True))
    return as_draws(counts, valid, dtype)


@discrete
def geometric(key: Tensor, shape: Lengths, dtype: str, p: Tensor) -> Tensor:
    """Draw the number of trials up to the first success, as ``jax.random.geometric`` does.

    Args:
        p: The probability of success, above 0 and at most 1; otherwise a draw is -1.

    Distribution:
        - probability of k: ``p * (1 - p)**(k - 1)``, where ``k >= 1``
        - mean: ``1 / p``
        - variance: ``(1 - p) / p**2``
        - draws are integers, which have no derivatives

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.geometric(0.1, size=5, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [9, 15, 1, 6, 6]
    """
    u = uniforms(key, shape, p.dtype)
    # log(0) is -inf.
    trials = floor(log(where(equal(u, 0), 1, u)) / log1p(-p)) + 1
    return as_draws(trials, logical_and(greater(p, 0), less_equal(p, 1)), dtype)


WIDE = 2 * math.sqrt(2 / math.e), 3 - 2 * math.sqrt(3 / math.e)
"""The width of the region of candidates: a factor of the standard deviation, and a term."""


def _ratios(key: Tensor, shape: Lengths, few: Tensor, many: Tensor, taken: Tensor) -> Tensor:
    """The number of the rarer kind in a sample of at most half, by a ratio of uniform numbers.

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
        """The logarithm of the probability of k over that of the mode."""
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
    """Draw the number of good elements among ``nsample`` drawn without replacement.

    Args:
        ngood: The number of good elements, at least 0; like the others, rounded down.
        nbad: The number of bad elements, at least 0.
        nsample: The size of the sample, at least 0 and at most all. Otherwise a draw is -1.

    Distribution:
        - probability of k: ``comb(ngood, k) * comb(nbad, nsample - k) / comb(ngood +
          nbad, nsample)``, where ``0 <= k <= nsample``
        - mean: ``nsample * ngood / (ngood + nbad)``
        - variance: ``mean * nbad * (ngood + nbad - nsample) / ((ngood + nbad) * (ngood
          + nbad - 1))``
        - draws are integers, which have no derivatives

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
    # The rest is a sample too, and good and bad elements can be exchanged.
    draws = _ratios(key, shape, minimum(good, bad), maximum(good, bad), minimum(taken, rest))
    draws = where(greater(good, bad), minimum(taken, rest) - draws, draws)
    draws = where(greater(taken, rest), good - draws, draws)
    return as_draws(draws, valid, dtype)
