"""Rules of branches: the chosen one is known, or the choice does not matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphc.ir import Graph, Node, Pick, replace_nodes
from graphc.loop.branch import Switch
from graphc.rewrite.rule import number_of, rewrite
from graphc.tensor.core.elementwise import Cast, logical_not
from graphc.tensor.core.tensor import Tensor


@rewrite("canonicalize", Pick, beside=[Switch])
def switch_by_constant(node: Node, op: Pick) -> Node | None:
    """``switch(1, a, b)`` is ``b``."""
    (results,) = node.inputs
    switch: Any = results.op
    number = number_of(results.inputs[0])
    return None if number is None else _inline(results, switch.chosen(number), op.index)


@rewrite("canonicalize", Pick, beside=[Switch])
def switch_of_equal_results(node: Node, op: Pick) -> Node | None:
    """``switch(i, a, a)`` is ``a``."""
    (source,) = node.inputs
    branches: tuple[Graph, ...] = source.op.branches  # type: ignore[attr-defined]
    results = {branch.outputs[op.index] for branch in branches}
    return _inline(source, branches[0], op.index) if len(results) == 1 else None


def _inline(results: Node, branch: Graph, index: int) -> Node:
    operands = dict(zip(branch.inputs, results.inputs[1:], strict=True))
    return replace_nodes([branch.outputs[index]], operands)[0]


@rewrite("canonicalize", Pick, beside=[Switch])
def switch_by_not(node: Node, op: Pick) -> Node | None:
    """``switch(~c, a, b)`` is ``switch(c, b, a)``."""
    (results,) = node.inputs
    index, *operands = results.inputs
    switch: Any = results.op
    if index.op is not logical_not or index.inputs[0].type.dtype != "bool":
        return None
    first, second = switch.branches[0], switch.branches[min(1, len(switch.branches) - 1)]
    other = replace(switch, branches=(second, first))
    return Tensor.make(op, Node.make(other, index.inputs[0], *operands))


@rewrite("canonicalize", Pick, beside=[Switch])
def switch_by_bool(node: Node, op: Pick) -> Node | None:
    """``switch(cast(c, int), a, b)`` is ``switch(c, a, b)`` for a bool c."""
    (results,) = node.inputs
    index, *operands = results.inputs
    switch: Any = results.op
    if not isinstance(index.op, Cast) or index.inputs[0].type.dtype != "bool":
        return None
    first, second = switch.branches[0], switch.branches[min(1, len(switch.branches) - 1)]
    direct = Node.make(replace(switch, branches=(first, second)), index.inputs[0], *operands)
    return Tensor.make(op, direct)
