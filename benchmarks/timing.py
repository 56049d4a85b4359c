"""Two ways of doing one thing, timed in turns, so that a busy machine slows both alike."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import jax
import numpy as np

__all__ = ["Ratio", "agree", "compared", "megabytes", "milliseconds"]

BLOCK = 2e-3
"""Seconds: calls are timed in blocks of about this length, far above the clock's grain."""


@dataclass(frozen=True)
class Ratio:
    """How long graphc took against the same by hand, or how many bytes.

    Attributes:
        graphc: Median seconds, or bytes.
        hand: Median seconds, or bytes.
        ratio: The median of the ratios of neighbouring measurements.
        best: The ratio of the lowest deciles; a single shortest time can be chance.
    """

    graphc: float
    hand: float
    ratio: float
    best: float

    @classmethod
    def of(cls, graphc: list[float], hand: list[float]) -> Ratio:
        pairs = [a / b for a, b in zip(graphc, hand, strict=True)]
        return cls(median(graphc), median(hand), median(pairs), _fast(graphc) / _fast(hand))


def _fast(times: list[float]) -> float:
    return sorted(times)[len(times) // 10]


def milliseconds(seconds: float) -> str:
    """Three digits."""
    return f"{seconds * 1e3:.4f}" if seconds < 1e-3 else f"{seconds * 1e3:.3g}"


def megabytes(bytes: float) -> str:
    """Three digits."""
    return f"{bytes / 1e6:.3g}"


def agree(graphc: Any, hand: Any, *, rtol: float) -> None:
    """Raise unless both give the same numbers, relative to the largest of each array."""
    ours, theirs = jax.tree.leaves(graphc), jax.tree.leaves(hand)
    assert len(ours) == len(theirs)
    for x, y in zip(map(np.asarray, ours), map(np.asarray, theirs), strict=True):
        assert x.dtype == y.dtype, (x.dtype, y.dtype)
        scale = float(np.max(np.abs(y), initial=0.0))
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale)


def compared(
    graphc: Callable[..., Any], hand: Callable[..., Any], *arguments: Any, blocks: int = 60
) -> Ratio:
    """Calls with the same arguments, in alternating blocks."""
    for _ in range(3):
        jax.block_until_ready((graphc(*arguments), hand(*arguments)))
    calls = max(1, int(BLOCK / min(_block(hand, arguments, 1) for _ in range(5))))
    ours, theirs = [], []
    gc.collect()
    for i in range(blocks):
        for f, times in ((graphc, ours), (hand, theirs))[:: 1 if i % 2 else -1]:
            times.append(_block(f, arguments, calls))
    return Ratio.of(ours, theirs)


def _block(f: Callable[..., Any], arguments: tuple[Any, ...], calls: int) -> float:
    start = perf_counter()
    for _ in range(calls):
        last = f(*arguments)
    jax.block_until_ready(last)
    return (perf_counter() - start) / calls
