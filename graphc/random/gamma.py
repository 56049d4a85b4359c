"""The gamma distribution, and what is made of its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import here, where as where_is
from graphc.loop.functional import loop
from graphc.random.bits import Lengths, Words, child
from graphc.random.distribution import distribution
from graphc.random.exponential import exponentials
from graphc.random.lanes import Lanes, drawn
from graphc.random.normal import normals
from graphc.random.uniform import uniforms
from graphc.tensor.create import zeros_like
from graphc.tensor.elementwise import (
    equal,
    greater,
    greater_equal,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    sqrt,
    where,
)
from graphc.tensor.exponential import exp, log
from graphc.tensor.gamma import log_gamma_by_a
from graphc.tensor.reduce import all
from graphc.tensor.tensor import Tensor

__all__ = ["gammas", "log_gammas"]

MOST = 1000
"""How many candidates there can be for a number; more than 19 of 20 are taken."""

SQUEEZE = 0.0331
"""Of a candidate z, ``1 - SQUEEZE * z**4`` is less than what is compared with."""


def _candidates(words: Words, a: Tensor) -> Tensor:
    """Numbers of the distribution of shape a >= 1, over ``a - 1/3``.

    They are cubes of normal numbers, of which some are refused.

    Source: Marsaglia & Tsang, A simple method for generating gamma variables, ACM TOMS 26(3), 2000.
    """
    dtype = a.dtype
    d = a - 1 / 3
    c = (1 / 3) / sqrt(d)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        key, inner, uniform, anew, done, taken = carry
        key, inner, uniform = (
            tuple([where(anew, new, old) for new, old in zip(child(key, i), now, strict=True)])
            for i, now in enumerate((key, inner, uniform))
        )
        inner, own = child(inner, 0), child(inner, 1)
        z = normals(own, (), dtype)
        v = 1 + z * c
        # A cube of what is not positive is drawn again, with the same number to compare with.
        anew = logical_not(less_equal(v, 0))
        square, cube = z * z, v * v * v
        u = uniforms(uniform, (), dtype)
        refused = logical_and(
            greater_equal(u, 1 - SQUEEZE * (square * square)),
            greater_equal(log(u), square / 2 + d * (1 - cube + log(cube))),
        )
        found = logical_and(anew, logical_not(refused))
        fresh = logical_and(found, logical_not(done))
        return (key, inner, uniform, anew, logical_or(done, found), where(fresh, cube, taken)), None

    first = zeros_like(a, "bool")
    carry = (words, words, words, logical_not(first), first, zeros_like(a))
    (*_, taken), _ = loop(step, carry, until=lambda carry: all(carry[4]), max_steps=MOST)
    return taken  # type: ignore[no-any-return]


def _of_one_more(k0: Tensor, k1: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Whether a shape is drawn from as it is, the shape that is, and what is accepted of it."""
    whole = greater_equal(a, 1)
    high = where(whole, a, a + 1)
    return whole, high, _candidates(child((k0, k1), 0), high)


@dataclass(frozen=True, slots=True)
class Gamma(Lanes):
    """A number of the gamma distribution for each key and shape a, of rate 1."""

    @property
    def name(self) -> str:
        return "random_gamma"

    def numbers(self, k0: Tensor, k1: Tensor, a: Tensor) -> Tensor:  # type: ignore[override]
        """Of a shape below 1, a number of one more, times the power of a uniform one."""
        whole, high, cube = _of_one_more(k0, k1, a)
        u = 1 - uniforms(child((k0, k1), 1), (), a.dtype)
        y = (high - 1 / 3) * cube * where(whole, 1, u ** (1 / a))
        return where(greater_equal(a, 0), y, np.nan)  # type: ignore[no-any-return]

    def slopes(self, y: Tensor, a: Tensor) -> tuple[Tensor]:  # type: ignore[override]
        """That of the logarithm times the number, which is 0 where the number is."""
        there = greater(y, 0)
        return (where(there, y * log_gamma_by_a(a, log(where(there, y, 1))), 0),)


@dataclass(frozen=True, slots=True)
class LogGamma(Lanes):
    """The logarithm of such a number, which for a small shape is too small for a float."""

    @property
    def name(self) -> str:
        return "random_log_gamma"

    def numbers(self, k0: Tensor, k1: Tensor, a: Tensor) -> Tensor:  # type: ignore[override]
        """Of a shape below 1, that of a number of one more, and a part of an exponential one."""
        whole, high, cube = _of_one_more(k0, k1, a)
        e = exponentials(child((k0, k1), 1), (), a.dtype)
        boost = where(logical_or(whole, equal(e, 0)), 0, -e * (1 / a))
        y = log(high - 1 / 3) + log(cube) + boost
        return where(greater_equal(a, 0), y, np.nan)  # type: ignore[no-any-return]

    def slopes(self, y: Tensor, a: Tensor) -> tuple[Tensor]:  # type: ignore[override]
        """At the quantile that stays as it is."""
        return (log_gamma_by_a(a, y),)


def gammas(key: Any, shape: Lengths, dtype: str, a: Tensor) -> Tensor:
    """Numbers of shape a and rate 1, those of ``jax.random.gamma``."""
    return drawn(Gamma(), key, shape, a)


def log_gammas(key: Any, shape: Lengths, dtype: str, a: Tensor) -> Tensor:
    """The logarithms of such numbers, those of ``jax.random.loggamma``."""
    return drawn(LogGamma(), key, shape, a)


@distribution
def gamma(
    key: Tensor, lengths: Lengths, dtype: str, shape: Any, rate: Any = None, scale: Any = None
) -> Tensor:
    """Numbers of the gamma distribution; gradients by all parameters, ``shape`` too.

    Args:
        shape: The shape, positive.
        rate: The reciprocal of ``scale``, positive.
        scale: What a number of rate 1 is multiplied by; by default 1.

    Raises:
        ArgumentError: Both a rate and a scale.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.gamma([0.5, 2.0], rate=3.0, rng=gt.random.key(0)).type
        float64[2]
    """
    if rate is not None and scale is not None:
        raise ArgumentError("gamma: both a rate and a scale.", "Give one.", where_is(here()))
    y = gammas(key, lengths, dtype, shape)
    if rate is not None:
        return y / rate  # type: ignore[no-any-return]
    return y if scale is None else y * scale


@distribution
def invgamma(key: Tensor, lengths: Lengths, dtype: str, shape: Any, scale: Any = 1.0) -> Tensor:
    """Reciprocals of numbers of the gamma distribution.

    Args:
        shape: The shape of the gamma distribution, positive.
        scale: What the reciprocals are multiplied by, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.invgamma([0.5, 2.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return scale * exp(-log_gammas(key, lengths, dtype, shape))  # type: ignore[no-any-return]


@distribution
def gengamma(
    key: Tensor, shape: Lengths, dtype: str, alpha: Any = 1.0, p: Any = 1.0, lambd: Any = 1.0
) -> Tensor:
    """Powers of numbers of the gamma distribution; of density ``x**(alpha - 1) * exp(-x**p)``.

    Args:
        alpha: The exponent of small numbers, plus 1, positive.
        p: The reciprocal of the power, positive.
        lambd: What the powers are multiplied by, positive.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.gengamma([0.5, 2.0], 2.0, rng=gt.random.key(0)).type
        float64[2]
    """
    return lambd * exp(log_gammas(key, shape, dtype, alpha / p) / p)  # type: ignore[no-any-return]


@distribution
def chisquare(key: Tensor, shape: Lengths, dtype: str, df: Any) -> Tensor:
    """Numbers of the chi-square distribution, as sums of squares of normal numbers are.

    Args:
        df: How many squares, positive; not only a whole number.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.chisquare([1.0, 5.0], rng=gt.random.key(0)).type
        float64[2]
    """
    return exp(log_gammas(key, shape, dtype, df / 2)) * 2
