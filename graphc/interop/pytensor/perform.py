"""Operations that run as PyTensor's own Python code, random variables among them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc.random as gr
from graphc.interop.pytensor.application import Application, lengths, static
from graphc.interop.pytensor.elementwise import in_dtype
from graphc.interop.pytensor.subgraph import ByOperation, with_own_pullback
from graphc.interop.pytensor.variables import is_generator
from graphc.interop.wrap_py import PythonCall
from graphc.ir import Node, TensorType, picks
from graphc.tensor.core.tensor import Tensor, as_tensor

Shape = tuple[int | None, ...]


class ResultShapes(ByOperation):
    """The shapes of an operation's results, as far as PyTensor's ``infer_shape`` knows them."""

    def __call__(self, *shapes: Shape) -> list[Shape]:
        node = self.op.make_node(*[type() for type in self.types])
        unknown = [y.type.shape for y in node.outputs]
        infer = getattr(self.op, "infer_shape", None)
        if infer is None:
            return unknown
        # Older versions pass the graph first. PyTensor passes symbolic lengths; these are numbers.
        graph = [None] if len(inspect.signature(infer).parameters) > 2 else []
        try:
            results = infer(*graph, node, list(shapes))
        except Exception:
            return unknown
        return [tuple(n if isinstance(n, int) else None for n in shape) for shape in results]


class Performed(ByOperation):
    """The ``perform`` of an operation as a function of arrays."""

    def __call__(self, *arrays: Any) -> list[Any]:
        node = self.op.make_node(*[type() for type in self.types])
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        self.op.perform(node, list(arrays), storage)
        pairs = zip(storage, node.outputs, strict=True)
        return [np.asarray(cell[0], y.type.dtype) for cell, y in pairs]


def by_perform(at: Application, *xs: Any) -> Any:
    """Convert an operation to a call of its Python code, on every backend.

    The operation defines the gradient. JAX needs the shapes of results: from static shapes, or from
    the operation's ``infer_shape``. A random variable's ``rng_fn`` is called with a NumPy generator
    that its key seeds.

    Example:
        ``graphc.interop.pytensor.register(MyOp)(graphc.interop.pytensor.by_perform)``
    """
    if is_generator(at.inputs[0]):
        return _draw(at, *xs)
    types = tuple(x.type for x in at.inputs)
    call = _python_call(at, xs, Performed(at.op, types), ResultShapes(at.op, types))

    def build(parameters: Sequence[Tensor]) -> list[Any]:
        pairs = zip(parameters, at.inputs, strict=True)
        operands = [in_dtype(x, variable.type.dtype) for x, variable in pairs]
        return list(picks(Node.make(call, *operands)))

    return with_own_pullback(at, xs, build)


def _python_call(at: Application, xs: Sequence[Tensor], function: Any, shapes: Any) -> PythonCall:
    takes = tuple(TensorType(x.dtype, (None,) * x.ndim) for x in xs)
    gives = tuple(t for t in at.types if t is not None)
    return PythonCall(function, takes, gives, shapes)


@dataclass(frozen=True)
class Drawn:
    """The ``rng_fn`` of a random variable, as a function of a key, an optional size and parameters.

    Attributes:
        op: The random variable's operation.
        has_size: Whether there is a size; else the parameters determine the shape of a draw.
    """

    op: Any
    has_size: bool

    def __call__(self, key: Any, *arguments: Any) -> Any:
        size, params = (tuple(arguments[0]), arguments[1:]) if self.has_size else (None, arguments)
        drawn = self.op.rng_fn(np.random.default_rng(key), *params, size)
        return np.asarray(drawn, self.op.dtype)

    @property
    def __name__(self) -> str:
        return str(self.op)


@dataclass(frozen=True)
class DrawnShape:
    """The shape of a draw, as a function of the shapes of its parameters.

    Attributes:
        batch: The lengths that the size gives; None if there is no size.
        core: The lengths of one draw.
        ranks: The numbers of axes that the parameters of one draw have.
    """

    batch: Shape | None
    core: Shape
    ranks: tuple[int, ...]

    def __call__(self, key: Shape, *shapes: Shape) -> Shape:
        if self.batch is not None:
            return self.batch + self.core
        pairs = zip(shapes, self.ranks, strict=True)
        batches = [shape[: len(shape) - rank] for shape, rank in pairs]
        return (*map(_broadcast_length, *batches), *self.core)


def _broadcast_length(*lengths: int | None) -> int | None:
    candidates = {n for n in lengths if n != 1}
    return candidates.pop() if len(candidates) == 1 else None if candidates else 1


def _draw(at: Application, key: Tensor, size: Any, *parameters: Tensor) -> tuple[Any, Any]:
    following, draw_key = gr.split(key)
    batch = None if size is None else tuple(static(as_tensor(n)) for n in lengths(size))
    drawn = at.type_of(1)
    core = drawn.shape[drawn.ndim - at.op.ndim_supp :]
    xs = [draw_key, *parameters] if size is None else [draw_key, size, *parameters]
    shape = DrawnShape(batch, core, tuple(at.op.ndims_params))
    (y,) = picks(Node.make(_python_call(at, xs, Drawn(at.op, size is not None), shape), *xs))
    return following, y
