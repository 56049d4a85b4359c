"""What must be known while a backend compiles: integers that decide shapes.

Lengths are Python integers while a backend traces; so is what is computed from them, from
constants and from integer inputs whose value decides a shape, which are read on the host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from graphc.errors import DynamicShapeError
from graphc.ir import TINY, Constant, Graph, Leaf, Node, Pick, TensorType, is_inexact
from graphc.tensor.index import Nonzero
from graphc.tensor.sets import Unique
from graphc.tensor.shape import Length, Shape

__all__ = ["Host", "analyse"]


@dataclass(frozen=True)
class Host:
    """What is computed on the host while a backend traces.

    Attributes:
        nodes: Computed there, by the operations' NumPy references.
        inputs: The graph's inputs whose values decide shapes, by position.
        leaves: The graph's leaves whose values decide shapes, by position.
    """

    nodes: frozenset[Node]
    inputs: tuple[int, ...]
    leaves: tuple[int, ...]


def analyse(graph: Graph) -> Host:
    """What a compiled graph needs on the host.

    Raises:
        DynamicShapeError: A shape depends on values that are not there while it compiles.
    """
    demanded = _demanded(graph)
    given = set(graph.inputs)
    nodes = set(demanded)
    for node in graph.nodes:
        if node in given or node in nodes or isinstance(node.op, Leaf):
            continue
        if isinstance(node.op, Length | Shape | Constant) or (
            node.inputs
            and (isinstance(node.op, Nonzero | Unique | Pick) or _is_small(node.type))
            and all(x in nodes for x in node.inputs)
        ):
            nodes.add(node)
    return Host(
        frozenset(nodes),
        tuple(i for i, x in enumerate(graph.inputs) if x in demanded),
        tuple(i for i, x in enumerate(graph.leaves) if x in demanded),
    )


def _is_small(type: Any) -> bool:
    if not isinstance(type, TensorType) or not type.is_static:
        return False
    return math.prod(n or 0 for n in type.shape) < TINY


def _demanded(graph: Graph) -> set[Node]:
    given = set(graph.inputs)
    demanded: set[Node] = set()
    stack: list[tuple[Node, Node]] = []
    for node in graph.nodes:
        if node not in given:
            stack += [(node.inputs[i], node) for i in node.op.host_inputs()]
    while stack:
        node, user = stack.pop()
        if node in demanded:
            continue
        demanded.add(node)
        if node in given:
            _check_input(node, user)
        elif not isinstance(node.op, Length | Shape):
            stack += [(x, user) for x in node.inputs]
    return demanded


def _check_input(node: Node, user: Node) -> None:
    if is_inexact(node.type.dtype) or node.type.ndim > 1 or node.type.dtype == "bool":
        if isinstance(user.op, Nonzero):
            raise DynamicShapeError(
                f"How many elements a mask made of {node!r} selects is not known while the "
                "backend compiles.",
                "Write gt.where(mask, a, b) in place of x[mask], with an a that adds nothing where "
                "the mask is false, or use mode='NUMPY'; a constant mask works, and so does "
                "x[mask].set(scalar).",
                user.where,
            )
        if isinstance(user.op, Unique):
            raise DynamicShapeError(
                f"How many distinct elements {node!r} has is not known while the backend compiles.",
                "Say how many to give, gt.unique(x, size=..., fill_value=...), or use "
                "mode='NUMPY'; constants and integer inputs work.",
                user.where,
            )
        raise DynamicShapeError(
            f"The shape of {user!r} depends on the values of {node!r}, which are not known while "
            "the backend compiles.",
            "Shapes may depend on constants, on lengths (x.shape) and on integer inputs, scalars "
            "or vectors; where a function takes the length of its result, as gt.bincount(x, "
            "length=...) does, give that; or use mode='NUMPY'.",
            user.where,
        )
