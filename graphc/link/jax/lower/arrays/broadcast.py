"""Broadcasting in ``jax.lax``; lengths are Python integers here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, agree, at_least, inner, make_ragged, rule, unequal
from graphc.link.jax.counts import as_count, bound, is_known
from graphc.tensor.arrays.broadcast import BroadcastTo


@backend.lower(BroadcastTo)
def broadcast_to(op: BroadcastTo, x: Any, *symbolic: Any) -> Any:
    """Broadcast along new leading axes and axes of static length 1."""
    target = op.target(x.shape, symbolic)
    return lax.broadcast_in_dim(x, target, range(len(target) - len(x.shape), len(target)))


@rule(BroadcastTo)
def ragged_broadcast_to(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Broadcast a buffer to the upper bounds of the target's lengths."""
    op: Any = node.op
    x, *symbolic = values
    lengths = iter(symbolic)
    target = [as_length(next(lengths) if n is None else n) for n in op.shape]
    new = len(target) - x.ndim
    shape = [bound(n) for n in target]
    for n in target:
        at_least(n, 0, unequal(node))
    for axis in range(x.ndim):
        if axis not in op.repeated:
            pair = (x.shape[axis], target[new + axis])
            agree(*pair, unequal(node))
            target[new + axis] = next((n for n in pair if is_known(n)), pair[0])
            x = make_ragged(inner(x), [*x.shape[:axis], target[new + axis], *x.shape[axis + 1 :]])
            shape[new + axis] = inner(x).shape[axis]
    y = lax.broadcast_in_dim(inner(x), shape, range(new, len(shape)))
    return make_ragged(y, target)


def as_length(n: Any) -> Any:
    """Return a length as an integer where known, else as a ``Count``."""
    return int(n) if is_known(n) else as_count(n)
