"""graphc's graphs as operations of PyTensor, whose derivatives are such operations too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, grad_undefined
from pytensor.graph.basic import Apply
from pytensor.link.jax.ops import JAXOp
from pytensor.tensor.shape import Shape_i
from pytensor.tensor.type import TensorType as PytensorType

from graphc.compile.function import Function, function
from graphc.compile.mode import Mode, get_mode
from graphc.errors import (
    ArgumentError,
    DTypeError,
    GradientError,
    ShapeError,
    UnsupportedOperationError,
)
from graphc.grad.forward import push
from graphc.grad.reverse import cotangents, sum_by_node, typed_like
from graphc.interop.pytensor import forks
from graphc.interop.pytensor.application import Application
from graphc.interop.pytensor.table import register
from graphc.interop.pytensor.variables import describe, is_variable, tensor_type
from graphc.ir import Graph, Node, TensorType, is_inexact, replace_nodes, toposort
from graphc.rewrite.facts.lengths import length_of
from graphc.tensor.core.assertion import CheckAndRaise
from graphc.tensor.core.shape import Length
from graphc.tensor.core.tensor import Tensor

T = TypeVar("T")

NO_GRADIENT = (GradientError, UnsupportedOperationError)
"""Errors of missing derivatives, which are reported only if the derivative is needed."""


class GraphcOp(JAXOp):  # type: ignore[misc]
    """A graph of graphc as an operation of PyTensor.

    Operations of equal graphs and modes are equal, so that PyTensor merges them. A ``JAXOp`` has a
    ``perform_jax`` for PyTensor's JAX linker without a registration, which would import the linker
    and change JAX's settings.

    Attributes:
        graph: A graph of arrays alone, whose shared variables are among the inputs.
        mode: Where the graph runs, except in the JAX linker.
    """

    __props__ = ("graph", "written")

    def __init__(self, graph: Graph, mode: Mode, name: str) -> None:
        # JAXOp.__init__ would compile a JAX function.
        self.graph = graph
        self.mode = mode
        self.name = name
        self._derived: dict[Any, Any] = {}

    @property
    def written(self) -> str:
        """The parts of the mode that programs depend on."""
        return self.mode.written

    def __copy__(self) -> GraphcOp:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphcOp:
        return self

    def __str__(self) -> str:
        return f"graphc({self.name})"

    def _memoize(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    # Types.

    def make_node(self, *inputs: Any) -> Any:
        """Apply the operation to variables of the types of its inputs.

        Raises:
            ArgumentError: If there are too many or few variables, or one is no array.
            DTypeError: If one has another dtype.
            ShapeError: If one has another rank or known length.
        """
        parameters = self.graph.inputs
        if len(inputs) != len(parameters):
            raise ArgumentError(f"{self} takes {len(parameters)} arrays and got {len(inputs)}.")
        shapes = tuple(_lengths(x, y) for x, y in zip(parameters, inputs, strict=True))
        types = self._memoize(shapes, lambda: self._output_types(shapes))
        arrays = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, arrays, [pytensor_type(t)() for t in types])

    def _output_types(self, shapes: Sequence[tuple[int | None, ...]]) -> list[TensorType]:
        parameters = self.graph.inputs
        swaps = {x: x.type.with_shape(n)(x.name) for x, n in zip(parameters, shapes, strict=True)}
        swaps = {x: y for x, y in swaps.items() if x.type is not y.type}
        return [y.type for y in replace_nodes(self.graph.outputs, swaps)]

    def infer_shape(self, *arguments: Any) -> list[tuple[Any, ...]]:
        """Return the lengths of the results, as lengths of inputs and numbers where possible."""
        node, shapes = arguments[-2:]  # older versions pass the graph first
        return [
            tuple(self._length(node, shapes, i, axis) for axis in range(y.type.ndim))
            for i, y in enumerate(node.outputs)
        ]

    def _length(self, node: Any, shapes: Sequence[Any], index: int, axis: int) -> Any:
        y = node.outputs[index]
        n: Any = y.type.shape[axis]
        n = length_of(self.graph.outputs[index], axis) if n is None else n
        if isinstance(n, int):
            return pt.constant(n, dtype="int64")
        if isinstance(n.op, Length) and n.inputs[0] in self.graph.inputs:
            return shapes[self.graph.inputs.index(n.inputs[0])][n.op.axis]
        return Shape_i(axis)(y)

    # Values.

    @cached_property
    def function(self) -> Function:
        """The compiled graph."""
        return self._compile(self.mode)

    @cached_property
    def _run(self) -> Callable[..., Any]:
        """The compiled graph, bound to one process where the backend has threads."""
        backend = self.mode.backend
        return self.function if backend.eager else forks.check_process(self.function, backend.name)

    @cached_property
    def jax_function(self) -> Callable[..., Any]:
        """The graph as a function that JAX transforms."""
        is_jax = self.mode.name == "JAX"
        return (self.function if is_jax else self._compile(get_mode("JAX"))).pure

    def _compile(self, mode: Mode) -> Function:
        return function(
            list(self.graph.inputs),
            list(self.graph.outputs),
            mode=mode,
            on_unused_input="ignore",
            returns="numpy",
            name=str(self),
        )

    def perform(self, node: Any, inputs: Sequence[Any], outputs: Sequence[list[Any]]) -> None:
        """Run the graph by its mode.

        Raises:
            ModeError: If the process was forked after the graph ran on JAX or MLX.
        """
        for cell, y in zip(outputs, self._run(*inputs), strict=True):
            # A copy: PyTensor may write into it, and y may be an argument or a backend's buffer.
            cell[0] = np.array(y)

    def perform_jax(self, *inputs: Any) -> Any:
        """Return JAX's results while JAX traces."""
        if _has_checks(self.graph):
            warnings.warn(
                f"{self} checks conditions, which PyTensor's JAX linker leaves out, as it does "
                "its own.",
                stacklevel=2,
            )
        results = self.jax_function(*inputs)
        return results[0] if len(results) == 1 else tuple(results)

    # Derivatives.

    @cached_property
    def _pattern(self) -> list[list[bool]]:
        """For each input and each output: whether a cotangent of the output reaches the input."""
        xs, ys = self.graph.inputs, self.graph.outputs
        inexact = [is_inexact(y.type.dtype) for y in ys]
        columns = [
            _cotangents({y: typed_like(y, "g")}, xs) if has else [None] * len(xs)
            for y, has in zip(ys, inexact, strict=True)
        ]
        return [[column[i] is not None for column in columns] for i in range(len(xs))]

    def connection_pattern(self, node: Any) -> list[list[bool]]:
        """Return whether a derivative exists, for each input and each output."""
        return self._pattern

    def pullback(
        self, inputs: Sequence[Any], outputs: Sequence[Any], gradients: Sequence[Any]
    ) -> list[Any]:
        """Return the cotangents of the inputs, from an operation of graphc's gradient."""
        connected = _inexact(self.graph.outputs, gradients)
        ins, cotangents = self._memoize(
            ("pulled", *connected), lambda: self._pullback_graph(connected)
        )
        wanted = [g for g in cotangents if isinstance(g, Node)]
        applied = iter(apply_graph(ins, wanted, [*inputs, *connected.values()], self.mode))
        result = []
        for i, (x, g) in enumerate(zip(inputs, cotangents, strict=True)):
            if isinstance(g, NO_GRADIENT):
                result.append(grad_undefined(self, i, x, str(g)))
            else:
                result.append(DisconnectedType()() if g is None else next(applied))
        return result

    def _pullback_graph(self, indices: Iterable[int]) -> tuple[list[Node], list[Any]]:
        xs, ys = self.graph.inputs, self.graph.outputs
        gs = {i: typed_like(ys[i], f"gradient{i}") for i in indices}
        cotangents = sum_by_node((ys[i], g) for i, g in gs.items())
        return [*xs, *gs.values()], _cotangents(cotangents, xs)

    def L_op(self, inputs: Any, outputs: Any, gradients: Any) -> Any:  # noqa: N802
        """Return ``pullback``, by the name in older versions."""
        return self.pullback(inputs, outputs, gradients)

    def pushforward(
        self, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]
    ) -> list[Any]:
        """Return the tangents of the outputs, from an operation."""
        connected = _inexact(self.graph.inputs, tangents)
        ins, results = self._memoize(
            ("pushed", *connected), lambda: self._pushforward_graph(connected)
        )
        wanted = [t for t in results if t is not None]
        applied = iter(apply_graph(ins, wanted, [*inputs, *connected.values()], self.mode))
        return [DisconnectedType()() if t is None else next(applied) for t in results]

    def _pushforward_graph(self, indices: Iterable[int]) -> tuple[list[Node], list[Any]]:
        xs = self.graph.inputs
        ts = {i: typed_like(xs[i], f"tangent{i}") for i in indices}
        results = push(self.graph.outputs, {xs[i]: t for i, t in ts.items()})
        return [*xs, *ts.values()], results

    def R_op(self, inputs: Any, eval_points: Any) -> Any:  # noqa: N802
        """Return ``pushforward``, by the name in older versions; None if disconnected."""
        tangents = [DisconnectedType()() if t is None else t for t in eval_points]
        results = self.pushforward(inputs, self.make_node(*inputs).outputs, tangents)
        return [None if isinstance(t.type, DisconnectedType) else t for t in results]


_numbered: WeakValueDictionary[Any, Node] = WeakValueDictionary()
_operations: WeakValueDictionary[Any, GraphcOp] = WeakValueDictionary()


def operation(inputs: Sequence[Node], outputs: Sequence[Node], mode: Mode, name: str) -> GraphcOp:
    """Return the operation of a graph; equal graphs with equal types and names share one."""
    parameters = [_parameter(i, x) for i, x in enumerate(inputs)]
    graph = Graph(parameters, replace_nodes(outputs, dict(zip(inputs, parameters, strict=True))))
    op = GraphcOp(graph, mode, name)
    # The values of captured arrays are read at compilation, so such operations are not shared.
    return op if graph.leaves else _intern(_operations, (graph, mode.written), lambda: op)


def _parameter(i: int, x: Node) -> Node:
    return _intern(_numbered, (i, x.type, x.name), lambda: Node.input(x.type, x.name))


def _intern(cache: WeakValueDictionary[Any, T], key: Any, make: Callable[[], T]) -> T:
    value = cache.get(key)
    return cache.setdefault(key, make()) if value is None else value


def apply_graph(
    inputs: Sequence[Node], outputs: Sequence[Node], variables: Sequence[Any], mode: Mode
) -> list[Any]:
    """Apply the operation of a graph to variables, without unused inputs."""
    if not outputs:
        return []
    needed = {x for node in toposort(outputs, inputs) for x in node.inputs}.union(outputs)
    pairs = [(x, v) for x, v in zip(inputs, variables, strict=True) if x in needed]
    name = ", ".join(str(y.name or y.op.name) for y in outputs)
    op = operation([x for x, _ in pairs], outputs, mode, name)
    return op.make_node(*[v for _, v in pairs]).outputs  # type: ignore[no-any-return]


def pytensor_type(type: TensorType) -> Any:
    """Return PyTensor's type for one of graphc's.

    Raises:
        DTypeError: If PyTensor lacks the dtype.
    """
    try:
        return PytensorType(type.dtype, type.shape)
    except TypeError as error:
        raise DTypeError(
            f"to_pytensor: PyTensor has no arrays of {type!r}.",
            "Cast it: .astype('float32') is exact for narrower floats.",
        ) from error


def _lengths(x: Node, variable: Any) -> tuple[int | None, ...]:
    """Check that a variable can replace an input, and return their known lengths."""
    if not is_variable(variable):
        raise ArgumentError(f"{variable!r} is no variable of PyTensor.", "Give pt.as_tensor(it).")
    type = tensor_type(variable)
    problem = f"to_pytensor: {describe(variable)} is given for {x!r}"
    if type is None:
        raise ArgumentError(f"{problem}, which is an array.", "Give a variable of dense arrays.")
    if type.dtype != x.type.dtype:
        raise DTypeError(f"{problem}, of another dtype.", f"Cast it: .astype({x.type.dtype!r}).")
    pairs = [*zip(x.type.shape, type.shape, strict=False)]
    if type.ndim != x.type.ndim or any(n != m and None not in {n, m} for n, m in pairs):
        raise ShapeError(f"{problem}, of another shape.", "Reshape, squeeze or index it.")
    return tuple(m if n is None else n for n, m in pairs)


def _has_checks(graph: Graph) -> bool:
    ops = [node.op for node in graph.nodes]
    return any(isinstance(op, CheckAndRaise) or any(map(_has_checks, op.graphs())) for op in ops)


def _inexact(xs: Sequence[Node], gs: Sequence[Any]) -> dict[int, Any]:
    return {
        i: g
        for i, (x, g) in enumerate(zip(xs, gs, strict=True))
        if is_inexact(x.type.dtype) and tensor_type(g) is not None
    }


def _cotangents(gs: Mapping[Node, Tensor], xs: Sequence[Node]) -> list[Any]:
    """Return the cotangents of arrays: None if none arrives, an error if there is none."""
    wanted = [x for x in xs if is_inexact(x.type.dtype)]
    try:
        result: list[Any] = [*cotangents(gs, wanted)]
    except NO_GRADIENT:
        result = [_cotangent(gs, x) for x in wanted]
    by_input = dict(zip(wanted, result, strict=True))
    return [by_input.get(x) for x in xs]


def _cotangent(gs: Mapping[Node, Tensor], x: Node) -> Any:
    try:
        return cotangents(gs, [x])[0]
    except NO_GRADIENT as error:
        return error


@register(GraphcOp)
def inline(at: Application, *xs: Tensor) -> list[Node]:
    """Inline the graph, so that modes of graphc rewrite and compile it with the rest."""
    graph = at.op.graph
    return replace_nodes(graph.outputs, dict(zip(graph.inputs, xs, strict=True)))
