"""Repetition of elements: the indices are known while JAX traces."""

from __future__ import annotations

from typing import Any

from graphc.link.jax.backend import backend
from graphc.tensor.arrays.repeat import RepeatIndices


@backend.lower(RepeatIndices)
def repeat_indices(op: RepeatIndices, counts: Any, n: Any) -> Any:
    """Compute the indices on the host: the counts decide their number."""
    return op.perform(counts, n)
