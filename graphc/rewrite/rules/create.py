"""Rules of ``arange`` and ``eye``."""

from __future__ import annotations

from graphc.ir import Constant, Node, is_integer
from graphc.rewrite.rule import rewrite, scalar_value
from graphc.tensor.arrays.create import Arange, Eye, arange, eye
from graphc.tensor.core.shape import complete_shape


@rewrite("canonicalize", Arange, beside=[Constant])
def arange_made_static(node: Node, op: Arange) -> Node | None:
    """``arange(start, stop)`` of constant integers has a known length."""
    if not is_integer(op.dtype) or not all(isinstance(x.op, Constant) for x in node.inputs):
        return None
    start, stop, step = (scalar_value(x) for x in node.inputs)
    return arange(start, stop, step, op.dtype) if step else None


@rewrite("canonicalize", Eye, beside=[Constant])
def eye_made_static(node: Node, op: Eye) -> Node | None:
    """``eye(n)`` with a constant ``n`` has the length in its type."""
    if not any(isinstance(x.op, Constant) for x in node.inputs):
        return None
    rows, columns = complete_shape(op.shape, node.inputs)
    return eye(rows, columns, op.offset, op.dtype)
