"""Rules of cumulative sums, products and extremes."""

from __future__ import annotations

from graphc.ir import Node
from graphc.rewrite.rule import rewrite
from graphc.tensor.arrays.cumulative import Cumulative


@rewrite("canonicalize", Cumulative)
def cumulative_over_length_one(node: Node, op: Cumulative) -> Node | None:
    """``cumsum(x, axis)`` along an axis of length 1 is ``x``."""
    (x,) = node.inputs
    return x if x.type.shape[op.axis] == 1 else None
