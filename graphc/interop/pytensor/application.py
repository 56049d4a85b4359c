"""The arguments of a converter: an operation of PyTensor, applied to variables."""

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
        inputs: The PyTensor variables that the operation is applied to.
        types: The types of the results, None for a result that is no array.
        values: The converted values of PyTensor's variables so far, the inputs among them.
        conversion: The conversion in progress.
    """

    op: Any
    inputs: Sequence[Any]
    types: tuple[TensorType | None, ...]
    values: Mapping[Any, Any]
    conversion: Conversion

    @property
    def type(self) -> TensorType:
        """The type of the first result, an array."""
        return self.type_of(0)

    def type_of(self, i: int) -> TensorType:
        """Return the type of a result, an array."""
        type = self.types[i]
        assert type is not None
        return type

    @property
    def dtype(self) -> str:
        """The dtype of the first result."""
        return self.type.dtype

    def of(self, op: Any) -> Application:
        """Return the application of another operation, such as the core of an elementwise one."""
        return replace(self, op=op)

    def inner(self, graph: Any, values: Sequence[Any]) -> list[Any]:
        """Return the outputs of a graph inside the operation, for values of its inputs."""
        return self.conversion.inner(graph, values)


def static(x: Any) -> int | None:
    """Return the value of a constant integer scalar, or None."""
    if isinstance(x, int):
        return x
    op = x.op
    is_constant = isinstance(op, Constant) and not op.shape and is_integer(op.dtype)
    return int(op.value) if is_constant else None


def length(x: Any) -> Any:
    """Return a length as Python's integer where it is constant."""
    n = static(x)
    return x if n is None else n


def lengths(x: Any) -> Any:
    """Return a vector of lengths as a list of them where their number is known."""
    if isinstance(x.op, Constant):
        return [int(n) for n in x.op.value]
    n = x.type.shape[0]
    return x if n is None else [x[i] for i in range(n)]


def constant_integer(x: Any, what: str) -> int:
    """Return the value of an integer that must be constant.

    Raises:
        Refusal: If it is computed from inputs.
    """
    n = static(x)
    if n is not None:
        return n
    if all(isinstance(node.op, Constant) for node in graph_inputs([x])):
        (value,) = evaluate(Graph([], [x]))
        return int(value)
    raise Refusal(f"{what} is computed when the program runs; it must be a constant")
