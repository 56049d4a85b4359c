"""Repetition of elements: its places are known while MLX traces."""

from __future__ import annotations

from typing import Any

from graphc.link.mlx.backend import backend
from graphc.tensor.arrays.repeat import RepeatIndices


@backend.lower(RepeatIndices)
def repeat_indices(op: RepeatIndices, counts: Any, n: Any) -> Any:
    """The counts are read on the host, as they decide how many places there are."""
    return op.perform(counts, n)
