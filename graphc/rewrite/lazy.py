"""What only one branch of a choice needs, computed in that branch."""

from __future__ import annotations

from graphc.ir import Graph
from graphc.loop.sink import placed

__all__ = ["sunk"]


def sunk(graph: Graph) -> Graph:
    """An equal graph, in which a branch that is not chosen costs nothing.

    The same graph where there is nothing to move.
    """
    outputs = tuple(placed(graph.outputs, graph.inputs))
    return graph if outputs == graph.outputs else Graph(graph.inputs, outputs)
