"""Rules of lengths that an array must have."""

from __future__ import annotations

from graphc.ir import Node
from graphc.rewrite.rule import rewrite
from graphc.tensor.specify import SpecifyShape


@rewrite("canonicalize", SpecifyShape)
def shape_specified_that_is_known(node: Node, op: SpecifyShape) -> Node | None:
    """What the type says already needs no check."""
    x = node.inputs[0]
    known = all(m in {-1, n} for n, m in zip(x.type.shape, op.shape, strict=True))
    return x if known and None not in op.shape else None
