"""Rules of ``specify_shape``."""

from __future__ import annotations

from graphc.ir import Node
from graphc.rewrite.facts.lengths import length_of
from graphc.rewrite.rule import rewrite
from graphc.tensor.core.shape import complete_shape
from graphc.tensor.core.specify import SpecifyShape


@rewrite("canonicalize", SpecifyShape)
def shape_specified_that_is_known(node: Node, op: SpecifyShape) -> Node | None:
    """``specify_shape(x, n)`` is ``x`` where its length is provably n."""
    x, *symbolic = node.inputs
    is_known = all(
        (isinstance(n, int) and n == -1) or n == length_of(x, axis)
        for axis, n in enumerate(complete_shape(op.shape, symbolic))
    )
    return x if is_known else None
