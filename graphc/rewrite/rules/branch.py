"""Rules of branches: where it is known which one is chosen, or does not matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from graphc.ir import Graph, Node, Pick, replaced
from graphc.loop.branch import Switch
from graphc.rewrite.rule import number_of, rewrite
from graphc.tensor.core.elementwise import Cast, logical_not
from graphc.tensor.core.tensor import Tensor


@rewrite("canonicalize", Pick, beside=[Switch])
def switch_by_constant(node: Node, op: Pick) -> Node | None:
    """The branch that a constant chooses stands where the switch stood."""
    (several,) = node.inputs
    switch: Any = several.op
    number = number_of(several.inputs[0])
    return None if number is None else _inline(several, switch.chosen(number), op.index)


@rewrite("canonicalize", Pick, beside=[Switch])
def switch_of_equal_results(node: Node, op: Pick) -> Node | None:
    """A result that all branches share needs no choice."""
    (several,) = node.inputs
    branches: tuple[Graph, ...] = several.op.branches  # type: ignore[attr-defined]
    results = {branch.outputs[op.index] for branch in branches}
    return _inline(several, branches[0], op.index) if len(results) == 1 else None


def _inline(several: Node, branch: Graph, index: int) -> Node:
    operands = dict(zip(branch.inputs, several.inputs[1:], strict=True))
    return replaced([branch.outputs[index]], operands)[0]


@rewrite("canonicalize", Pick, beside=[Switch])
def switch_by_not(node: Node, op: Pick) -> Node | None:
    """A condition that is negated chooses the other branch."""
    (several,) = node.inputs
    index, *operands = several.inputs
    switch: Any = several.op
    if index.op is not logical_not or index.inputs[0].type.dtype != "bool":
        return None
    first, second = switch.branches[0], switch.branches[min(1, len(switch.branches) - 1)]
    other = replace(switch, branches=(second, first))
    return Tensor.make(op, Node.make(other, index.inputs[0], *operands))


@rewrite("canonicalize", Pick, beside=[Switch])
def switch_by_bool(node: Node, op: Pick) -> Node | None:
    """A condition made an integer chooses as it does itself, among the first two branches."""
    (several,) = node.inputs
    index, *operands = several.inputs
    switch: Any = several.op
    if not isinstance(index.op, Cast) or index.inputs[0].type.dtype != "bool":
        return None
    first, second = switch.branches[0], switch.branches[min(1, len(switch.branches) - 1)]
    made = Node.make(replace(switch, branches=(first, second)), index.inputs[0], *operands)
    return Tensor.make(op, made)
