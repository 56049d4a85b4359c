"""Declared shardings, in programs over a mesh."""

from __future__ import annotations

from typing import Any

from graphc.ir.sharding import with_role
from graphc.link.jax.backend import backend
from graphc.link.jax.mesh import current
from graphc.tensor.core.sharding import Shard


@backend.lower(Shard)
def shard(op: Shard, x: Any) -> Any:
    """Constrain the array's sharding in a program over a mesh; else return the array."""
    layout = current()
    return x if layout is None else layout.constrain(x, op.sharding, with_role("shard", op))
