"""Arrays whose sharding is declared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.ir import Node
from graphc.ir.sharding import with_role
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, rule
from graphc.link.jax.mesh import current
from graphc.tensor.core.sharding import Shard


@backend.lower(Shard)
def shard(op: Shard, x: Any) -> Any:
    """Constrain how the compiled program divides the array, where it is for a mesh."""
    layout = current()
    return x if layout is None else layout.constrained(x, op.sharding, with_role("shard", op))


@rule(Shard)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Leave buffers of more rows than are used to the compiler."""
    (x,) = values
    return x
