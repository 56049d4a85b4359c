"""Branches: an ``If`` for two, nested ``If``s for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.export.onnx.builder import CURRENT, Value, emit_several
from graphc.export.onnx.lower.loop import join_parts, part_types, split_parts
from graphc.export.onnx.lowering import emit_graph, onnx
from graphc.ir import Graph
from graphc.loop.branch import Switch


@onnx.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Any:
    """Emit nested ``If``s, whose branches have no inputs: they read values of the scopes around."""
    types = [y.type for y in op.branches[0].outputs]
    components = _emit_branches(op.branches, index.cast("int64"), values, 0)
    return tuple(join_parts(types, components))


def _emit_branches(
    branches: Sequence[Graph], index: Value, values: Sequence[Any], first: int
) -> list[Value]:
    """Emit the branch of an index, among the branches from number ``first`` on."""
    if len(branches) == 1:
        return split_parts(emit_graph(branches[0], values))
    builder = CURRENT.get()
    now = builder.body([], lambda: split_parts(emit_graph(branches[0], values)))
    later = builder.body([], lambda: _emit_branches(branches[1:], index, values, first + 1))
    dtypes = [x.dtype for x in _part_types(branches[0])]
    return emit_several("If", [index <= first], dtypes, then_branch=now, else_branch=later)


def _part_types(branch: Graph) -> list[Any]:
    return part_types([y.type for y in branch.outputs])
