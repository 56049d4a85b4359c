"""Padding with a number, in ``jax.lax``; the widths are Python integers here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Lowering,
    Ragged,
    as_count,
    bound,
    is_known,
    plain,
    plus,
    ragged,
    refused,
    rule,
)
from graphc.tensor.signal.pad import Pad


@backend.lower(Pad)
def pad(op: Pad, x: Any, value: Any, *symbolic: Any) -> Any:
    """Pad all axes at once."""
    return lax.pad(x, value, [(before, after, 0) for before, after in op.sides(symbolic)])


@rule(Pad)
def by_a_count(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Pad an axis of unknown length or widths, and the others as usual."""
    op: Any = node.op
    x, value, *symbolic = values
    left = iter(symbolic)
    widths = [next(left) if n is None else np.asarray(n, np.int64) for n in op.widths]
    sides = list(zip(widths[::2], widths[1::2], strict=True))
    dynamic = [i for i, side in enumerate(sides) if not all(map(is_known, side))]
    if isinstance(x, Ragged):
        dynamic = sorted({*dynamic, x.axis})
    if len(dynamic) != 1:
        raise refused(node)
    (axis,) = dynamic
    before, after = sides[axis]
    others = [(0, 0, 0) if i == axis else (int(a), int(b), 0) for i, (a, b) in enumerate(sides)]
    buffer = lax.pad(x.buffer if isinstance(x, Ragged) else plain(x), plain(value), others)
    own = x.shape[axis]
    total = plus(plus(before, own), after)
    n = max(bound(total), 1)
    # Where each place's element is; those that are not there are replaced.
    places = lax.sub(lax.iota(np.int64, n), as_count(before).value)
    inside = (places >= 0) & (places < as_count(own).value)
    most = max(buffer.shape[axis] - 1, 0)
    if not buffer.shape[axis]:
        buffer = lax.pad(buffer, plain(value), [(0, int(i == axis), 0) for i in range(x.ndim)])
    found = jnp.take(buffer, jnp.clip(places, 0, most), axis, mode="clip")
    mask = lax.broadcast_in_dim(inside, found.shape, (axis,))
    return ragged(jnp.where(mask, found, plain(value)), total, axis)
