"""What a growing program has so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Value", "meet"]


@dataclass(frozen=True, eq=False)
class Value:
    """Something assigned so far: its name, its value, and where graphc knows lengths of 1."""

    name: str
    array: np.ndarray
    ones: tuple[bool, ...]

    @property
    def dtype(self) -> str:
        return self.array.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim


def meet(*values: Value) -> tuple[bool, ...] | None:
    """Where the length of what broadcasts is known to be 1; None where it may not broadcast."""
    ndim = max(x.ndim for x in values)
    ones = []
    for axis in range(-ndim, 0):
        there = [(x.shape[axis], x.ones[axis]) for x in values if x.ndim >= -axis]
        if len({n for n, known in there if not known}) > 1:
            return None
        ones.append(all(known for _, known in there))
    return tuple(ones)
