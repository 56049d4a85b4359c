"""The inputs of attention and of its gradient, by what they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

BLOCK = (128, 128)
"""The size of a block where there is no mask."""


class Parts(NamedTuple, Generic[T]):
    """The inputs of attention, by what they are.

    Attributes:
        q: Queries, (B, Hq, Q, E).
        k: Keys, (B, Hkv, K, E).
        v: Values, (B, Hkv, K, Ev).
        tables: Counts and indices of the partial blocks of each row, then of the full ones; or
            nothing.
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
    """The dtype of scores, by that of the queries."""
    return "float64" if dtype == "float64" else "float32"


def scale_of(op: Any, elements: int) -> float:
    """The factor of scores, by the number of elements of a query."""
    return default_scale(elements) if op.scale is None else op.scale


def default_scale(elements: int) -> float:
    """The factor of scores by default; 1 where queries have no elements."""
    return 1 / math.sqrt(max(elements, 1))


def paired(tables: Sequence[T]) -> list[tuple[T, T]]:
    """Counts and indices of the partial blocks, and of the full ones."""
    n, places, full_n, full_places = tables
    return [(n, places), (full_n, full_places)]
