"""Factorials by Stirling's formula: of ratios of large ones, digits that their difference loses."""

from __future__ import annotations

import math

import numpy as np

from graphc.tensor.elementwise import cast, clip, less_equal, where
from graphc.tensor.exponential import log, log1p
from graphc.tensor.tensor import Tensor, constant

__all__ = ["log_of_poisson", "log_of_ratio"]

TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip
"""What Stirling's formula leaves of ``log(k!)``, for k from 0 to 9."""


def _tail(k: Tensor) -> Tensor:
    """``log(k!) - ((k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2)``, of k from 0 on."""
    known = constant(np.array(TAILS), dtype=k.dtype, bake=True)
    few = less_equal(k, len(TAILS) - 1)
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    place = cast(clip(where(few, k, 0), 0, len(TAILS) - 1), "int64")
    return where(few, known[place], series)  # type: ignore[no-any-return]


def log_of_ratio(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """``log(a! / b!)`` as the sum of ``(a - b) * x`` and ``y``: x, and y.

    The first parts of several such ratios are large and nearly cancel: add up x before.
    """
    step = a - b
    rest = (a + 0.5) * log1p(step / (b + 1)) - step
    return log(b + 1), rest + _tail(a) - _tail(b)


def log_of_poisson(k: Tensor, mean: Tensor) -> Tensor:
    """The logarithm of the probability of k by Poisson's distribution."""
    distance = mean - (k + 1)
    small = 0.5 * log(k + 1) + _tail(k) + 0.5 * math.log(2 * math.pi)
    return k * log1p(distance / (k + 1)) - distance - small
