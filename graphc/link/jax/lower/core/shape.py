"""Reshapes in ``jax.lax``; lengths are Python integers here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Lowering,
    agree,
    at_least,
    inner,
    ragged,
    refused,
    rule,
    unequal,
)
from graphc.link.jax.counts import (
    Count,
    as_count,
    bound,
    is_known,
    is_same,
    over,
    product,
    times,
)
from graphc.tensor.core.shape import Length, Reshape, Shape


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


@rule(Shape)
def shape_of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Return all lengths, which no shape may depend on then."""
    return jnp.stack([jnp.asarray(as_count(n).value) for n in values[0].shape])


@rule(Reshape)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Reshape a ragged array; if only lengths in front of a ragged axis stay, without a gather."""
    op: Any = node.op
    x, *symbolic = values
    left = iter(symbolic)
    target = [next(left) if n is None else n for n in op.shape]
    target = [int(n) if is_known(n) else as_count(n) for n in target]
    for n in target:
        at_least(n, -1, unequal(node))
    shape = _filled(node, x.shape, target)
    buffer = inner(x)
    if not shape:
        return lax.reshape(lax.slice(buffer, [0] * x.ndim, [1] * x.ndim), ())
    front = 0
    while front < min(x.ndim, len(shape)) and is_same(x.shape[front], shape[front]):
        front += 1
    front = min(front, x.ndim - 1, len(shape) - 1)
    if not any(isinstance(n, Count) for n in (*x.shape[front + 1 :], *shape[front + 1 :])):
        return ragged(_regrouped(buffer, shape, front), shape)
    return ragged(_gathered(buffer, x.shape, shape), shape)


def _filled(node: Node, own: Sequence[Any], target: Sequence[Any]) -> list[Any]:
    """The target with its -1 filled in."""
    if any(isinstance(n, Count) and n.low < 0 for n in target):
        # It may stand for -1.
        raise refused(node)
    total = product(own)
    if -1 not in [n for n in target if not isinstance(n, Count)]:
        agree(total, product(target), unequal(node))
        return list(target)
    place = next(i for i, n in enumerate(target) if not isinstance(n, Count) and n == -1)
    # What both have in common needs no division.
    others, mine = [*target[:place], *target[place + 1 :]], list(own)
    for n in tuple(others):
        same = next((i for i, m in enumerate(mine) if is_same(n, m)), None)
        if same is not None:
            del mine[same]
            others.remove(n)
    by = product(others)
    at_least(product([*target[:place], *target[place + 1 :]]), 1, unequal(node))
    n = over(product(mine), by)
    agree(product(mine), times(n, by), unequal(node))
    return [*target[:place], n, *target[place + 1 :]]


def _regrouped(buffer: Any, shape: Sequence[Any], front: int) -> Any:
    """Reshape where the axes from one on are merged or divided, and only that one is ragged."""
    after = math.prod(int(n) for n in shape[front + 1 :])
    own = math.prod(buffer.shape[front + 1 :])
    size = buffer.shape[front] * own
    if after and size % after:
        # Rows are divided into parts: a whole number of these.
        rows = next(k for k in range(buffer.shape[front], size + after) if k * own % after == 0)
        sides = [(0, rows - n if i == front else 0, 0) for i, n in enumerate(buffer.shape)]
        buffer = lax.pad(buffer, np.zeros((), buffer.dtype), sides)
        size = rows * own
    n = size // after if after else bound(shape[front])
    return lax.reshape(buffer, (*buffer.shape[:front], n, *map(int, shape[front + 1 :])))


def _gathered(buffer: Any, own: Sequence[Any], shape: Sequence[Any]) -> Any:
    """Reshape by the place of each element, counted in true lengths."""
    lengths = [max(bound(n), 1) for n in shape]
    place: Any = np.zeros((), np.int64)
    for axis, n in enumerate(shape):
        here = lax.broadcasted_iota(np.int64, lengths, axis)
        place = place * as_count(n).value + here
    indices = []
    for axis in range(len(own))[::-1]:
        n = jnp.maximum(as_count(own[axis]).value, 1)
        # The first axis takes what is left: elements that are not there are clipped.
        indices.append(jnp.clip(place % n if axis else place, 0, max(buffer.shape[axis] - 1, 0)))
        place = place // n
    if not buffer.size:
        return lax.full(lengths, 0, buffer.dtype)
    return buffer[tuple(indices[::-1])]
