"""Repetition of elements: its places are known while MLX traces."""

from __future__ import annotations

from typing import Any

from graphc.link.mlx.backend import backend
from graphc.tensor.repeat import Repeated

__all__: list[str] = []


@backend.lower(Repeated)
def repeated(op: Repeated, counts: Any, n: Any) -> Any:
    """The counts are read on the host, as they decide how many places there are."""
    return op.perform(counts, n)
