"""The last rewriting before a backend compiles."""

from __future__ import annotations

from collections.abc import Callable

from graphc.ir import Constant, Graph, Leaf, Node, derived_from
from graphc.link.backend import Backend
from graphc.tensor.elementwise import Elementwise
from graphc.tensor.reduce import Composite

__all__ = ["bake", "inline"]


def inline(graph: Graph, backend: Backend) -> Graph:
    """Named functions taken apart, but for those the backend has a lowering of its own for.

    So too in the graphs that operations hold.
    """
    done: dict[Node, Node] = {x: x for x in graph.inputs}
    meanings: dict[Node, Node] = {}
    waiting = list(reversed(graph.nodes))
    while waiting:
        node = waiting[-1]
        if node in done:
            waiting.pop()
            continue
        missing = [x for x in node.inputs if x not in done]
        if missing:
            waiting += missing
            continue
        made = _inside(node, backend).with_inputs([done[x] for x in node.inputs])
        meaning = meanings[made] if made in meanings else _meaning(made, backend)
        if meaning is not None and meaning not in done:
            # It may hold other names in turn.
            meanings[made] = meaning
            waiting.append(meaning)
            continue
        final = made if meaning is None else done[meaning]
        done[node] = done[final] = final
    return Graph(graph.inputs, [done[y] for y in graph.outputs])


def _inside(node: Node, backend: Backend) -> Node:
    graphs = node.op.graphs()
    taken_apart = [inline(graph, backend) for graph in graphs]
    if taken_apart == [*graphs]:
        return node
    with derived_from(node.site):
        return Node.make(node.op.with_graphs(taken_apart), *node.inputs)


def _meaning(node: Node, backend: Backend) -> Node | None:
    """What a name stands for that the backend does not know."""
    match node.op:
        case Composite() as op if type(op) not in backend.lowerings:
            expand: Callable[..., Node] = op.expand
        case Elementwise(expand=made) as op if made is not None and backend.lowering(op) is None:
            expand = made
        case _:
            return None
    with derived_from(node.site):
        return expand(*node.inputs)


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
