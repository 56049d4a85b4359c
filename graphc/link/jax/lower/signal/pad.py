"""Padding with a number in ``jax.lax``; the widths are Python integers here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, at_least, inner, make_ragged, rule, unequal
from graphc.link.jax.counts import as_count, bound, is_known, plain, plus
from graphc.tensor.signal.pad import Pad


@backend.lower(Pad)
def pad(op: Pad, x: Any, value: Any, *symbolic: Any) -> Any:
    """Pad all axes at once."""
    return lax.pad(x, value, [(before, after, 0) for before, after in op.sides(symbolic)])


@rule(Pad)
def ragged_pad(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Pad axes of unknown length or width one by one, and the others in one call."""
    op: Any = node.op
    x, value, *symbolic = values
    lengths = iter(symbolic)
    widths = [next(lengths) if n is None else np.asarray(n, np.int64) for n in op.widths]
    sides = list(zip(widths[::2], widths[1::2], strict=True))
    value, shape = plain(value), list(x.shape)
    are_static = [all(map(is_known, (*side, n))) for side, n in zip(sides, shape, strict=True)]
    static_sides = [
        (int(a), int(b), 0) if is_static else (0, 0, 0)
        for (a, b), is_static in zip(sides, are_static, strict=True)
    ]
    buffer = lax.pad(inner(x), value, static_sides)
    for axis, (side, is_static) in enumerate(zip(sides, are_static, strict=True)):
        if is_static:
            shape[axis] = buffer.shape[axis]
        else:
            for width in side:
                at_least(width, 0, unequal(node))
            buffer, shape[axis] = _pad_axis(buffer, value, shape[axis], side, axis)
    return make_ragged(buffer, shape)


def _pad_axis(buffer: Any, value: Any, n: Any, side: Sequence[Any], axis: int) -> tuple[Any, Any]:
    """Pad one axis of length n; return the buffer and the new length."""
    before, after = side
    total = plus(plus(before, n), after)
    size = max(bound(total), 1)
    # The source index of each element; indices outside of the array select the value.
    sources = lax.sub(lax.iota(np.int64, size), jnp.asarray(as_count(before).value))
    inside = (sources >= 0) & (sources < as_count(n).value)
    if not buffer.shape[axis]:
        buffer = lax.pad(buffer, value, [(0, int(i == axis), 0) for i in range(buffer.ndim)])
    most = max(buffer.shape[axis] - 1, 0)
    elements = jnp.take(buffer, jnp.clip(sources, 0, most), axis, mode="clip")
    mask = lax.broadcast_in_dim(inside, elements.shape, (axis,))
    return jnp.where(mask, elements, value), total
