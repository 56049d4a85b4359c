"""The inputs of attention and of its gradient by their roles, and defaults."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

BLOCK = (128, 128)
"""The size of a block where there is no mask."""


class AttentionInputs(NamedTuple, Generic[T]):
    """The inputs of attention, by their roles.

    Attributes:
        q: Queries, (B, Hq, Q, E).
        k: Keys, (B, Hkv, K, E).
        v: Values, (B, Hkv, K, Ev).
        tables: Counts and indices of the partial blocks of each row, then of the full ones; empty
            without a block mask.
        score_captured: The arrays that the score function captures.
        mask_captured: The arrays that the mask function captures.
        rest: For the gradient, the result, the log-sum-exps, and the cotangents of both.
    """

    q: T
    k: T
    v: T
    tables: Sequence[T]
    score_captured: Sequence[T]
    mask_captured: Sequence[T]
    rest: Sequence[T]


def compute_dtype(dtype: str) -> str:
    """Return the dtype of scores for queries of a dtype."""
    return "float64" if dtype == "float64" else "float32"


def scale_of(op: Any, elements: int) -> float:
    """Return an operation's factor of scores for queries with a number of elements."""
    return default_scale(elements) if op.scale is None else op.scale


def default_scale(elements: int) -> float:
    """Return the default factor of scores; 1 for queries without elements."""
    return 1 / math.sqrt(max(elements, 1))


def table_pairs(tables: Sequence[T]) -> list[tuple[T, T]]:
    """Return counts and indices of the partial blocks, and of the full ones."""
    counts, indices, full_counts, full_indices = tables
    return [(counts, indices), (full_counts, full_indices)]
