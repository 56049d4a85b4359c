"""Invariants of graphs, which every pass preserves."""

from __future__ import annotations

from graphc.errors import InvalidGraphError
from graphc.ir.graph import Graph
from graphc.ir.node import Node
from graphc.ir.types import TupleType, Type


def check(graph: Graph) -> None:
    """Raise if a graph breaks an invariant.

    The operation infers each node's type from the inputs; making a node again returns the same
    object; the graph's inputs are distinct; nodes come after their inputs; no output is a tuple.
    """
    if len(set(graph.inputs)) != len(graph.inputs):
        raise InvalidGraphError(f"{graph!r} has the same input twice.")
    inputs = set(graph.inputs)
    seen: set[Node] = set()
    for node in graph.nodes:
        if node not in inputs:
            _check_node(node, seen)
        seen.add(node)
    for node in graph.outputs:
        if node not in seen:
            raise InvalidGraphError(f"{node!r} is an output but not in the order.")
        if isinstance(node.type, TupleType):
            raise InvalidGraphError(f"{node!r} is a tuple of values; pick one.", "", node.where)


def _check_node(node: Node, seen: set[Node]) -> None:
    for x in node.inputs:
        if x not in seen:
            raise InvalidGraphError(f"{node!r} stands before its input {x!r}.", "", node.where)
    inferred: Type = node.op.infer(*[x.type for x in node.inputs])
    if inferred is not node.type:
        raise InvalidGraphError(
            f"{node!r} has the type {node.type!r}, but its operation infers {inferred!r}.",
            "",
            node.where,
        )
    if Node.make(node.op, *node.inputs) is not node:
        raise InvalidGraphError(f"{node!r} is not the only node of its kind.", "", node.where)


def check_same_interface(before: Graph, after: Graph) -> None:
    """Raise if a rewritten graph has other inputs, or outputs of other types.

    A length may become static; dtypes, ranks and static lengths may not change.
    """
    if before.inputs != after.inputs:
        raise InvalidGraphError(f"The inputs changed: {before!r} became {after!r}.")
    for i, (old, new) in enumerate(zip(before.outputs, after.outputs, strict=True)):
        if not old.type.admits(new.type):
            raise InvalidGraphError(
                f"Output {i} was {old.type!r} and became {new.type!r}.", "", old.where
            )
