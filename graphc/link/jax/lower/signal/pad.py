"""Padding with a number in ``jax.lax``; the widths are Python integers here."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.signal.pad import Pad


@backend.lower(Pad)
def pad(op: Pad, x: Any, value: Any, *symbolic: Any) -> Any:
    """Pad all axes at once."""
    return lax.pad(x, value, [(before, after, 0) for before, after in op.sides(symbolic)])
