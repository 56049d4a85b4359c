"""Broadcasting in ``jax.lax``; lengths are Python integers here."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.arrays.broadcast import BroadcastTo


@backend.lower(BroadcastTo)
def broadcast_to(op: BroadcastTo, x: Any, *symbolic: Any) -> Any:
    """Broadcast along new leading axes and axes of static length 1."""
    target = op.target(x.shape, symbolic)
    return lax.broadcast_in_dim(x, target, range(len(target) - len(x.shape), len(target)))
