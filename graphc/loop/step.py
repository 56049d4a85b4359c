"""The step of a loop: a graph of numbered parameters that refers to nothing outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphc.ir import Constant, Graph, Input, Node, Parameter, Type, replaced
from graphc.tensor.shape import Length, Shape, length, lengths
from graphc.tensor.tensor import Tensor, as_tensor

__all__ = ["Formal", "captured", "closed", "opened", "stand_in", "with_formals"]


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
    return Tensor.make(Parameter(x.type.with_shape(x.type.shape[axes:]), name))


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
    recent = _since(parameters, outputs)
    swaps = _outer_lengths(recent, outer)
    if swaps:
        for node in recent:
            if node not in swaps:
                swaps[node] = node.with_inputs([swaps.get(x, x) for x in node.inputs])
        outputs = [swaps.get(y, y) for y in outputs]
    free = captured(parameters, outputs)
    return with_formals([*parameters, *free], outputs), free


def captured(parameters: Sequence[Node], outputs: Sequence[Node]) -> list[Node]:
    """The largest parts that do not depend on the parameters, other than constants."""
    inner = set(parameters)
    ends: list[Node] = []
    for node in _since(parameters, outputs):
        if not inner.isdisjoint(node.inputs):
            inner.add(node)
            ends += node.inputs
    ends += outputs
    return list(dict.fromkeys(x for x in ends if x not in inner and not isinstance(x.op, Constant)))


def with_formals(given: Sequence[Node], outputs: Sequence[Node]) -> Graph:
    """Outputs as a function of what is given, by formal parameters."""
    formals = [Node.make(Formal(i, x.type)) for i, x in enumerate(given)]
    return Graph(formals, replaced(outputs, dict(zip(given, formals, strict=True))))


def _since(parameters: Sequence[Node], outputs: Sequence[Node]) -> list[Node]:
    """The nodes that were made after a parameter, each after its inputs.

    No older one depends on them, so that a step costs nothing for all that comes before its loop.
    """
    first = min((p.serial for p in parameters), default=0)
    order: list[Node] = []
    done = set(parameters)
    stack = [*outputs][::-1]
    while stack:
        node = stack[-1]
        waiting = [] if node in done else [x for x in node.inputs if x.serial > first]
        waiting = [x for x in waiting if x not in done]
        if waiting:
            stack += waiting[::-1]
            continue
        stack.pop()
        if node not in done:
            done.add(node)
            order.append(node)
    return order


def _outer_lengths(nodes: Iterable[Node], outer: Mapping[Node, Outer]) -> dict[Node, Node]:
    found: dict[Node, Node] = {}
    for node in nodes:
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
