"""Rules of matrices that are made symmetric."""

from __future__ import annotations

from graphc.ir import Node
from graphc.rewrite.rule import rewrite
from graphc.rewrite.structure import facts_of
from graphc.tensor.mirror import Mirror


@rewrite("canonicalize", Mirror)
def mirror_of_symmetric(node: Node, op: Mirror) -> Node | None:
    """What is its own transpose has no triangle to be made anew."""
    (x,) = node.inputs
    real = not x.type.dtype.startswith("complex")
    return x if facts_of(x).symmetric and (op.conjugated or real) else None
