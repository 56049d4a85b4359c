"""Code sinking: work that only one branch needs moves into that branch."""

from __future__ import annotations

from collections import Counter

from graphc.ir import Graph
from graphc.loop.sink import sink_into_branches


def sink_graph(graph: Graph) -> Graph:
    """Return an equal graph in which a branch that is not chosen costs nothing.

    The same graph if there is nothing to move.
    """
    outputs = tuple(sink_into_branches(graph.outputs, graph.inputs))
    if outputs == graph.outputs:
        return graph
    new = Graph(graph.inputs, outputs)
    # Ignore a mere reordering of a switch's operands, or rewriting would not end.
    return graph if _count_operations(new) == _count_operations(graph) else new


def _count_operations(graph: Graph) -> Counter[tuple[int, str]]:
    counts: Counter[tuple[int, str]] = Counter()
    level, graphs = 0, [graph]
    while graphs:
        nodes = [node for inner in graphs for node in inner.nodes]
        counts.update((level, node.op.name) for node in nodes)
        level, graphs = level + 1, [inner for node in nodes for inner in node.op.graphs()]
    return counts
