"""What a graph looks like, without the graph: kept to see later in what another one differs.

A picture holds no nodes, no arrays and no variables of the user's, so that it keeps nothing alive.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.ir import TINY, Constant, Graph, Input, Leaf, Node, Op

__all__ = ["LARGEST", "Mark", "Picture"]

LARGEST = 20_000
"""Graphs of more nodes are not pictured inside: a picture takes some 300 bytes a node."""


class Mark(NamedTuple):
    """A node in a picture.

    Attributes:
        kind: What operation it is, without its parameters; ``"data"`` for constants and leaves.
        parameters: The operation's, by name.
        type: A source's; what is computed has the type that follows from its operands'.
        value: A small constant's.
        operands: By their places in the picture.
        commutes: Whether its operands may change places.
        held: The pictures of the graphs that the operation holds.
        whole: A hash that equal nodes share.
        outline: A hash that nodes share which differ in data and parameters alone.
    """

    kind: str
    parameters: tuple[tuple[str, Any], ...]
    type: Any
    value: Any
    operands: tuple[int, ...]
    commutes: bool
    held: tuple[Picture, ...]
    whole: int
    outline: int


class Picture:
    """What a graph looks like.

    Attributes:
        inputs: The types of its inputs.
        outputs: Their places among the marks.
        marks: Its nodes in their order; none where there are too many.
        count: How many nodes there are.
    """

    __slots__ = ("__weakref__", "count", "inputs", "marks", "outputs")

    def __init__(self, graph: Graph) -> None:
        self.inputs = tuple(x.type for x in graph.inputs)
        self.count = len(graph.nodes)
        self.marks: list[Mark] = []
        self.outputs: tuple[int, ...] = ()
        if self.count <= LARGEST:
            place = {node: i for i, node in enumerate(graph.nodes)}
            given = {x: i for i, x in enumerate(graph.inputs)}
            for node in graph.nodes:
                known = _input(given[node], node) if node in given else None
                self.marks.append(known or _marked(node, place, self.marks))
            self.outputs = tuple(place[y] for y in graph.outputs)

    @property
    def outline(self) -> int:
        """A hash that graphs share which differ in data and parameters alone."""
        return hash(tuple(self.marks[i].outline for i in self.outputs))


def _input(place: int, node: Node) -> Mark:
    kind = f"input {place}"
    whole = hash((kind, repr(node.type)))
    return Mark(kind, (), node.type, None, (), False, (), whole, hash(kind))


def _marked(node: Node, place: dict[Node, int], marks: Sequence[Mark]) -> Mark:
    op = node.op
    if isinstance(op, Constant | Leaf):
        return _data(node)
    operands = tuple(place[x] for x in node.inputs)
    held = tuple(map(Picture, op.graphs()))
    kind, parameters = _described(op)
    commutes = op.is_commutative()
    wholes = [marks[i].whole for i in operands]
    outlines = [marks[i].outline for i in operands]
    if commutes:
        wholes.sort()
        outlines.sort()
    whole = hash((op.token(), *wholes))
    outline = hash((kind, *outlines, *[picture.outline for picture in held]))
    type = node.type if isinstance(op, Input) else None
    return Mark(kind, parameters, type, None, operands, commutes, held, whole, outline)


def _data(node: Node) -> Mark:
    """An array or a number: whether it is a constant or a leaf is a matter of its size."""
    value: Any = None
    if isinstance(node.op, Constant) and np.prod(node.op.shape) < TINY:
        value = node.op.value.copy()
    return Mark("data", (), node.type, value, (), False, (), hash(node.op.token()), hash("data"))


def _described(op: Op) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """An operation's kind and its parameters, or what the user's function that it holds reads."""
    if hasattr(op, "described"):
        kind, read = op.described()
        return kind, tuple(read)
    # One with a token of its own has no parameters that could be told apart.
    if type(op).token is not Op.token or not dataclasses.is_dataclass(op):
        return op.token(), ()
    named = [(field.name, getattr(op, field.name)) for field in dataclasses.fields(op)]
    plain = tuple((name, value) for name, value in named if not isinstance(value, Graph | Op))
    inner = [value.token() for _, value in named if isinstance(value, Op)]
    return " ".join([type(op).__qualname__, *inner]), plain
