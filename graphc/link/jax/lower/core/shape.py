"""Reshapes in ``jax.lax``; lengths are Python integers here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Count,
    Lowering,
    Ragged,
    agree,
    as_count,
    is_known,
    over,
    ragged,
    refused,
    rule,
    times,
    unequal,
)
from graphc.tensor.core.shape import Length, Reshape


@backend.lower(Reshape)
def reshape(op: Reshape, x: Any, *symbolic: Any) -> Any:
    """Reshape in row-major order."""
    return lax.reshape(x, op.target(x.shape, symbolic))


@backend.lower(Length)
def length(op: Length, x: Any) -> Any:
    """Return a length, which is known while JAX traces."""
    return np.asarray(x.shape[op.axis], np.int64)


@rule(Length, of_counts=True)
def length_of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Return a length: a ``Count``, or a known one."""
    op: Any = node.op
    n = values[0].shape[op.axis]
    return n if isinstance(n, Count) else np.asarray(n, np.int64)


@rule(Reshape)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Reshape a ragged array; other axes stay on their side of the ragged one."""
    op: Any = node.op
    x, *symbolic = values
    if not isinstance(x, Ragged):
        raise refused(node)
    left = iter(symbolic)
    target = [next(left) if n is None else n for n in op.shape]
    target = [int(n) if is_known(n) else as_count(n) for n in target]
    places = [i for i, n in enumerate(target) if isinstance(n, Count)]
    places = places or [i for i, n in enumerate(target) if n == -1]
    before = math.prod(x.shape[: x.axis])
    if len(places) != 1 or -1 in target[: places[0]] + target[places[0] + 1 :]:
        raise refused(node)
    (axis,) = places
    again = math.prod(target[axis + 1 :])
    if math.prod(target[:axis]) != before:
        raise refused(node)
    buffer, count = _regrouped(node, x, again)
    if isinstance(target[axis], Count):
        agree(count, target[axis], unequal(node))
    shape = [buffer.size // (before * again) if i == axis else n for i, n in enumerate(target)]
    return ragged(lax.reshape(buffer, shape), count, axis)


def _regrouped(node: Node, x: Ragged, again: int) -> tuple[Any, Any]:
    """Group the elements along the ragged axis and behind it; return buffer and count."""
    after = math.prod(x.shape[x.axis + 1 :])
    if again and not after % again:
        return x.buffer, times(x.count, after // again)
    if not after or again % after:
        raise refused(node)
    size = again // after
    spare = -x.buffer.shape[x.axis] % size
    sides = [(0, spare if i == x.axis else 0, 0) for i in range(x.ndim)]
    count = over(x.count, size)
    agree(x.count, times(count, size), unequal(node))
    return lax.pad(x.buffer, np.zeros((), x.dtype), sides), count
