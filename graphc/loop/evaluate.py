"""A graph's outputs for NumPy arrays, node by node: the reference of what a step computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir import Graph, Node, TensorType
from graphc.loop.step import stand_in
from graphc.tensor.arrays.reduce import Composite

Perform = Callable[[Node, Sequence[Any]], Any]
"""Computes a node of its inputs' values."""


def performed(node: Node, values: Sequence[Any]) -> Any:
    """The value of a node by its operation's reference, or by its definition in terms of others."""
    if not isinstance(node.op, Composite):
        return node.op.perform(*values)
    inputs = [stand_in(x) for x in node.inputs]
    return evaluate(Graph(inputs, [node.op.expand(*inputs)]), *values)[0]


def evaluate(graph: Graph, *values: Any, perform: Perform = performed) -> Sequence[Any]:
    """The outputs, given a value for each input."""
    known: dict[Node, Any] = dict(zip(graph.inputs, values, strict=True))
    for node in graph.nodes:
        if node not in known:
            found = perform(node, [known[x] for x in node.inputs])
            if isinstance(node.type, TensorType):
                found = np.asarray(found, node.type.numpy_dtype)
            known[node] = found
    return [known[y] for y in graph.outputs]
