"""Broadcasting to a known shape, and repetition by counts on the host."""

from __future__ import annotations

from typing import Any

from graphc.link.mlx.arrays import broadcast_array
from graphc.link.mlx.backend import backend
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.repeat import RepeatIndices


@backend.lower(BroadcastTo)
def broadcast_to(op: BroadcastTo, x: Any, *symbolic: Any) -> Any:
    """Return a view with repeated axes."""
    return broadcast_array(x, op.target(x.shape, symbolic))


@backend.lower(RepeatIndices)
def repeat_indices(op: RepeatIndices, counts: Any, n: Any) -> Any:
    """Return NumPy's result: the counts decide the shape."""
    return op.perform(counts, n)
