"""Joins, in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, common, inner, ragged, rule
from graphc.link.jax.counts import as_count, is_known, plus
from graphc.tensor.arrays.join import Concatenate


@backend.lower(Concatenate)
def concatenate(op: Concatenate, *xs: Any) -> Any:
    """Concatenate; empty arrays, which some releases refuse, are left out."""
    filled = [x for x in xs if x.shape[op.axis]] or [xs[0]]
    return lax.concatenate(filled, op.axis)


@rule(Concatenate)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Concatenate ragged arrays: each overwrites the unused elements of the one before."""
    op: Any = node.op
    found, shape = list(values), list(values[0].shape)
    for axis in range(len(shape)):
        if axis != op.axis:
            found, shape[axis] = common(node, found, [axis] * len(found))
    buffers = [inner(x) for x in found]
    lengths = [x.shape[op.axis] for x in found]
    if all(map(is_known, lengths)):
        shape[op.axis] = sum(lengths)
        return ragged(lowering(op, *buffers), shape)
    first = buffers[0].shape
    n = sum(x.shape[op.axis] for x in buffers)
    joined = lax.full((*first[: op.axis], n, *first[op.axis + 1 :]), 0, buffers[0].dtype)
    place: Any = np.asarray(0, np.int64)
    for length, buffer in zip(lengths, buffers, strict=True):
        start = as_count(place).value
        joined = lax.dynamic_update_slice_in_dim(joined, buffer, start, op.axis)
        place = plus(place, length)
    shape[op.axis] = place
    return ragged(joined, shape)
