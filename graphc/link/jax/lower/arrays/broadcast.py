"""Broadcasting in ``jax.lax``; lengths are Python integers here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, agree, at_least, inner, ragged, rule, unequal
from graphc.link.jax.counts import as_count, bound, is_known
from graphc.tensor.arrays.broadcast import BroadcastTo


@backend.lower(BroadcastTo)
def broadcast_to(op: BroadcastTo, x: Any, *symbolic: Any) -> Any:
    """Broadcast along new leading axes and axes of static length 1."""
    target = op.target(x.shape, symbolic)
    return lax.broadcast_in_dim(x, target, range(len(target) - len(x.shape), len(target)))


@rule(BroadcastTo)
def to_a_count(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Broadcast to the lengths of the buffers."""
    op: Any = node.op
    x, *symbolic = values
    left = iter(symbolic)
    target = [as_length(next(left) if n is None else n) for n in op.shape]
    new = len(target) - x.ndim
    shape = [bound(n) for n in target]
    for n in target:
        at_least(n, 0, unequal(node))
    for own in range(x.ndim):
        if own not in op.repeated:
            pair = (x.shape[own], target[new + own])
            agree(*pair, unequal(node))
            target[new + own] = next((n for n in pair if is_known(n)), pair[0])
            x = ragged(inner(x), [*x.shape[:own], target[new + own], *x.shape[own + 1 :]])
            shape[new + own] = inner(x).shape[own]
    made = lax.broadcast_in_dim(inner(x), shape, range(new, len(shape)))
    return ragged(made, target)


def as_length(n: Any) -> Any:
    """Return a length as an integer where known, else as a ``Count``."""
    return int(n) if is_known(n) else as_count(n)
