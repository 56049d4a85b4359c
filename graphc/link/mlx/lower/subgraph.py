"""Sub-graphs on MLX: each runs between segments, in its own segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from graphc.ir import Graph
from graphc.link.mlx.arrays import device_array, host_positions
from graphc.link.mlx.backend import backend, held_program
from graphc.link.mlx.segments import DRIVERS, Segments
from graphc.loop.subgraph import Subgraph


def trace_graph(graph: Graph, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results of a graph as part of the program that MLX traces."""
    program = held_program(graph, host_positions(values))
    return tuple(map(device_array, program.trace(*values)))


class GraphRunner:
    """The segments of an operation's graphs, by the graph and its inputs on the host."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.segments: dict[tuple[Graph, tuple[int, ...]], Segments] = {}

    def __call__(self, graph: Graph, *values: Any) -> tuple[Any, ...]:
        key = graph, host_positions(values)
        if key not in self.segments:
            self.segments[key] = Segments(held_program(*key), self.options)
        return tuple(map(device_array, self.segments[key].run(*values)))


@backend.lower(Subgraph)
def subgraph(op: Subgraph, *values: Any) -> Sequence[Any]:
    """Compute the sub-graph as part of the program that MLX traces."""
    return trace_graph(op.graph, values)


def subgraph_driver(op: Subgraph, options: Mapping[str, Any]) -> Callable[..., Sequence[Any]]:
    """Return the function that runs the sub-graph's segments."""
    return partial(GraphRunner(options), op.graph)


DRIVERS[Subgraph] = subgraph_driver
