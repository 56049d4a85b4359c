"""Shapes, axes, joins and splits, and declared shapes and shardings.

Lengths are Python integers here.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import mlx.core as mx

from graphc.link.mlx.arrays import broadcast_array, reshape_array
from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.index import part_of
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.split import Split
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.shape import Reshape
from graphc.tensor.core.sharding import Shard


@backend.lower(Reshape)
def reshape(op: Reshape, x: Any, *symbolic: Any) -> Any:
    return reshape_array(x, op.target(x.shape, symbolic))


backend.lower(ExpandDims)(lambda op, x: mx.expand_dims(x, op.axes))
backend.lower(Squeeze)(lambda op, x: mx.squeeze(x, op.axes))
backend.lower(Transpose)(lambda op, x: mx.transpose(x, op.axes))
backend.lower(Shard)(lambda op, x: x)  # MLX has no mesh of devices


@backend.lower(BroadcastTo)
def broadcast_to(op: BroadcastTo, x: Any, *symbolic: Any) -> Any:
    return broadcast_array(x, op.target(x.shape, symbolic))


@backend.lower(Concatenate)
def concatenate(op: Concatenate, *xs: Any) -> Any:
    """Concatenate arrays; empty ones add nothing."""
    filled = [x for x in xs if x.shape[op.axis]] or [xs[0]]
    return filled[0] if len(filled) == 1 else mx.concatenate(filled, op.axis)


@backend.lower(Split)
def split(op: Split, x: Any, *symbolic: Any) -> Any:
    """Return a view of each part."""
    bounds = op.bounds(x.shape[op.axis], symbolic)
    ranges = [range(n) for n in x.shape]
    return tuple(
        part_of(x, [*ranges[: op.axis], range(*ends), *ranges[op.axis + 1 :]])
        for ends in pairwise(bounds)
    )
