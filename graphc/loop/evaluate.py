"""Evaluation of graphs on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir import Graph, Node, TensorType
from graphc.loop.step import stand_in
from graphc.tensor.arrays.reduce import Composite

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
