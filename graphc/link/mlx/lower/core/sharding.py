"""Arrays whose sharding is declared: MLX has no mesh of devices."""

from __future__ import annotations

from typing import Any

from graphc.link.mlx.backend import backend
from graphc.tensor.core.sharding import Shard


@backend.lower(Shard)
def shard(op: Shard, x: Any) -> Any:
    """The array itself."""
    return x
