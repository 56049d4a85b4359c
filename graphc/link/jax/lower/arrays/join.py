"""Joins, in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, common, inner, make_ragged, rule
from graphc.link.jax.counts import as_count, is_known, plus
from graphc.tensor.arrays.join import Concatenate


@backend.lower(Concatenate)
def concatenate(op: Concatenate, *xs: Any) -> Any:
    """Concatenate; some releases refuse empty arrays, so these are dropped."""
    filled = [x for x in xs if x.shape[op.axis]] or [xs[0]]
    return lax.concatenate(filled, op.axis)


@rule(Concatenate)
def ragged_concatenate(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Concatenate ragged arrays: each overwrites the unused elements before it."""
    op: Any = node.op
    arrays, shape = list(values), list(values[0].shape)
    for axis in range(len(shape)):
        if axis != op.axis:
            arrays, shape[axis] = common(node, arrays, [axis] * len(arrays))
    buffers = [inner(x) for x in arrays]
    lengths = [x.shape[op.axis] for x in arrays]
    if all(map(is_known, lengths)):
        shape[op.axis] = sum(lengths)
        return make_ragged(lowering(op, *buffers), shape)
    first = buffers[0].shape
    n = sum(x.shape[op.axis] for x in buffers)
    y = lax.full((*first[: op.axis], n, *first[op.axis + 1 :]), 0, buffers[0].dtype)
    offset: Any = np.asarray(0, np.int64)
    for length, buffer in zip(lengths, buffers, strict=True):
        start = as_count(offset).value
        y = lax.dynamic_update_slice_in_dim(y, buffer, start, op.axis)
        offset = plus(offset, length)
    shape[op.axis] = offset
    return make_ragged(y, shape)
