"""Shapes, axes, joins and splits in ``jax.lax``, and declared shapes and shardings.

Lengths are Python integers here.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from jax import lax

from graphc.ir.sharding import with_role
from graphc.link.jax.backend import backend
from graphc.link.jax.mesh import current
from graphc.link.jax.symbolic import has_symbols
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.split import Split
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.shape import Reshape, are_equal
from graphc.tensor.core.sharding import Shard


@backend.lower(Reshape)
def reshape(op: Reshape, x: Any, *symbolic: Any) -> Any:
    return lax.reshape(x, op.target(x.shape, symbolic))


@backend.lower(Shard)
def shard(op: Shard, x: Any) -> Any:
    """Constrain the array's sharding in a program over a mesh; else return the array."""
    layout = current()
    return x if layout is None else layout.constrain(x, op.sharding, with_role("shard", op))


backend.lower(ExpandDims)(lambda op, x: lax.expand_dims(x, op.axes))
backend.lower(Transpose)(lambda op, x: lax.transpose(x, op.axes))


@backend.lower(Squeeze)
def squeeze(op: Squeeze, x: Any) -> Any:
    if has_symbols([x]) and not all(are_equal(x.shape[axis], 1) for axis in op.axes):
        raise ValueError(f"axes {op.axes} of a shape {x.shape} are not of length 1")
    return lax.squeeze(x, op.axes)


@backend.lower(BroadcastTo)
def broadcast_to(op: BroadcastTo, x: Any, *symbolic: Any) -> Any:
    """Broadcast along new leading axes and axes of static length 1."""
    target = op.target(x.shape, symbolic)
    return lax.broadcast_in_dim(x, target, range(len(target) - len(x.shape), len(target)))


@backend.lower(Concatenate)
def concatenate(op: Concatenate, *xs: Any) -> Any:
    """Concatenate arrays; some releases refuse empty arrays, so these are dropped."""
    filled = [x for x in xs if x.shape[op.axis]] or [xs[0]]
    return lax.concatenate(filled, op.axis)


@backend.lower(Split)
def split(op: Split, x: Any, *symbolic: Any) -> Any:
    bounds = op.bounds(x.shape[op.axis], symbolic)
    return tuple(lax.slice_in_dim(x, *ends, axis=op.axis) for ends in pairwise(bounds))
