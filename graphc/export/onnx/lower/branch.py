"""Branches: an ``If`` for two of them, and one within another for more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.export.onnx.builder import CURRENT, Value, several
from graphc.export.onnx.lower.loop import flat, part_types, shaped
from graphc.export.onnx.lowering import evaluated, onnx
from graphc.ir import Graph
from graphc.loop.branch import Switch


@onnx.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Any:
    """A branch reads what stands around it, so that it takes nothing."""
    types = [y.type for y in op.branches[0].outputs]
    found = _chosen(op.branches, index.cast("int64"), values, 0)
    return tuple(shaped(types, found))


def _chosen(
    branches: Sequence[Graph], index: Value, values: Sequence[Any], first: int
) -> list[Value]:
    """The results of the branch of a number, of those from a number on."""
    if len(branches) == 1:
        return flat(evaluated(branches[0], values))
    builder = CURRENT.get()
    now = builder.body([], lambda: flat(evaluated(branches[0], values)))
    later = builder.body([], lambda: _chosen(branches[1:], index, values, first + 1))
    dtypes = [x.dtype for x in _parts(branches[0])]
    return several("If", [index <= first], dtypes, then_branch=now, else_branch=later)


def _parts(branch: Graph) -> list[Any]:
    return part_types([y.type for y in branch.outputs])
