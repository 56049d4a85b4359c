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
    make_ragged,
    rule,
    unequal,
    unknown_length_error,
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
def ragged_length(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Return a length: a ``Count``, or a known integer."""
    op: Any = node.op
    n = values[0].shape[op.axis]
    return n if isinstance(n, Count) else np.asarray(n, np.int64)


@rule(Shape)
def ragged_shape(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Return all lengths as an array, on which no shape may depend."""
    return jnp.stack([jnp.asarray(as_count(n).value) for n in values[0].shape])


@rule(Reshape)
def ragged_reshape(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Reshape the buffer if one ragged axis changes, else gather the elements."""
    op: Any = node.op
    x, *symbolic = values
    lengths = iter(symbolic)
    target = [next(lengths) if n is None else n for n in op.shape]
    target = [int(n) if is_known(n) else as_count(n) for n in target]
    for n in target:
        at_least(n, -1, unequal(node))
    shape = _fill_minus_one(node, x.shape, target)
    buffer = inner(x)
    if not shape:
        return lax.reshape(lax.slice(buffer, [0] * x.ndim, [1] * x.ndim), ())
    front = 0
    while front < min(x.ndim, len(shape)) and is_same(x.shape[front], shape[front]):
        front += 1
    front = min(front, x.ndim - 1, len(shape) - 1)
    if not any(isinstance(n, Count) for n in (*x.shape[front + 1 :], *shape[front + 1 :])):
        return make_ragged(_reshape_rows(buffer, shape, front), shape)
    return make_ragged(_reshape_by_gather(buffer, x.shape, shape), shape)


def _fill_minus_one(node: Node, shape: Sequence[Any], target: Sequence[Any]) -> list[Any]:
    if any(isinstance(n, Count) and n.low < 0 for n in target):
        # A negative count may be -1 or an error.
        raise unknown_length_error(node)
    total = product(shape)
    if -1 not in [n for n in target if not isinstance(n, Count)]:
        agree(total, product(target), unequal(node))
        return list(target)
    axis = next(i for i, n in enumerate(target) if not isinstance(n, Count) and n == -1)
    # Lengths that are in both shapes cancel without a division.
    others, factors = [*target[:axis], *target[axis + 1 :]], list(shape)
    for n in tuple(others):
        same = next((i for i, m in enumerate(factors) if is_same(n, m)), None)
        if same is not None:
            del factors[same]
            others.remove(n)
    divisor = product(others)
    at_least(product([*target[:axis], *target[axis + 1 :]]), 1, unequal(node))
    n = over(product(factors), divisor)
    agree(product(factors), times(n, divisor), unequal(node))
    return [*target[:axis], n, *target[axis + 1 :]]


def _reshape_rows(buffer: Any, shape: Sequence[Any], front: int) -> Any:
    """Reshape where the ragged axis ``front`` is merged with later axes, or split."""
    new_row_size = math.prod(int(n) for n in shape[front + 1 :])
    row_size = math.prod(buffer.shape[front + 1 :])
    size = buffer.shape[front] * row_size
    if new_row_size and size % new_row_size:
        # Rows are split: pad the buffer to a multiple of the new row size.
        rows = next(
            k
            for k in range(buffer.shape[front], size + new_row_size)
            if k * row_size % new_row_size == 0
        )
        padding = [(0, rows - n if i == front else 0, 0) for i, n in enumerate(buffer.shape)]
        buffer = lax.pad(buffer, np.zeros((), buffer.dtype), padding)
        size = rows * row_size
    n = size // new_row_size if new_row_size else bound(shape[front])
    return lax.reshape(buffer, (*buffer.shape[:front], n, *map(int, shape[front + 1 :])))


def _reshape_by_gather(buffer: Any, old_shape: Sequence[Any], shape: Sequence[Any]) -> Any:
    """Gather each element by its row-major position, counted in valid lengths."""
    lengths = [max(bound(n), 1) for n in shape]
    position: Any = np.zeros((), np.int64)
    for axis, n in enumerate(shape):
        index = lax.broadcasted_iota(np.int64, lengths, axis)
        position = position * as_count(n).value + index
    indices = []
    for axis in range(len(old_shape))[::-1]:
        n = jnp.maximum(as_count(old_shape[axis]).value, 1)
        # The first axis takes the remaining quotient; unused elements are clipped.
        indices.append(
            jnp.clip(position % n if axis else position, 0, max(buffer.shape[axis] - 1, 0))
        )
        position = position // n
    if not buffer.size:
        return lax.full(lengths, 0, buffer.dtype)
    return buffer[tuple(indices[::-1])]
