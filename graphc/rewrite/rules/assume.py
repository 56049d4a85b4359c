"""Rules of assumptions about matrices."""

from __future__ import annotations

from graphc.ir import Node
from graphc.rewrite.facts.structure import facts_of
from graphc.rewrite.rule import rewrite
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.assume import Assume


@rewrite("canonicalize", Assume)
def assumptions_together(node: Node, op: Assume) -> Node | None:
    """``assume(assume(a, fact), other)`` is ``assume(a, fact, other)``."""
    (x,) = node.inputs
    if not isinstance(x.op, Assume):
        return None
    held = tuple(sorted({*op.held, *x.op.held}))
    denied = tuple(sorted({*op.denied, *x.op.denied}))
    facts_of(node)  # raises where one contradicts the other
    return Tensor.make(Assume(held, denied), *x.inputs)


@rewrite("canonicalize", Assume)
def assumption_of_what_is_known(node: Node, op: Assume) -> Node | None:
    """``assume(a, fact)`` is ``a`` where the fact is known."""
    (x,) = node.inputs
    return x if facts_of(node) == facts_of(x) else None
