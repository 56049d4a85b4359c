"""What a converter is given: an operation of PyTensor, applied to variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from graphc.ir import Constant, Graph, TensorType, graph_inputs, is_integer
from graphc.loop.evaluate import evaluate

if TYPE_CHECKING:
    from graphc.interop.pytensor.convert import Conversion


class Refusal(Exception):  # noqa: N818 (it reads as what is raised)
    """A converter has no graph for the operation with these parameters; the text says why."""


@dataclass(frozen=True)
class Application:
    """An operation of PyTensor applied to variables, as a converter gets it.

    Attributes:
        op: The operation, with its parameters.
        inputs: PyTensor's variables that it is applied to.
        types: The types of its results, None for what is no array.
        values: What stands for PyTensor's variables so far, its inputs and all before them.
        conversion: The conversion that it is part of.
    """

    op: Any
    inputs: Sequence[Any]
    types: tuple[TensorType | None, ...]
    values: Mapping[Any, Any]
    conversion: Conversion

    @property
    def type(self) -> TensorType:
        """The type of its first result, an array."""
        return self.type_of(0)

    def type_of(self, i: int) -> TensorType:
        """The type of a result, an array."""
        type = self.types[i]
        assert type is not None
        return type

    @property
    def dtype(self) -> str:
        """The dtype of its first result."""
        return self.type.dtype

    def of(self, op: Any) -> Application:
        """Another operation in the place of this one: that which it applies to elements."""
        return replace(self, op=op)

    def inner(self, graph: Any, values: Sequence[Any]) -> list[Any]:
        """The outputs of a graph inside the operation, for values of its inputs."""
        return self.conversion.inner(graph, values)


def static(x: Any) -> int | None:
    """An integer scalar that is known while graphs are built; None for another array."""
    if isinstance(x, int):
        return x
    op = x.op
    known = isinstance(op, Constant) and not op.shape and is_integer(op.dtype)
    return int(op.value) if known else None


def length(x: Any) -> Any:
    """A length as Python's integer where it is known."""
    known = static(x)
    return x if known is None else known


def lengths(x: Any) -> Any:
    """A vector of lengths as a list of them where their number is known."""
    if isinstance(x.op, Constant):
        return [int(n) for n in x.op.value]
    n = x.type.shape[0]
    return x if n is None else [x[i] for i in range(n)]


def required(x: Any, what: str) -> int:
    """An integer that must be a constant.

    Raises:
        Refusal: It is not.
    """
    known = static(x)
    if known is not None:
        return known
    if all(isinstance(node.op, Constant) for node in graph_inputs([x])):
        (value,) = evaluate(Graph([], [x]))
        return int(value)
    raise Refusal(f"{what} is computed when the program runs; it must be a constant")
