"""The graphs that operations hold: what each is called, takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir import Graph, Node, pprint
from graphc.ir.print import label
from graphc.loop.branch import Switch
from graphc.loop.loop import Loop

SHORT = 24
"""About how many characters of an expression are shown of what a parameter stands for."""


@dataclass(frozen=True, slots=True)
class Held:
    """A graph that an operation holds.

    Attributes:
        title: What it is to the operation: a step, a branch.
        graph: The graph.
        takes: What each of its inputs stands for.
        gives: What each of its outputs is.
    """

    title: str
    graph: Graph
    takes: Sequence[str]
    gives: Sequence[str]


def held(node: Node) -> list[Held]:
    """Return the graphs that a node's operation holds.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> total = graphc.scan(lambda now, last: now + last, x, 0.0)
        >>> [step] = held(total.inputs[0])
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
    found = []
    for title, graph, places in zip(titles, graphs, passes, strict=True):
        given = [None if i is None else node.inputs[i] for i in places]
        # A parameter that stands for one of the same name says nothing more.
        takes = [
            "" if x is None or label(x) == label(formal) else _short(x)
            for formal, x in zip(graph.inputs, given, strict=True)
        ]
        found.append(Held(title, graph, takes, [f"result {i}" for i in range(len(graph.outputs))]))
    return found


def _step(op: Loop, node: Node) -> Held:
    given = op.parts(node.inputs)
    takes = [f"carry {i}, first {_short(x)}" for i, x in enumerate(given.init)]
    takes += [f"element of {_short(x)}" for x in given.xs]
    takes += [_short(x) for x in given.consts]
    gives = [f"next carry {i}" for i in range(op.carries)]
    gives += [f"row {i}" for i in range(op.stacked)]
    gives += ["whether to stop"] if op.stops else []
    return Held("step", op.step, takes, gives)


def _short(x: Node) -> str:
    return pprint(x, SHORT)
