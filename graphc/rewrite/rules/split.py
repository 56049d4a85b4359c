"""Rules of ``split``."""

from __future__ import annotations

from graphc.ir import Node, Pick
from graphc.rewrite.facts.lengths import length_of
from graphc.rewrite.rule import rewrite
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.split import Split
from graphc.tensor.core.shape import complete_shape


@rewrite("canonicalize", Pick, beside=[Split])
def split_of_concatenate(node: Node, op: Pick) -> Node | None:
    """``split(concatenate([a, b]))`` into parts of these lengths is ``a, b``."""
    (results,) = node.inputs
    split = results.op
    if not isinstance(split, Split):
        return None
    joined, *symbolic = results.inputs
    if not isinstance(joined.op, Concatenate) or joined.op.axis != split.axis:
        return None
    lengths = [length_of(x, split.axis) for x in joined.inputs]
    sizes = complete_shape(split.sizes, symbolic)
    part = joined.inputs[op.index] if lengths == sizes else None
    return part if part is not None and node.type.admits(part.type) else None
