"""Counts of successes among trials, and of several outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.loop.functional import loop, while_loop
from graphc.random.beta import betas
from graphc.random.bits import Lengths
from graphc.random.distribution import as_draws, discrete
from graphc.random.factorial import log_of_ratio
from graphc.random.keys import split
from graphc.random.rejection import accepted
from graphc.random.uniform import uniforms
from graphc.tensor.axes import moveaxis
from graphc.tensor.broadcast import broadcast_to
from graphc.tensor.create import zeros
from graphc.tensor.cumulative import cumsum
from graphc.tensor.elementwise import (
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
    sqrt,
    where,
)
from graphc.tensor.exponential import log, log1p
from graphc.tensor.index import flip
from graphc.tensor.reduce import all, any
from graphc.tensor.shape import length
from graphc.tensor.tensor import Tensor

__all__ = ["binomials"]

FEW = 10
"""The mean up to which successes are counted one by one."""


def binomials(key: Tensor, shape: Lengths, n: Tensor, p: Tensor) -> Tensor:
    """The draws of ``jax.random.binomial`` as floating numbers; -1 where there is no such one."""
    n = broadcast_to(floor(n), shape)
    p = broadcast_to(p, shape)
    valid = _is_probable(n, p)
    # The rarer of success and failure is counted.
    rare = less(p, 0.5)
    q = where(valid, where(rare, p, 1 - p), 0.01)
    n = where(valid, n, 0)
    few = less_equal(n * q, FEW)
    draws = where(
        few,
        _one_by_one(key, shape, where(few, n, 0), q),
        _by_rejection(key, shape, where(few, 1e4, n), where(few, 0.5, q)),
    )
    return where(valid, where(rare, draws, n - draws), -1)  # type: ignore[no-any-return]


def _is_probable(n: Tensor, p: Tensor) -> Tensor:
    number = logical_and(greater_equal(n, 0), isfinite(n))
    return logical_and(number, logical_and(greater_equal(p, 0), less_equal(p, 1)))


def _one_by_one(key: Tensor, shape: Lengths, n: Tensor, p: Tensor) -> Tensor:
    """How many geometric waiting times there are in ``n`` trials.

    Source: Devroye, Non-uniform random variate generation, 1986, X.4.3.
    """
    rate = log1p(-p)

    def is_left(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        return any(less_equal(state[2], n))

    def step(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        key, count, trials = state
        parts = split(key)
        waited = ceil(log(uniforms(parts[0], shape, p.dtype)) / rate)
        return parts[1], count + cast(less_equal(trials, n), p.dtype), trials + waited

    first = key, zeros(shape, p.dtype), zeros(shape, p.dtype)
    return while_loop(is_left, step, first, name="binomial")[1] - 1  # type: ignore[no-any-return]


def _by_rejection(key: Tensor, shape: Lengths, n: Tensor, p: Tensor) -> Tensor:
    """Transformed rejection, for means from 10 on and ``p`` up to a half.

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
    """How many of ``n`` trials succeed: the draws of ``jax.random.binomial``.

    Where successes and failures have a mean above 10, JAX rounds a term of what decides on some
    numbers; there, a draw in thousands is another one.

    Args:
        n: How many trials there are, from 0 on; rounded down.
        p: The probability of success, between 0 and 1. Elsewhere, and where n is below 0 or NaN, a
            draw is -1.

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
    """How many of ``n`` trials succeed, with a probability of the beta distribution.

    Args:
        n: How many trials there are, from 0 on; rounded down.
        a: The beta distribution's first parameter, above 0.
        b: The second, above 0. Elsewhere a draw is -1.

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
    """How often each outcome comes in ``n`` trials, along the last axis.

    One outcome after the other, its count is binomial among the trials that are left, as in
    ``jax.random.multinomial``.

    Args:
        n: How many trials there are, from 0 on.
        p: The probability of each outcome, or numbers in proportion to it: none below 0, and one
            above. Elsewhere a draw is -1.

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
