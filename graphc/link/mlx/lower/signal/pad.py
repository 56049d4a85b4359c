"""Padding with a number; the widths are Python integers here."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.signal.pad import Pad


@backend.lower(Pad)
def pad(op: Pad, x: Any, value: Any, *symbolic: Any) -> Any:
    """All axes at once."""
    sides = op.sides(symbolic)
    if not any(map(any, sides)):
        return x
    return mx.pad(x, sides, constant_values=value)
