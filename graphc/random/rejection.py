"""Rejection sampling: the loop, and the ratios of factorials in acceptance tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from graphc.loop.functional import while_loop
from graphc.random.keys import Lengths, split
from graphc.tensor.arrays.create import full
from graphc.tensor.arrays.reduce import any
from graphc.tensor.core.elementwise import cast, clip, less_equal, logical_not, logical_or, where
from graphc.tensor.core.exponential import log, log1p
from graphc.tensor.core.tensor import Tensor, constant

Attempt = Callable[[Sequence[Tensor]], tuple[Tensor, Tensor]]
"""A function from keys to candidates and whether each is accepted."""


def sample_by_rejection(
    key: Tensor, shape: Lengths, dtype: str, attempt: Attempt, keys: int = 2
) -> Tensor:
    """Draw by rejection: return the last accepted candidate of each element.

    All elements are tried until each has an accepted candidate, which is when ``jax.random`` stops
    too. Whether an element is tried again does not depend on its value, so the draws are unbiased.
    Each attempt splits the key: the first part is the key of the next attempt.

    Args:
        key: A key.
        shape: The shape of the draws.
        dtype: The dtype of the draws.
        attempt: A function from keys to candidates, and whether each is accepted.
        keys: The number of keys of an attempt.
    """

    def step(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        key, draws, done = state
        new_keys = split(key, keys + 1)
        new, is_accepted = attempt([new_keys[i + 1] for i in range(keys)])
        return new_keys[0], where(is_accepted, new, draws), logical_or(done, is_accepted)

    def is_left(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        return any(logical_not(state[2]))

    first = key, full(shape, 0, dtype), full(shape, False)
    _, draws, _ = while_loop(is_left, step, first, name="rejection")
    return draws


TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip
"""The error of Stirling's formula for ``log(k!)``, for k from 0 to 9."""


def _stirling_error(k: Tensor) -> Tensor:
    """Return ``log(k!) - ((k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2)`` for k >= 0."""
    tails = constant(np.array(TAILS), dtype=k.dtype, bake=True)
    in_table = less_equal(k, len(TAILS) - 1)
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    index = cast(clip(where(in_table, k, 0), 0, len(TAILS) - 1), "int64")
    return where(in_table, tails[index], series)


def log_of_ratio(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return x and y with ``log(a! / b!) == (a - b) * x + y``.

    The x of several ratios are large and nearly cancel: sum them before multiplying.
    """
    step = a - b
    rest = (a + 0.5) * log1p(step / (b + 1)) - step
    return log(b + 1), rest + _stirling_error(a) - _stirling_error(b)


def log_of_poisson(k: Tensor, mean: Tensor) -> Tensor:
    """Return the logarithm of the Poisson probability of k."""
    distance = mean - (k + 1)
    small = 0.5 * log(k + 1) + _stirling_error(k) + 0.5 * math.log(2 * math.pi)
    return k * log1p(distance / (k + 1)) - distance - small
