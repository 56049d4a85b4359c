"""The last rewriting before a backend compiles."""

from __future__ import annotations

from graphc.ir import Constant, Graph, Leaf, Node, derived_from
from graphc.link.backend import Backend
from graphc.tensor.reduce import Composite

__all__ = ["bake", "inline"]


def inline(graph: Graph, backend: Backend) -> Graph:
    """Named functions taken apart, but for those the backend has a lowering of its own for."""
    while True:
        expanded: dict[Node, Node] = {}
        given = set(graph.inputs)
        for node in graph.nodes:
            own = [expanded.get(x, x) for x in node.inputs] if node not in given else []
            if isinstance(node.op, Composite) and type(node.op) not in backend.lowerings:
                with derived_from(node.site):
                    expanded[node] = node.op.expand(*own)  # type: ignore[arg-type]
            elif own and own != list(node.inputs):
                expanded[node] = node.with_inputs(own)
        if not expanded:
            return graph
        graph = Graph(graph.inputs, [expanded.get(y, y) for y in graph.outputs])


def bake(graph: Graph, places: tuple[int, ...]) -> Graph:
    """Leaves at these places, whose values decide shapes, made part of the graph."""
    if not places:
        return graph
    baked: dict[Node, Node] = {}
    for i in places:
        leaf = graph.leaves[i]
        assert isinstance(leaf.op, Leaf)
        baked[leaf] = Node.make(Constant.of(leaf.op.array))
    return graph.substitute(baked)
