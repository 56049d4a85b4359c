"""Repetition of elements: its places are known while JAX traces."""

from __future__ import annotations

from typing import Any

from graphc.link.jax.backend import backend
from graphc.tensor.arrays.repeat import RepeatIndices


@backend.lower(RepeatIndices)
def repeat_indices(op: RepeatIndices, counts: Any, n: Any) -> Any:
    """Repeat elements; the host reads the counts, which decide the length."""
    return op.perform(counts, n)
