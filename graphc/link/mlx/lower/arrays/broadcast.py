"""Repetition to a larger shape; lengths are Python integers here."""

from __future__ import annotations

from typing import Any

from graphc.link.mlx.arrays import repeated_to
from graphc.link.mlx.backend import backend
from graphc.tensor.arrays.broadcast import BroadcastTo


@backend.lower(BroadcastTo)
def broadcast_to(op: BroadcastTo, x: Any, *symbolic: Any) -> Any:
    """A view: repeated along new axes in front and the axes of static length 1."""
    return repeated_to(x, op.target(x.shape, symbolic))
