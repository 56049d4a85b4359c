"""Elementwise functions of counts: integers whose bounds decide the lengths of buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.grad.barriers import Barrier
from graphc.ir import Node
from graphc.link.padding.counts import (
    FUNCTIONS,
    Count,
    as_count,
    as_known,
    combine,
    compare,
    is_known,
    is_same,
    is_scalar_of_integers,
)
from graphc.link.padding.graph import apply, by_declaration, rule
from graphc.link.padding.padded import PaddedArray
from graphc.tensor.core.elementwise import Cast, Elementwise, Where, where


@rule(Elementwise, Cast, Where, Barrier)
def elementwise(op: Any, node: Node, values: Sequence[Any]) -> Any:
    """Compute all elements of buffers, or a count of counts."""
    if any(isinstance(x, PaddedArray) for x in values):
        return by_declaration(node, values)
    if node.type.ndim or not all(map(is_scalar_of_integers, values[-2:])):
        return apply(node, values)
    if isinstance(node.op, Where):
        return _where(node, values)
    return _of_counts(node, values) if is_scalar_of_integers(values[0]) else apply(node, values)


def _of_counts(node: Node, values: Sequence[Any]) -> Any:
    """Return a count if possible, or the value that the counts' bounds imply."""
    match node.op:
        case Elementwise(row=row) if row in FUNCTIONS:
            return combine(row, *values)
        case Elementwise(row=row) if node.type.dtype == "bool" and len(values) == 2:
            result = compare(row, *values)
            if result is not None:
                return np.asarray(result)
        case Elementwise(row="negative"):
            return combine("subtract", 0, values[0])
        case Elementwise(row="square"):
            return combine("multiply", values[0], values[0])
        case Cast(dtype="int64") | Barrier() if isinstance(values[0], Count):
            return values[0]
    return apply(node, values)


def _where(node: Node, values: Sequence[Any]) -> Any:
    condition, *branches = values
    if is_known(condition):
        return branches[0] if condition else branches[1]
    a, b = map(as_count, branches)
    if is_same(a, b):
        return branches[0]
    value = where(condition, a.node, b.node)
    return as_known(Count(value, min(a.low, b.low), max(a.high, b.high)))
