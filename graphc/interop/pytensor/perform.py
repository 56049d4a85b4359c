"""Operations that run as PyTensor's own Python code, random variables among them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakSet

import numpy as np

import graphc.random as gr
import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, Refusal, lengths
from graphc.interop.pytensor.elementwise import in_dtype
from graphc.interop.pytensor.subgraph import ByOperation, with_own_pullback
from graphc.interop.pytensor.variables import is_generator, tensor_type
from graphc.interop.wrap_py import PythonCall
from graphc.ir import Node, TensorType, picks
from graphc.site import frames_up
from graphc.tensor.core.tensor import Tensor

Shape = tuple[int | None, ...]


class Performed(ByOperation):
    """The ``perform`` of an operation as a function of arrays.

    Attributes:
        shapes: The shapes of the arguments and of the results of the last call.
    """

    shapes: tuple[list[Shape], list[Shape]] | None = None

    def __call__(self, *arrays: Any) -> list[Any]:
        node = self.op.make_node(*[type() for type in self.types])
        self.op.prepare_node(node, None, None, "py")
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        self.op.perform(node, list(arrays), storage)
        pairs = zip(storage, node.outputs, strict=True)
        results = [np.asarray(cell[0], y.type.dtype) for cell, y in pairs]
        self.shapes = [x.shape for x in arrays], [y.shape for y in results]
        return results


@dataclass(frozen=True)
class ResultShapes:
    """The shapes of an operation's results for shapes of the arguments, as far as they are known.

    They are what ``infer_shape`` gives, or else what ``perform`` gives for arrays of ones.
    """

    performed: Performed

    def __call__(self, *shapes: Any) -> list[Shape]:
        node = self.performed.op.make_node(*[type() for type in self.performed.types])
        results: list[Shape] = [y.type.shape for y in node.outputs]
        for infer in (self._infer, self._run):
            if any(None in shape for shape in results):
                with suppress(Exception):  # as for unknown lengths of the arguments
                    results = infer(node, shapes)
        return results

    def _infer(self, node: Any, shapes: Sequence[Any]) -> list[Shape]:
        infer = self.performed.op.infer_shape
        # Older versions pass the graph first. PyTensor's lengths are symbols.
        graph = [None] if len(inspect.signature(infer).parameters) > 2 else []
        results = infer(*graph, node, list(shapes))
        return [tuple(n if isinstance(n, int) else None for n in y) for y in results]

    def _run(self, node: Any, shapes: Sequence[Any]) -> list[Shape]:
        last = self.performed.shapes
        if last is not None and last[0] == [*shapes]:
            return last[1]
        pairs = zip(shapes, self.performed.types, strict=True)
        return [y.shape for y in self.performed(*[np.ones(n, type.dtype) for n, type in pairs])]


def by_perform(at: Application, *xs: Any) -> Any:
    """Convert an operation to a call of its Python code, on every backend.

    The operation defines the gradient. JAX needs the shapes of results: from static shapes, the
    operation's ``infer_shape``, or else from a call with arrays of ones, once for each shape. A
    random variable's ``rng_fn`` is called with a NumPy generator that its key seeds.

    Example:
        ``graphc.interop.pytensor.register(MyOp)(graphc.interop.pytensor.by_perform)``
    """
    if at.inputs and is_generator(at.inputs[0]) and hasattr(at.op, "rng_fn"):
        return _draw(at, *xs)
    if None in [*map(tensor_type, at.inputs), *at.types]:
        raise Refusal("it has no converter, and its inputs and results are not all arrays")
    types = tuple(x.type for x in at.inputs)
    performed = Performed(at.op, types)
    call = _python_call(at, xs, performed, ResultShapes(performed))

    def build(parameters: Sequence[Tensor]) -> list[Any]:
        pairs = zip(parameters, at.inputs, strict=True)
        operands = [in_dtype(x, variable.type.dtype) for x, variable in pairs]
        return list(picks(Node.make(call, *operands)))

    return with_own_pullback(at, xs, build)


_warned: WeakSet[type] = WeakSet()
"""The classes of operations of which a warning has said that their Python code runs."""


def by_perform_of_unknown(at: Application, *xs: Any) -> Any:
    """Convert an operation of another package to a call of its Python code, with a warning."""
    results = by_perform(at, *xs)
    kind = type(getattr(at.op, "core_op", getattr(at.op, "scalar_op", at.op)))
    if kind not in _warned:
        _warned.add(kind)
        warnings.warn(
            f"{kind.__name__} has no converter, so the compiled program calls its Python code: "
            "each call copies its arguments and results between the device and NumPy, a batch "
            "calls it for each element, and nothing around it is fused with it. Write a converter, "
            f"@graphc.interop.pytensor.register({kind.__name__}), or register "
            "graphc.interop.pytensor.by_perform, which does not warn.",
            stacklevel=frames_up(),
        )
    return results


def _python_call(at: Application, xs: Sequence[Tensor], function: Any, shapes: Any) -> PythonCall:
    takes = tuple(TensorType(x.dtype, (None,) * x.ndim) for x in xs)
    gives = tuple(t for t in at.types if t is not None)
    return PythonCall(function, takes, gives, shapes)


@dataclass(frozen=True)
class Drawn:
    """The ``rng_fn`` of a random variable, as a function of a key, a batch and parameters.

    Attributes:
        op: The random variable's operation.
        has_size: Whether there is an array whose shape is the size; else the parameters determine
            the shape of a draw.
    """

    op: Any
    has_size: bool

    def __call__(self, key: Any, *arguments: Any) -> Any:
        size, params = (arguments[0].shape, arguments[1:]) if self.has_size else (None, arguments)
        drawn = self.op.rng_fn(np.random.default_rng(key), *params, size)
        return np.asarray(drawn, self.op.dtype)

    @property
    def __name__(self) -> str:
        return str(self.op)


@dataclass(frozen=True)
class DrawnShape:
    """The shape of a draw, as a function of the shapes of a key, a batch and parameters.

    Attributes:
        drawn: The function that draws.
        core: The lengths of one draw; a draw with arrays of ones has the lengths that are unknown.
        dtypes: The dtypes of the arguments of ``drawn``.
    """

    drawn: Drawn
    core: Shape
    dtypes: tuple[str, ...]

    def __call__(self, *shapes: Shape) -> Shape:
        core = self.core
        if None in core:
            with suppress(Exception):  # as for unknown lengths of the arguments
                core = _shape_of_ones(self, shapes)[-len(core) :]
        if self.drawn.has_size:
            return shapes[1] + core
        pairs = zip(shapes[1:], self.drawn.op.ndims_params, strict=True)
        batches = [shape[: len(shape) - rank] for shape, rank in pairs]
        return (*map(_broadcast_length, *batches), *core)


@lru_cache(64)
def _shape_of_ones(shape: DrawnShape, shapes: Sequence[Any]) -> Shape:
    pairs = zip(shapes, shape.dtypes, strict=True)
    y: Shape = shape.drawn(*[np.ones(n, dtype) for n, dtype in pairs]).shape
    return y


def _broadcast_length(*lengths: int | None) -> int | None:
    candidates = {n for n in lengths if n != 1}
    return candidates.pop() if len(candidates) == 1 else None if candidates else 1


def _draw(at: Application, key: Tensor, size: Any, *parameters: Tensor) -> tuple[Any, Any]:
    following, draw_key = gr.split(key)
    drawn = at.type_of(1)
    core = drawn.shape[drawn.ndim - at.op.ndim_supp :]
    # Backends know the shapes of arrays, and not the values that a shape is.
    batch = [] if size is None else [gt.zeros(lengths(size), dtype="bool")]
    xs = [draw_key, *batch, *parameters]
    function = Drawn(at.op, bool(batch))
    shape = DrawnShape(function, core, tuple([x.dtype for x in xs]))
    (y,) = picks(Node.make(_python_call(at, xs, function, shape), *xs))
    return following, y
