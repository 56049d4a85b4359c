"""The step of a loop: a graph of numbered parameters that refers to nothing outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphc.ir import Constant, Graph, Input, Node, Type, replaced, toposort
from graphc.tensor.shape import Length, Shape, length, lengths
from graphc.tensor.tensor import Tensor, as_tensor

__all__ = ["Formal", "closed", "opened", "stand_in"]


class Formal(Input):
    """A parameter of a step; those of equal place and type are one, so equal steps are, too."""

    __slots__ = ("place",)

    def __init__(self, place: int, type: Type) -> None:
        super().__init__(type)
        self.place = place

    @property
    def name(self) -> str:
        return f"#{self.place}"

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Formal) and other.place == self.place
        return same and other.given_type is self.given_type  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.place, self.given_type))

    def token(self) -> str:
        return f"formal {self.place} {self.given_type!r}"


Outer = tuple[Node, int]
"""What a parameter is an element of, or stands for, and how many more axes that has in front."""


def stand_in(x: Node, name: str | None = None, axes: int = 0) -> Tensor:
    """A new input for an element of x, which lacks so many of its first axes."""
    made: Any = x.type.with_shape(x.type.shape[axes:])
    return made(name)  # type: ignore[no-any-return]


def closed(
    parameters: Sequence[Node], outputs: Sequence[Node], outer: Mapping[Node, Outer]
) -> tuple[Graph, list[Node]]:
    """Outputs as a graph of formal parameters, and what it takes for those after the given ones.

    These are the largest parts that do not depend on the parameters: they are computed outside,
    once. Lengths of parameters are such parts too, as no step changes a shape.

    Args:
        parameters: Inputs of the outputs' graph.
        outputs: Arrays.
        outer: What parameters stand for.
    """
    outputs = replaced(outputs, _outer_lengths(outputs, outer))
    inner = set(parameters)
    order = toposort(outputs, parameters)
    for node in order:
        if not inner.isdisjoint(node.inputs):
            inner.add(node)
    ends = [x for node in order if node in inner for x in node.inputs] + list(outputs)
    free = dict.fromkeys(x for x in ends if x not in inner and not isinstance(x.op, Constant))
    given = [*parameters, *free]
    formals = [Node.make(Formal(i, x.type)) for i, x in enumerate(given)]
    body = replaced(outputs, dict(zip(given, formals, strict=True)))
    return Graph(formals, body), list(free)


def _outer_lengths(outputs: Sequence[Node], outer: Mapping[Node, Outer]) -> dict[Node, Node]:
    found: dict[Node, Node] = {}
    for node in toposort(outputs, outer):
        if isinstance(node.op, Length | Shape) and node.inputs[0] in outer:
            x, axes = outer[node.inputs[0]]
            n = length(x, node.op.axis + axes) if isinstance(node.op, Length) else lengths(x)[axes:]  # type: ignore[arg-type]
            found[node] = as_tensor(n, dtype="int64")
    return found


def opened(step: Graph, names: Sequence[str | None] = ()) -> tuple[list[Tensor], list[Node]]:
    """New inputs in the place of a step's parameters, and the outputs made of them."""
    known = [*names, *[None] * (len(step.inputs) - len(names))]
    fresh = [stand_in(x, name) for x, name in zip(step.inputs, known, strict=True)]
    return fresh, replaced(step.outputs, dict(zip(step.inputs, fresh, strict=True)))
