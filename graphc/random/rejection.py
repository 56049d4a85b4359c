"""Draws by rejection: all elements try again, until each was accepted at least once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.loop.functional import while_loop
from graphc.random.bits import Lengths
from graphc.random.keys import split
from graphc.tensor.create import full
from graphc.tensor.elementwise import logical_not, logical_or, where
from graphc.tensor.reduce import any
from graphc.tensor.tensor import Tensor

__all__ = ["accepted"]

Attempt = Callable[[Sequence[Tensor]], tuple[Tensor, Tensor]]
"""Takes as many keys as asked for; gives draws, and which of them are accepted."""


def accepted(key: Tensor, shape: Lengths, dtype: str, attempt: Attempt, keys: int = 2) -> Tensor:
    """Draws of the shape, each the last of its element that was accepted.

    All are tried until none is left, which is when ``jax.random`` stops too. Whether one is tried
    again does not depend on its value, but on who was accepted, so that none is preferred. Each
    attempt splits the key: the first part is that of the next one.

    Args:
        key: A key.
        shape: The shape of the draws.
        dtype: Their dtype.
        attempt: Gives draws of that shape, and which of them are accepted.
        keys: How many keys an attempt takes.
    """

    def step(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        key, draws, done = state
        parts = split(key, keys + 1)
        new, good = attempt([parts[i + 1] for i in range(keys)])
        return parts[0], where(good, new, draws), logical_or(done, good)

    def is_left(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        return any(logical_not(state[2]))

    first = key, full(shape, 0, dtype), full(shape, False)
    _, draws, _ = while_loop(is_left, step, first, name="rejection")
    return draws  # type: ignore[no-any-return]
