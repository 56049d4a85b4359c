"""Counts of successes: Bernoulli, binomial, multinomial, geometric and hypergeometric draws."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphc.errors import SymbolicValueError
from graphc.loop.functional import loop, while_loop
from graphc.random.distribution import as_draws, discrete
from graphc.random.gamma_family import betas
from graphc.random.keys import Lengths, split
from graphc.random.rejection import log_of_ratio, sample_by_rejection
from graphc.random.uniform import uniforms
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.constants import get_scalar_constant_value
from graphc.tensor.arrays.create import zeros
from graphc.tensor.arrays.cumulative import cumsum
from graphc.tensor.arrays.index import flip
from graphc.tensor.arrays.reduce import all, any
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import moveaxis
from graphc.tensor.core.exponential import log, log1p
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Tensor

__all__ = ["bernoulli", "betabinom", "binomial", "geometric", "hypergeometric", "multinomial"]


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
    draw = ew.less(uniforms(key, shape, p.dtype), p)
    valid = ew.logical_and(ew.greater_equal(p, 0), ew.less_equal(p, 1))
    return as_draws(ew.cast(draw, "int64"), valid, dtype)


MAX_COUNTED_MEAN = 10
"""The mean up to which successes are counted one by one."""


def binomials(key: Tensor, shape: Lengths, n: Tensor, p: Tensor) -> Tensor:
    """Draw binomial counts as floating numbers, as ``jax.random.binomial``; -1 where invalid."""
    limit = _constant_trials(n)
    n = broadcast_to(ew.floor(n), shape)
    p = broadcast_to(p, shape)
    valid = _is_valid(n, p)
    # The rarer of success and failure is counted, as its probability is below a half.
    rare = ew.less(p, 0.5)
    q = ew.where(valid, ew.where(rare, p, 1 - p), 0.01)
    n = ew.where(valid, n, 0)
    if limit < 2:
        draws = ew.cast(ew.less_equal(_draw_waiting_time(split(key)[0], shape, q), n), q.dtype)
    elif limit <= 2 * MAX_COUNTED_MEAN:
        draws = _count_successes(key, shape, n, q)
    else:
        few = ew.less_equal(n * q, MAX_COUNTED_MEAN)
        draws = ew.where(
            few,
            _count_successes(key, shape, ew.where(few, n, 0), q),
            _draw_by_rejection(key, shape, ew.where(few, 1e4, n), ew.where(few, 0.5, q)),
        )
    return ew.where(valid, ew.where(rare, draws, n - draws), -1)


def _constant_trials(n: Tensor) -> float:
    """Return the number of trials if it is a constant, else infinity."""
    try:
        return float(get_scalar_constant_value(n))
    except SymbolicValueError:
        return math.inf


def _is_valid(n: Tensor, p: Tensor) -> Tensor:
    number = ew.logical_and(ew.greater_equal(n, 0), ew.isfinite(n))
    return ew.logical_and(number, ew.logical_and(ew.greater_equal(p, 0), ew.less_equal(p, 1)))


def _count_successes(key: Tensor, shape: Lengths, n: Tensor, p: Tensor) -> Tensor:
    """Count the geometric waiting times within ``n`` trials.

    Source: Devroye, Non-uniform random variate generation, 1986, X.4.3.
    """

    def is_left(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        return any(ew.less_equal(state[2], n))

    def step(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        key, count, trials = state
        keys = split(key)
        wait = _draw_waiting_time(keys[0], shape, p)
        return keys[1], count + ew.cast(ew.less_equal(trials, n), p.dtype), trials + wait

    first = key, zeros(shape, p.dtype), zeros(shape, p.dtype)
    return while_loop(is_left, step, first, name="binomial")[1] - 1


def _draw_waiting_time(key: Tensor, shape: Lengths, p: Tensor) -> Tensor:
    return ew.ceil(log(uniforms(key, shape, p.dtype)) / log1p(-p))


def _draw_by_rejection(key: Tensor, shape: Lengths, n: Tensor, p: Tensor) -> Tensor:
    """Draw by transformed rejection, for means of at least 10 and ``p`` up to a half.

    Source: Hörmann, Journal of Statistical Computation and Simulation 46, 1993, algorithm BTRS.
    """
    deviation = ew.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = ew.floor((n + 1) * p)

    def attempt(keys: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        u = uniforms(keys[0], shape, p.dtype) - 0.5
        v = uniforms(keys[1], shape, p.dtype)
        us = 0.5 - ew.abs(u)
        quick = ew.logical_and(ew.greater_equal(us, 0.07), ew.less_equal(v, v_r))
        k = ew.floor((2 * a / us + b) * u + c)
        refused = ew.logical_or(ew.less(k, 0), ew.greater(k, n))
        height = log(v * alpha / (a / (us * us) + b))
        hits, misses = log_of_ratio(mode, k), log_of_ratio(n - mode, n - k)
        bound = (k - mode) * (log(odds) + misses[0] - hits[0]) + hits[1] + misses[1]
        return k, ew.logical_or(
            quick, ew.logical_and(ew.logical_not(refused), ew.less_equal(height, bound))
        )

    return sample_by_rejection(key, shape, p.dtype, attempt)


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
    return as_draws(draws, ew.greater_equal(draws, 0), dtype)


@discrete
def betabinom(key: Tensor, shape: Lengths, dtype: str, n: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Draw the number of successes in ``n`` trials of a beta-distributed probability.

    Args:
        n: The number of trials, at least 0; rounded down.
        a: The first parameter of the beta distribution, positive.
        b: The second parameter, positive. Otherwise a draw is -1.

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
    valid = ew.logical_and(
        ew.greater_equal(draws, 0), ew.logical_and(ew.greater(a, 0), ew.greater(b, 0))
    )
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
    remaining = flip(cumsum(flip(p, -1), -1), -1)
    ratios = ew.clip(moveaxis(p / ew.where(ew.equal(remaining, 0), 1, remaining), -1, 0), 0, 1)

    def step(remainder: Tensor, element: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        ratio, key = element
        count = binomials(key, shape, remainder, ratio)
        return remainder - count, count

    _, counts = loop(step, n, (ratios, split(key, outcomes)), name="multinomial")
    valid_p = ew.logical_and(all(ew.greater_equal(p, 0), -1, True), any(ew.greater(p, 0), -1, True))
    counts = moveaxis(counts, 0, -1)
    valid = ew.logical_and(valid_p, all(ew.greater_equal(counts, 0), -1, True))
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
    trials = ew.floor(log(ew.where(ew.equal(u, 0), 1, u)) / log1p(-p)) + 1
    return as_draws(trials, ew.logical_and(ew.greater(p, 0), ew.less_equal(p, 1)), dtype)


HRUE_WIDTH = 2 * math.sqrt(2 / math.e), 3 - 2 * math.sqrt(3 / math.e)
"""The width of the region of candidates: a factor of the standard deviation, and a term."""


def _draw_by_ratio(
    key: Tensor, shape: Lengths, rare: Tensor, common: Tensor, drawn: Tensor
) -> Tensor:
    """Draw the number of the rarer kind in a sample of at most half, by a ratio of uniforms.

    Source: Stadlober, Journal of Computational and Applied Mathematics 31, 1990, algorithm HRUE.
    """
    total = rare + common
    fraction = rare / ew.maximum(total, 1)
    middle = drawn * fraction + 0.5
    variance = (total - drawn) * drawn * fraction * (1 - fraction) / ew.maximum(total - 1, 1)
    width = HRUE_WIDTH[0] * ew.sqrt(variance + 0.5) + HRUE_WIDTH[1]
    mode = ew.floor((drawn + 1) * (rare + 1) / (total + 2))
    low, high = ew.maximum(0, drawn - common), ew.minimum(drawn, rare)

    def height(k: Tensor) -> Tensor:
        """Return the log of the probability of k relative to the mode."""
        up = [log_of_ratio(mode, k), log_of_ratio(common - drawn + mode, common - drawn + k)]
        down = [log_of_ratio(rare - mode, rare - k), log_of_ratio(drawn - mode, drawn - k)]
        log_ratio = up[0][0] + up[1][0] - down[0][0] - down[1][0]
        return (mode - k) * log_ratio + up[0][1] + up[1][1] + down[0][1] + down[1][1]

    def attempt(keys: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        u = uniforms(keys[0], shape, rare.dtype)
        v = uniforms(keys[1], shape, rare.dtype)
        k = ew.floor(middle + width * (v - 0.5) / u)
        clipped = ew.clip(k, low, high)
        below = ew.less_equal(2 * log(u), height(clipped))
        return clipped, ew.logical_and(ew.equal(k, clipped), below)

    return sample_by_rejection(key, shape, rare.dtype, attempt)


@discrete
def hypergeometric(
    key: Tensor, shape: Lengths, dtype: str, ngood: Tensor, nbad: Tensor, nsample: Tensor
) -> Tensor:
    """Draw the number of good elements among ``nsample`` drawn without replacement.

    Args:
        ngood: The number of good elements, at least 0; all three numbers are rounded down.
        nbad: The number of bad elements, at least 0.
        nsample: The size of the sample, from 0 to ``ngood + nbad``. Otherwise a draw is -1.

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
    good, bad, drawn = (broadcast_to(ew.floor(x), shape) for x in (ngood, nbad, nsample))
    valid = ew.logical_and(ew.isfinite(good), ew.isfinite(bad))
    for x in (good, bad, drawn, good + bad - drawn):
        valid = ew.logical_and(valid, ew.greater_equal(x, 0))
    good, bad, drawn = (ew.where(valid, x, 1) for x in (good, bad, drawn))
    rest = good + bad - drawn
    # By symmetry, draw the smaller of sample and rest, and count the rarer kind.
    draws = _draw_by_ratio(
        key, shape, ew.minimum(good, bad), ew.maximum(good, bad), ew.minimum(drawn, rest)
    )
    draws = ew.where(ew.greater(good, bad), ew.minimum(drawn, rest) - draws, draws)
    draws = ew.where(ew.greater(drawn, rest), good - draws, draws)
    return as_draws(draws, valid, dtype)
