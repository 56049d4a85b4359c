"""Code sinking: work that only one branch of a choice needs is done in that branch."""

from __future__ import annotations

from collections import Counter

from graphc.ir import Graph
from graphc.loop.sink import placed


def sunk(graph: Graph) -> Graph:
    """Return an equal graph in which a branch that is not chosen costs nothing.

    The same graph where there is nothing to move.
    """
    outputs = tuple(placed(graph.outputs, graph.inputs))
    if outputs == graph.outputs:
        return graph
    new = Graph(graph.inputs, outputs)
    # The operands of a switch in another order are no reason for another graph, time and again.
    return graph if _operations(new) == _operations(graph) else new


def _operations(graph: Graph) -> Counter[tuple[int, str]]:
    """Count operations, by their depth in the graphs that operations hold."""
    found: Counter[tuple[int, str]] = Counter()
    level, graphs = 0, [graph]
    while graphs:
        nodes = [node for held in graphs for node in held.nodes]
        found.update((level, node.op.name) for node in nodes)
        level, graphs = level + 1, [held for node in nodes for held in node.op.graphs()]
    return found
