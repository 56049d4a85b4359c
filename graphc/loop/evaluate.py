"""Evaluation of graphs on NumPy arrays, and the inputs that decide shapes in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.ir import Graph, Node, Op, TensorType, reached
from graphc.ir.law import deciding_inputs
from graphc.loop.step import stand_in
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.core.shape import Length, Shape

Perform = Callable[[Node, Sequence[Any]], Any]
"""A function from a node and its inputs' values to its value."""


def perform_node(node: Node, values: Sequence[Any]) -> Any:
    """Return the value of a node by its operation's reference, or by its definition."""
    if not isinstance(node.op, Composite):
        return node.op.perform(*values)
    inputs = [stand_in(x) for x in node.inputs]
    return evaluate(Graph(inputs, [node.op.expand(*inputs)]), *values)[0]


def evaluate(graph: Graph, *values: Any, perform: Perform = perform_node) -> Sequence[Any]:
    """Return the outputs of a graph, given a value for each input."""
    computed: dict[Node, Any] = dict(zip(graph.inputs, values, strict=True))
    for node in graph.nodes:
        if node not in computed:
            y = perform(node, [computed[x] for x in node.inputs])
            computed[node] = (
                np.asarray(y, node.type.numpy_dtype) if isinstance(node.type, TensorType) else y
            )
    return [computed[y] for y in graph.outputs]


def deciding(op: Op) -> tuple[int, ...]:
    """Return the inputs of an operation that decide shapes in its graphs, in order."""
    indices = {
        passed[i]
        for graph, passed in zip(op.graphs(), op.passes(), strict=True)
        for i in _deciding_inputs(graph)
    }
    return tuple(sorted(i for i in indices if i is not None))


@lru_cache(maxsize=1024)
def _deciding_inputs(graph: Graph) -> tuple[int, ...]:
    positions = {x: i for i, x in enumerate(graph.inputs)}

    def following(node: Node) -> Iterable[Node]:
        # A length does not depend on values.
        return () if node in positions or isinstance(node.op, Length | Shape) else node.inputs

    demanded = reached(_deciding_nodes(graph), following)
    return tuple(i for x, i in positions.items() if x in demanded)


def _deciding_nodes(graph: Graph) -> Iterator[Node]:
    inputs = set(graph.inputs)
    for node in graph.nodes:
        if node not in inputs:
            yield from (node.inputs[i] for i in deciding_inputs(node))
