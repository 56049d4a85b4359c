"""Padding with a number, in ``jax.lax``; the widths are Python integers here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, at_least, inner, ragged, rule, unequal
from graphc.link.jax.counts import as_count, bound, is_known, plain, plus
from graphc.tensor.signal.pad import Pad


@backend.lower(Pad)
def pad(op: Pad, x: Any, value: Any, *symbolic: Any) -> Any:
    """Pad all axes at once."""
    return lax.pad(x, value, [(before, after, 0) for before, after in op.sides(symbolic)])


@rule(Pad)
def by_a_count(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Pad axes of unknown length or widths one after the other, and the others as usual."""
    op: Any = node.op
    x, value, *symbolic = values
    left = iter(symbolic)
    widths = [next(left) if n is None else np.asarray(n, np.int64) for n in op.widths]
    sides = list(zip(widths[::2], widths[1::2], strict=True))
    value, shape = plain(value), list(x.shape)
    known = [all(map(is_known, (*side, n))) for side, n in zip(sides, shape, strict=True)]
    others = [
        (int(a), int(b), 0) if flag else (0, 0, 0)
        for (a, b), flag in zip(sides, known, strict=True)
    ]
    buffer = lax.pad(inner(x), value, others)
    for axis, (side, flag) in enumerate(zip(sides, known, strict=True)):
        if flag:
            shape[axis] = buffer.shape[axis]
        else:
            for width in side:
                at_least(width, 0, unequal(node))
            buffer, shape[axis] = _padded(buffer, value, shape[axis], side, axis)
    return ragged(buffer, shape)


def _padded(buffer: Any, value: Any, own: Any, side: Sequence[Any], axis: int) -> tuple[Any, Any]:
    """Pad one axis; return the buffer and its length."""
    before, after = side
    total = plus(plus(before, own), after)
    n = max(bound(total), 1)
    # Where each place's element is; those that are not there are replaced.
    places = lax.sub(lax.iota(np.int64, n), jnp.asarray(as_count(before).value))
    inside = (places >= 0) & (places < as_count(own).value)
    if not buffer.shape[axis]:
        buffer = lax.pad(buffer, value, [(0, int(i == axis), 0) for i in range(buffer.ndim)])
    most = max(buffer.shape[axis] - 1, 0)
    found = jnp.take(buffer, jnp.clip(places, 0, most), axis, mode="clip")
    mask = lax.broadcast_in_dim(inside, found.shape, (axis,))
    return jnp.where(mask, found, value), total
