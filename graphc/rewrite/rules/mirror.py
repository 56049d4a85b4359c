"""Rules of mirrored matrices."""

from __future__ import annotations

from graphc.ir import Node
from graphc.rewrite.facts.structure import facts_of
from graphc.rewrite.rule import rewrite
from graphc.tensor.linalg.mirror import Mirror


@rewrite("canonicalize", Mirror)
def mirror_of_symmetric(node: Node, op: Mirror) -> Node | None:
    """``mirror(a)`` is ``a`` for a symmetric matrix."""
    (x,) = node.inputs
    real = not x.type.dtype.startswith("complex")
    return x if facts_of(x).symmetric and (op.conjugated or real) else None
