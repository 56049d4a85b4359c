"""Branches and subgraphs on MLX, which run between segments, in their own segments.

Only the chosen branch is computed if the choice can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.errors import GraphcError
from graphc.ir import Graph
from graphc.link.mlx.arrays import NotTraceableError, device_array, host_array, host_positions
from graphc.link.mlx.backend import backend, held_program
from graphc.link.mlx.segments import DRIVERS, Segments
from graphc.loop.branch import Switch
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


DRIVERS[Subgraph] = lambda op, options: partial(GraphRunner(options), op.graph)


@backend.lower(Switch)
def switch(op: Switch, index: Any, *values: Any) -> Sequence[Any]:
    """Run one branch; while MLX traces, compute all branches and select element by element."""
    if not isinstance(index, mx.array):
        return trace_graph(op.chosen(index), values)
    try:
        branch_results = [trace_graph(branch, values) for branch in op.branches]
    except GraphcError as error:
        # Lengths need to match in the chosen branch only.
        raise NotTraceableError from error
    chosen, *others = branch_results[::-1]
    for i, results in reversed([*enumerate(others[::-1])]):
        is_chosen = index == i if i else index <= i
        chosen = tuple(_select(is_chosen, a, b) for a, b in zip(results, chosen, strict=True))
    return chosen


def _select(is_chosen: Any, a: Any, b: Any) -> Any:
    if a.shape != b.shape:
        # The choice decides the shape.
        raise NotTraceableError
    return mx.where(is_chosen, a, b)


def branch_driver(op: Switch, options: Mapping[str, Any]) -> Callable[..., Sequence[Any]]:
    """Return the function that reads the choice, and runs the chosen branch from Python."""
    run = GraphRunner(options)
    return lambda index, *values: run(op.chosen(np.asarray(host_array(index))), *values)


DRIVERS[Switch] = branch_driver
