"""The step of a loop: a graph of numbered parameters that refers to nothing outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from graphc.ir import Constant, Graph, Input, Node, Parameter, TensorType, Type, ordered, replaced
from graphc.tensor.core.shape import Length, Shape, length, lengths
from graphc.tensor.core.tensor import Tensor, as_tensor

T = TypeVar("T")


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
"""The node that a parameter stands for or is an element of, and its number of extra axes."""


@dataclass(frozen=True, slots=True)
class LoopInputs(Generic[T]):
    """A loop's inputs, or a value for each, sorted by what they are for.

    Attributes:
        steps: The number of steps where it is an input, else None.
        count: How many of them are done where that is an input, else None.
        init: The carries before the first step.
        xs: The sequences.
        consts: The constants, which every step takes.
    """

    steps: T | None
    count: T | None
    init: Sequence[T]
    xs: Sequence[T]
    consts: Sequence[T]


@dataclass(frozen=True)
class LoopStep:
    """A loop's step, its inputs and outputs sorted by what they are for.

    Attributes:
        carries: Inputs that stand for the carries before the step.
        xs: Inputs that stand for one element of each sequence.
        nexts: The carries after the step.
        rows: One row of each stacked result.
        stop: Whether this step is the last, a bool scalar; None where it cannot say so.
        consts: Inputs that stand for the constants. A step that is not closed has none: it refers
            to the nodes themselves.
    """

    carries: Sequence[Any]
    xs: Sequence[Any]
    nexts: Sequence[Any]
    rows: Sequence[Any] = ()
    stop: Any = None
    consts: Sequence[Any] = ()

    @property
    def parameters(self) -> list[Any]:
        """The inputs that vary from step to step: carries, then elements."""
        return [*self.carries, *self.xs]

    @property
    def inputs(self) -> list[Any]:
        """All inputs, in the order of the step's graph."""
        return [*self.carries, *self.xs, *self.consts]

    @property
    def outputs(self) -> list[Any]:
        """All outputs, in the order of the step's graph."""
        return [*self.nexts, *self.rows, *([] if self.stop is None else [self.stop])]

    def with_parameters(self, parameters: Sequence[Any]) -> Self:
        """The step with other inputs in the place of its carries and elements."""
        c = len(self.carries)
        return replace(self, carries=parameters[:c], xs=parameters[c:])

    def with_outputs(self, outputs: Sequence[Any]) -> Self:
        """The step with other outputs, as many of each sort."""
        c, r = len(self.nexts), len(self.nexts) + len(self.rows)
        stop = None if self.stop is None else outputs[r]
        return replace(self, nexts=outputs[:c], rows=outputs[c:r], stop=stop)

    def replaced(self, replacements: Mapping[Node, Node]) -> Self:
        """The step whose outputs are made of other nodes."""
        return self.with_outputs(replaced(self.outputs, replacements))

    def outer(self, given: LoopInputs[Any]) -> dict[Node, Outer]:
        """The node that each input stands for in a loop of these inputs."""
        return {
            **{p: (x, 0) for p, x in zip(self.carries, given.init, strict=True)},
            **{p: (x, 1) for p, x in zip(self.xs, given.xs, strict=True)},
            **{p: (x, 0) for p, x in zip(self.consts, given.consts, strict=False)},
        }


def stand_in(x: Node, name: str | None = None, axes: int = 0) -> Tensor:
    """A new input for an element of x, which lacks so many of its first axes."""
    kind = Parameter if axes else getattr(type(x), "parameter", Parameter)
    return Tensor.make(kind(x.type.with_shape(x.type.shape[axes:]), name))


def of_kind(like: Any, x: Tensor) -> Tensor:
    """An array as one of the class of another: the last carry of a generator is a generator."""
    return like.of_kind(x) if isinstance(like, Tensor) else x


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
    for node in ordered(outputs, lambda node: [x for x in node.inputs if x.serial > first], done):
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


def widened(parameters: Sequence[Tensor], flags: Sequence[bool], size: Any) -> dict[Node, Tensor]:
    """New inputs with a batch's axis in front, by the parameters that have it."""
    known = size if isinstance(size, int) else None
    return {
        x: TensorType(x.dtype, (known, *x.type.shape))()
        for x, flag in zip(parameters, flags, strict=True)
        if flag
    }


def opened(step: Graph, names: Sequence[str | None] = ()) -> tuple[list[Tensor], list[Node]]:
    """New inputs in the place of a step's parameters, and the outputs made of them."""
    known = [*names, *[None] * (len(step.inputs) - len(names))]
    fresh = [stand_in(x, name) for x, name in zip(step.inputs, known, strict=True)]
    return fresh, replaced(step.outputs, dict(zip(step.inputs, fresh, strict=True)))
