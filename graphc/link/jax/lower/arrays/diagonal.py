"""Diagonals, in ``jax.lax``; lengths are Python integers here."""

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
    agree,
    at_least,
    inner,
    make_ragged,
    rule,
    unequal,
    within,
)
from graphc.link.jax.counts import bound, is_known, least, minus, most
from graphc.tensor.arrays.diagonal import Diagonal, FromDiagonal, diagonal_length


@backend.lower(Diagonal)
def diagonal(op: Diagonal, x: Any) -> Any:
    """Read a diagonal: its elements lie one row and one column apart."""
    *batch, n, m = x.shape
    count = diagonal_length(n, m, op.offset)
    first = op.offset if op.offset >= 0 else -op.offset * m
    flat = lax.reshape(x, (*batch, n * m))
    if not count:
        return lax.slice_in_dim(flat, 0, 0, axis=-1)
    end = first + (count - 1) * (m + 1) + 1
    return lax.slice_in_dim(flat, first, end, m + 1, axis=-1)


@backend.lower(FromDiagonal)
def from_diagonal(op: FromDiagonal, v: Any, *symbolic: Any) -> Any:
    """Broadcast each element over its row, and select the diagonal."""
    count = v.shape[-1]
    n, m = op.target(count, symbolic)
    before = min(max(-op.offset, 0), n)
    zero = np.zeros((), v.dtype)
    batch_padding = [(0, 0, 0)] * (v.ndim - 1)
    rows = lax.pad(v, zero, [*batch_padding, (before, n - count - before, 0)])
    shape = (*v.shape[:-1], n, m)
    distance = lax.broadcasted_iota(np.int32, (n, m), 1) - lax.broadcasted_iota(np.int32, (n, m), 0)
    is_diagonal = lax.broadcast_in_dim(distance == op.offset, shape, (v.ndim - 1, v.ndim))
    full = lax.broadcast_in_dim(rows, shape, range(v.ndim))
    return lax.select(is_diagonal, full, lax.full_like(full, 0))


@rule(Diagonal)
def ragged_diagonal(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Read the buffer's diagonal, which begins at the same element."""
    op: Any = node.op
    (x,) = values
    *batch, n, m = x.shape
    return make_ragged(lowering(op, inner(x)), [*batch, _diagonal_length(n, m, op.offset)])


def _diagonal_length(n: Any, m: Any, offset: int) -> Any:
    rows, columns = minus(n, max(-offset, 0)), minus(m, max(offset, 0))
    return most(least(rows, columns), np.asarray(0, np.int64))


@rule(FromDiagonal)
def ragged_from_diagonal(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Build a matrix whose buffer is zero beyond the valid elements of the diagonal."""
    op: Any = node.op
    v, *symbolic = values
    lengths = iter(symbolic)
    n, m = [next(lengths) if k is None else k for k in op.shape]
    for length in (n, m):
        at_least(length, 0, unequal(node))
    agree(_diagonal_length(n, m, op.offset), v.shape[-1], unequal(node))
    buffer = inner(v)
    rows, columns = bound(n), bound(m)
    count = diagonal_length(rows, columns, op.offset)
    if not is_known(v.shape[-1]):
        mask = within(buffer.shape, buffer.ndim - 1, v.shape[-1])
        buffer = jnp.where(mask, buffer, np.zeros((), buffer.dtype))
    batch_padding = [(0, 0, 0)] * (buffer.ndim - 1)
    buffer = lax.pad(
        buffer, np.zeros((), buffer.dtype), [*batch_padding, (0, count - buffer.shape[-1], 0)]
    )
    y = lowering(FromDiagonal((rows, columns), op.offset), buffer)
    return make_ragged(y, [*v.shape[:-1], n, m])
