"""Distinct elements, found by NumPy: how many there are decides a shape."""

from __future__ import annotations

from typing import Any

from graphc.link.mlx.backend import backend
from graphc.tensor.arrays.sets import Unique


@backend.lower(Unique)
def unique(op: Unique, x: Any) -> Any:
    """Between compiled segments, where the values can be read."""
    return op.perform(x)
