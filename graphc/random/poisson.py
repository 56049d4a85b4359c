"""The Poisson distribution, and its mixture, the negative binomial distribution."""

from __future__ import annotations

from graphc.loop.functional import while_loop
from graphc.random.distribution import as_draws, discrete
from graphc.random.gamma_family import gammas
from graphc.random.generator import DISTRIBUTIONS
from graphc.random.keys import Lengths, split
from graphc.random.rejection import log_of_poisson, sample_by_rejection
from graphc.random.uniform import uniforms
from graphc.tensor.arrays.create import zeros
from graphc.tensor.arrays.reduce import any
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.exponential import log
from graphc.tensor.core.tensor import Tensor

__all__ = ["nbinom", "negative_binomial", "poisson"]

MAX_COUNTED_MEAN = 10
"""The mean below which events are counted one by one."""


def poissons(key: Tensor, shape: Lengths, lam: Tensor) -> Tensor:
    """Draw Poisson counts as floating numbers; -1 where the mean is negative or NaN.

    Uniform numbers have 32 bits, as in ``jax.random``; the draws have lam's dtype.
    """
    # A comparison with NaN is false.
    many = ew.greater_equal(lam, MAX_COUNTED_MEAN)
    draws = ew.where(
        many,
        _draw_by_rejection(key, shape, ew.where(many, lam, 1e5)),
        _count_events(key, shape, ew.where(many, 0, lam)),
    )
    return ew.where(ew.greater_equal(lam, 0), ew.where(ew.less_equal(lam, 0), 0, draws), -1)


def _count_events(key: Tensor, shape: Lengths, lam: Tensor) -> Tensor:
    """Count the exponential waiting times within a time of ``lam``.

    Source: Knuth, The Art of Computer Programming, volume 2, 3.4.1.
    """

    def is_left(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        return any(ew.greater(state[2], -lam))

    def step(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        key, count, time = state
        keys = split(key)
        wait = log(ew.cast(uniforms(keys[1], shape, "float32"), lam.dtype))
        return keys[0], count + ew.cast(ew.greater(time, -lam), lam.dtype), time + wait

    first = key, zeros(shape, lam.dtype), zeros(shape, lam.dtype)
    return while_loop(is_left, step, first, name="poisson")[1] - 1


def _draw_by_rejection(key: Tensor, shape: Lengths, lam: Tensor) -> Tensor:
    """Draw by transformed rejection, for means of at least 10.

    Source: Hörmann, Insurance: Mathematics and Economics 12(1), 1993, algorithm PTRS.
    """
    b = 0.931 + 2.53 * ew.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def attempt(keys: list[Tensor]) -> tuple[Tensor, Tensor]:
        u = ew.cast(uniforms(keys[0], shape, "float32") - 0.5, lam.dtype)
        v = ew.cast(uniforms(keys[1], shape, "float32"), lam.dtype)
        us = 0.5 - ew.abs(u)
        k = ew.floor((2 * a / us + b) * u + lam + 0.43)
        quick = ew.logical_and(ew.greater_equal(us, 0.07), ew.less_equal(v, v_r))
        refused = ew.logical_or(
            ew.less(k, 0), ew.logical_and(ew.less(us, 0.013), ew.greater(v, us))
        )
        height = log(v * inverse_alpha / (a / (us * us) + b))
        below = ew.less_equal(height, log_of_poisson(k, lam))
        return k, ew.logical_or(quick, ew.logical_and(~refused, below))

    return sample_by_rejection(key, shape, lam.dtype, attempt)  # type: ignore[arg-type]


@discrete
def poisson(key: Tensor, shape: Lengths, dtype: str, lam: Tensor = 1.0) -> Tensor:  # type: ignore[assignment]
    """Draw from the Poisson distribution, as ``jax.random.poisson`` does.

    Args:
        lam: The mean, at least 0; where it is negative or NaN, a draw is -1.

    Distribution:
        - probability of k: ``lam**k * exp(-lam) / gamma(k + 1)``, where ``k >=
          0``
        - mean: ``lam``
        - variance: ``lam``
        - draws are integers, which have no derivatives

    Source: Hörmann, Insurance: Mathematics and Economics 12(1), 1993.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.poisson([1.0, 100.0], rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [0, 95]
    """
    draws = poissons(key, shape, lam)
    return as_draws(draws, ew.greater_equal(draws, 0), dtype)


@discrete
def nbinom(key: Tensor, shape: Lengths, dtype: str, n: Tensor, p: Tensor) -> Tensor:
    """Draw from the negative binomial distribution: the failures before ``n`` successes.

    The distribution is a mixture of Poisson distributions with gamma-distributed means, so n need
    not be an integer.

    Args:
        n: The number of successes, positive.
        p: The probability of success, above 0 and at most 1. Otherwise a draw is -1.

    Distribution:
        - probability of k: ``exp(gammaln(n + k) - gammaln(k + 1) - gammaln(n)) * p**n *
          (1 - p)**k``, where ``k >= 0``
        - mean: ``n * (1 - p) / p``
        - variance: ``n * (1 - p) / p**2``
        - draws are integers, which have no derivatives

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.random.nbinom(3, 0.5, size=5, rng=gt.random.key(0))
        >>> x.eval(mode="NUMPY").tolist()
        [2, 5, 5, 0, 8]
    """
    first, second = split(key)
    mean = gammas(first, shape, n.dtype, n) * ((1 - p) / p)
    draws = poissons(second, shape, mean)
    possible = ew.logical_and(
        ew.greater(n, 0), ew.logical_and(ew.greater(p, 0), ew.less_equal(p, 1))
    )
    return as_draws(draws, ew.logical_and(possible, ew.greater_equal(draws, 0)), dtype)


negative_binomial = DISTRIBUTIONS["negative_binomial"] = nbinom
