"""Joins, in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Lowering,
    Ragged,
    aligned,
    as_count,
    plus,
    ragged,
    ragged_axis,
    rule,
)
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
    axis = ragged_axis(node, values)
    if axis != op.axis:
        buffers, count = aligned(node, values, [axis] * len(values))
        return ragged(lowering(op, *buffers), count, axis)
    buffers = [x.buffer if isinstance(x, Ragged) else x for x in values]
    first = buffers[0].shape
    n = sum(x.shape[axis] for x in buffers)
    whole = lax.full((*first[:axis], n, *first[axis + 1 :]), 0, buffers[0].dtype)
    place: Any = np.asarray(0, np.int64)
    for x, buffer in zip(values, buffers, strict=True):
        whole = lax.dynamic_update_slice_in_dim(whole, buffer, as_count(place).value, axis)
        place = plus(place, x.shape[axis])
    return ragged(whole, place, axis)
