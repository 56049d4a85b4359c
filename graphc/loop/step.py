"""The step of a loop: a graph of numbered parameters that refers to no node outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from graphc.ir import (
    Constant,
    Graph,
    Input,
    Node,
    Parameter,
    TensorType,
    Type,
    dependencies_first,
    replace_nodes,
)
from graphc.tensor.core.shape import Length, Shape, length, lengths
from graphc.tensor.core.tensor import Tensor, as_tensor

T = TypeVar("T")


class Formal(Input):
    """A parameter of a step, compared by number and type, so that equal steps are one graph."""

    __slots__ = ()

    def __init__(self, position: int, type: Type) -> None:
        super().__init__(type, position=position)

    @property
    def name(self) -> str:
        return f"#{self.position}"

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Formal) and other.position == self.position
        return same and other.given_type is self.given_type  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.position, self.given_type))

    def token(self) -> str:
        return f"formal {self.position} {self.given_type!r}"


Outer = tuple[Node, int]
"""The operand of a parameter, and the number of leading axes that the parameter lacks."""


@dataclass(frozen=True, slots=True)
class LoopInputs(Generic[T]):
    """A loop's inputs, or a value for each, sorted by role.

    Attributes:
        steps: The number of steps if it is an input, else None.
        count: The number of steps that are done if it is an input, else None.
        init: The carries before the first step.
        xs: The sequences.
        consts: The constants, which are the same in every step.
    """

    steps: T | None
    count: T | None
    init: Sequence[T]
    xs: Sequence[T]
    consts: Sequence[T]


@dataclass(frozen=True)
class LoopStep:
    """A loop's step, its inputs and outputs sorted by role.

    Attributes:
        carries: Inputs for the carries before the step.
        xs: Inputs for one element of each sequence.
        nexts: The carries after the step.
        rows: One row of each stacked result.
        stop: Whether this step is the last, a bool scalar; None without a stop condition.
        consts: Inputs for the constants. A step that is not closed has none: it refers to the
            constants themselves.
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
        """Return the step with other carries and elements."""
        c = len(self.carries)
        return replace(self, carries=parameters[:c], xs=parameters[c:])

    def with_outputs(self, outputs: Sequence[Any]) -> Self:
        """Return the step with other outputs, in the same numbers."""
        c, r = len(self.nexts), len(self.nexts) + len(self.rows)
        stop = None if self.stop is None else outputs[r]
        return replace(self, nexts=outputs[:c], rows=outputs[c:r], stop=stop)

    def replace_nodes(self, replacements: Mapping[Node, Node]) -> Self:
        """Return the step with nodes replaced in its outputs."""
        return self.with_outputs(replace_nodes(self.outputs, replacements))

    def outer(self, inputs: LoopInputs[Any]) -> dict[Node, Outer]:
        """Return the operand of each input in a loop with the given inputs."""
        return {
            **{p: (x, 0) for p, x in zip(self.carries, inputs.init, strict=True)},
            **{p: (x, 1) for p, x in zip(self.xs, inputs.xs, strict=True)},
            **{p: (x, 0) for p, x in zip(self.consts, inputs.consts, strict=False)},
        }


def stand_in(x: Node, name: str | None = None, axes: int = 0) -> Tensor:
    """Return a new input of x's type without the first axes."""
    kind = Parameter if axes else getattr(type(x), "parameter", Parameter)
    return Tensor.make(kind(x.type.with_shape(x.type.shape[axes:]), name))


def of_kind(like: Any, x: Tensor) -> Tensor:
    """Return an array of the class of another: a generator for a generator."""
    return like.of_kind(x) if isinstance(like, Tensor) else x


def close_graph(
    parameters: Sequence[Node], outputs: Sequence[Node], outer: Mapping[Node, Outer]
) -> tuple[Graph, list[Node]]:
    """Return outputs as a graph of formal parameters, and the captured nodes among its operands.

    Captured nodes do not depend on the parameters, and are computed once, outside. Lengths of
    parameters are captured too, as no step changes a shape.

    Args:
        parameters: Inputs of the outputs, the first parameters of the graph.
        outputs: Arrays.
        outer: The operands of the parameters.
    """
    recent = _since(parameters, outputs)
    swaps = _outer_lengths(recent, outer)
    if swaps:
        for node in recent:
            if node not in swaps:
                swaps[node] = node.with_inputs([swaps.get(x, x) for x in node.inputs])
        outputs = [swaps.get(y, y) for y in outputs]
    free = captured_nodes(parameters, outputs)
    return with_formals([*parameters, *free], outputs), free


def captured_nodes(parameters: Sequence[Node], outputs: Sequence[Node]) -> list[Node]:
    """Return the nodes that the outputs read and that depend on no parameter, without constants."""
    inner = set(parameters)
    ends: list[Node] = []
    for node in _since(parameters, outputs):
        if not inner.isdisjoint(node.inputs):
            inner.add(node)
            ends += node.inputs
    ends += outputs
    return list(dict.fromkeys(x for x in ends if x not in inner and not isinstance(x.op, Constant)))


def with_formals(inputs: Sequence[Node], outputs: Sequence[Node]) -> Graph:
    """Return outputs as a graph of formal parameters for ``inputs``."""
    formals = [Node.make(Formal(i, x.type)) for i, x in enumerate(inputs)]
    return Graph(formals, replace_nodes(outputs, dict(zip(inputs, formals, strict=True))))


def _since(parameters: Sequence[Node], outputs: Sequence[Node]) -> list[Node]:
    """Return the nodes younger than the oldest parameter, each after its inputs.

    No older node depends on a parameter, so the graph before a loop costs nothing.
    """
    first = min((p.serial for p in parameters), default=0)
    order: list[Node] = []
    done = set(parameters)
    for node in dependencies_first(
        outputs, lambda node: [x for x in node.inputs if x.serial > first], done
    ):
        done.add(node)
        order.append(node)
    return order


def _outer_lengths(nodes: Iterable[Node], outer: Mapping[Node, Outer]) -> dict[Node, Node]:
    swaps: dict[Node, Node] = {}
    for node in nodes:
        if isinstance(node.op, Length | Shape) and node.inputs[0] in outer:
            x, axes = outer[node.inputs[0]]
            n = length(x, node.op.axis + axes) if isinstance(node.op, Length) else lengths(x)[axes:]  # type: ignore[arg-type]
            swaps[node] = as_tensor(n, dtype="int64")
    return swaps


def batch_inputs(
    parameters: Sequence[Tensor], flags: Sequence[bool], size: Any
) -> dict[Node, Tensor]:
    """Return a new input with a leading batch axis for each batched parameter."""
    n = size if isinstance(size, int) else None
    return {
        x: TensorType(x.dtype, (n, *x.type.shape))()
        for x, flag in zip(parameters, flags, strict=True)
        if flag
    }


def with_new_inputs(
    step: Graph, names: Sequence[str | None] = ()
) -> tuple[list[Tensor], list[Node]]:
    """Return new inputs for a graph, and its outputs over them."""
    labels = [*names, *[None] * (len(step.inputs) - len(names))]
    fresh = [stand_in(x, name) for x, name in zip(step.inputs, labels, strict=True)]
    return fresh, replace_nodes(step.outputs, dict(zip(step.inputs, fresh, strict=True)))
