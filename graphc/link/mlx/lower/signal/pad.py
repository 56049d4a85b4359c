"""Padding with a number, by known widths."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.signal.pad import Pad


@backend.lower(Pad)
def pad(op: Pad, x: Any, value: Any, *symbolic: Any) -> Any:
    """Pad all axes at once."""
    sides = op.sides(symbolic)
    if not any(map(any, sides)):
        return x
    return mx.pad(x, sides, constant_values=value)
