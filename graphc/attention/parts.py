"""The inputs of attention and of its gradient, apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

__all__ = ["BLOCK", "Parts", "compute_dtype", "default_scale", "paired", "scale_of"]

T = TypeVar("T")

BLOCK = (128, 128)
"""The queries and keys of a block where there is no mask."""


class Parts(NamedTuple, Generic[T]):
    """The inputs of attention, apart.

    Attributes:
        q: Queries, (B, Hq, Q, E).
        k: Keys, (B, Hkv, K, E).
        v: Values, (B, Hkv, K, Ev).
        tables: The number of partial blocks in each row of blocks, these, and the same of full
            blocks; or nothing.
        score_captured: What the score function captures.
        mask_captured: What the mask function captures.
        rest: Of the gradient, the result, its logarithms of sums, and the cotangents of both.
    """

    q: T
    k: T
    v: T
    tables: Sequence[T]
    score_captured: Sequence[T]
    mask_captured: Sequence[T]
    rest: Sequence[T]


def compute_dtype(dtype: str) -> str:
    """The dtype of scores of such queries."""
    return "float64" if dtype == "float64" else "float32"


def scale_of(op: Any, elements: int) -> float:
    """What scores are multiplied by, where queries have so many elements."""
    return default_scale(elements) if op.scale is None else op.scale


def default_scale(elements: int) -> float:
    """What scores are multiplied by where nothing is said, 1 where there are no elements."""
    return 1 / math.sqrt(max(elements, 1))


def paired(tables: Sequence[T]) -> list[tuple[T, T]]:
    """Counts and numbers of the partial blocks, and of the full ones."""
    n, places, full_n, full_places = tables
    return [(n, places), (full_n, full_places)]
