"""Broadcasting in ``jax.lax``; lengths are Python integers here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Count,
    Lowering,
    Ragged,
    agree,
    as_count,
    bound,
    is_known,
    plain,
    ragged,
    refused,
    rule,
    unequal,
)
from graphc.tensor.arrays.broadcast import BroadcastTo


@backend.lower(BroadcastTo)
def broadcast_to(op: BroadcastTo, x: Any, *symbolic: Any) -> Any:
    """Broadcast along new leading axes and axes of static length 1."""
    target = op.target(x.shape, symbolic)
    return lax.broadcast_in_dim(x, target, range(len(target) - len(x.shape), len(target)))


@rule(BroadcastTo)
def to_a_count(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Broadcast to the length of the buffer."""
    op: Any = node.op
    x, *symbolic = values
    left = iter(symbolic)
    target = [next(left) if n is None else int(n) for n in op.shape]
    target = [n if isinstance(n, Count) else as_length(n) for n in target]
    open_axes = [axis for axis, n in enumerate(target) if isinstance(n, Count)]
    new = len(target) - x.ndim
    if isinstance(x, Ragged) and not open_axes:
        # A length that it must have.
        agree(x.count, target[new + x.axis], unequal(node))
        open_axes = [new + x.axis]
        target[new + x.axis] = x.count
    if len(open_axes) != 1:
        raise refused(node)
    (axis,) = open_axes
    count = target[axis]
    own = axis - new
    n = bound(count)
    buffer = x.buffer if isinstance(x, Ragged) else plain(x)
    if own >= 0 and own not in op.repeated:
        agree(count, x.shape[own], unequal(node))
        n = min(n, buffer.shape[own])
        buffer = lax.slice_in_dim(buffer, 0, n, axis=own)
    shape = tuple(n if i == axis else m for i, m in enumerate(target))
    return ragged(lax.broadcast_in_dim(buffer, shape, range(new, len(shape))), count, axis)


def as_length(n: Any) -> Any:
    """Return a length as an integer where known, else as a ``Count``."""
    return int(n) if is_known(n) else as_count(n)
