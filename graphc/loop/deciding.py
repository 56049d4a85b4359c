"""Which inputs of an operation decide shapes by their values in the graphs that it holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from graphc.ir import Graph, Node, Op, reached
from graphc.tensor.core.shape import Length, Shape


def deciding(op: Op) -> tuple[int, ...]:
    """The inputs of an operation that decide shapes in its graphs, in order."""
    found = {
        passed[i]
        for graph, passed in zip(op.graphs(), op.passes(), strict=True)
        for i in _places(graph)
    }
    return tuple(sorted(i for i in found if i is not None))


@lru_cache(maxsize=1024)
def _places(graph: Graph) -> tuple[int, ...]:
    """The places of the graph's inputs whose values decide shapes."""
    given = {x: i for i, x in enumerate(graph.inputs)}

    def following(node: Node) -> Iterable[Node]:
        # A length is known, whatever the values.
        return () if node in given or isinstance(node.op, Length | Shape) else node.inputs

    found = reached(_demanded(graph), following)
    return tuple(i for x, i in given.items() if x in found)


def _demanded(graph: Graph) -> Iterator[Node]:
    given = set(graph.inputs)
    for node in graph.nodes:
        if node not in given:
            yield from (node.inputs[i] for i in node.op.host_inputs())
