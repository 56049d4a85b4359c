"""The graphs inside operations, with their titles and the meaning of inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir import Graph, Node, pprint
from graphc.ir.print import label
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop

SHORT = 24
"""The approximate length of the shown expression of an operand."""


@dataclass(frozen=True, slots=True)
class InnerGraph:
    """A graph inside an operation.

    Attributes:
        title: The role of the graph in the operation: a step, a branch.
        graph: The graph.
        takes: The meaning of each input.
        gives: The meaning of each output.
    """

    title: str
    graph: Graph
    takes: Sequence[str]
    gives: Sequence[str]


def inner_graphs(node: Node) -> list[InnerGraph]:
    """Return the graphs inside a node's operation.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> total = graphc.scan(lambda now, last: now + last, x, 0.0)
        >>> [step] = inner_graphs(total.inputs[0])
        >>> step.title, step.takes, step.gives
        ('step', ['carry 0, first 0.0', 'element of x'], ['next carry 0', 'row 0'])
    """
    op = node.op
    if isinstance(op, Loop):
        return [_step(op, node)]
    graphs = op.graphs()
    passes = op.passes() or [[None] * len(graph.inputs) for graph in graphs]
    titles = [f"graph {i}" if len(graphs) > 1 else "graph" for i in range(len(graphs))]
    if isinstance(op, Switch):
        is_bool = node.inputs[0].type.dtype == "bool" and len(graphs) == 2
        titles = ["if false", "if true"] if is_bool else [f"branch {i}" for i in range(len(graphs))]
    result = []
    for title, graph, indices in zip(titles, graphs, passes, strict=True):
        operands = [None if i is None else node.inputs[i] for i in indices]
        # An operand with the parameter's name adds nothing.
        takes = [
            "" if x is None or label(x) == label(formal) else _short(x)
            for formal, x in zip(graph.inputs, operands, strict=True)
        ]
        result.append(
            InnerGraph(title, graph, takes, [f"result {i}" for i in range(len(graph.outputs))])
        )
    return result


def _step(op: Loop, node: Node) -> InnerGraph:
    operands = op.parts(node.inputs)
    takes = [f"carry {i}, first {_short(x)}" for i, x in enumerate(operands.init)]
    takes += [f"element of {_short(x)}" for x in operands.xs]
    takes += [_short(x) for x in operands.consts]
    gives = [f"next carry {i}" for i in range(op.carries)]
    gives += [f"row {i}" for i in range(op.stacked)]
    gives += ["whether to stop"] if op.stops else []
    return InnerGraph("step", op.step, takes, gives)


def _short(x: Node) -> str:
    return pprint(x, SHORT)
