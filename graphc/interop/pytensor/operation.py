"""graphc's graphs as operations of PyTensor, with derivatives that are such operations again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
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
from graphc.grad.reverse import cotangents, summed, typed_like
from graphc.interop.pytensor import forks
from graphc.interop.pytensor.application import Application
from graphc.interop.pytensor.table import register
from graphc.interop.pytensor.variables import is_variable, named, tensor_type
from graphc.ir import Graph, Node, TensorType, is_inexact, replaced, toposort
from graphc.rewrite.facts.lengths import length_of
from graphc.tensor.core.assertion import CheckAndRaise
from graphc.tensor.core.shape import Length
from graphc.tensor.core.tensor import Tensor

T = TypeVar("T")

NO_GRADIENT = (GradientError, UnsupportedOperationError)
"""Errors of derivatives that do not exist, which nobody may need."""


class GraphcOp(JAXOp):  # type: ignore[misc]
    """A graph of graphc as an operation of PyTensor.

    Operations of equal graphs and modes are equal, and so merged by PyTensor. It is a ``JAXOp``, so
    that PyTensor's JAX linker finds ``perform_jax`` without anything being registered: that would
    import the linker, which changes JAX's settings.

    Attributes:
        graph: A graph of arrays alone, whose shared variables are among the inputs.
        mode: Where it runs, except in the JAX linker.
    """

    __props__ = ("graph", "written")

    def __init__(self, graph: Graph, mode: Mode, name: str) -> None:
        # Not JAXOp's, which compiles a JAX function.
        self.graph = graph
        self.mode = mode
        self.name = name
        self._derived: dict[Any, Any] = {}

    @property
    def written(self) -> str:
        """The mode, as far as programs depend on it."""
        return self.mode.written

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.graph, self.mode, self.name)

    def __copy__(self) -> GraphcOp:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphcOp:
        return self

    def __str__(self) -> str:
        return f"graphc({self.name})"

    def _kept(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    # Types.

    def make_node(self, *inputs: Any) -> Any:
        """Apply it to variables of the types of its inputs.

        Raises:
            ArgumentError: A wrong number of them, or what is no variable of arrays.
            DTypeError: One of another dtype.
            ShapeError: One of another rank or known length.
        """
        own = self.graph.inputs
        if len(inputs) != len(own):
            raise ArgumentError(f"{self} takes {len(own)} arrays and got {len(inputs)}.")
        shapes = tuple(_lengths(x, y) for x, y in zip(own, inputs, strict=True))
        types = self._kept(shapes, lambda: self._results(shapes))
        arrays = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, arrays, [own_type(t)() for t in types])

    def _results(self, shapes: Sequence[tuple[int | None, ...]]) -> list[TensorType]:
        """The types of the outputs for inputs of which more may be known."""
        own = self.graph.inputs
        swaps = {x: x.type.with_shape(n)(x.name) for x, n in zip(own, shapes, strict=True)}
        swaps = {x: y for x, y in swaps.items() if x.type is not y.type}
        return [y.type for y in replaced(self.graph.outputs, swaps)]

    def infer_shape(self, *arguments: Any) -> list[tuple[Any, ...]]:
        """The lengths of the results: those of inputs and numbers, where they are no others."""
        node, shapes = arguments[-2:]  # older versions pass the graph first
        return [
            tuple(self._length(node, shapes, i, axis) for axis in range(y.type.ndim))
            for i, y in enumerate(node.outputs)
        ]

    def _length(self, node: Any, shapes: Sequence[Any], place: int, axis: int) -> Any:
        y = node.outputs[place]
        found: Any = y.type.shape[axis]
        found = length_of(self.graph.outputs[place], axis) if found is None else found
        if isinstance(found, int):
            return pt.constant(found, dtype="int64")
        if isinstance(found.op, Length) and found.inputs[0] in self.graph.inputs:
            return shapes[self.graph.inputs.index(found.inputs[0])][found.op.axis]
        return Shape_i(axis)(y)

    # Values.

    @cached_property
    def function(self) -> Function:
        """The graph, compiled."""
        return self._compiled(self.mode)

    @cached_property
    def _run(self) -> Callable[..., Any]:
        """The same for one process, where the backend has threads."""
        backend = self.mode.backend
        return self.function if backend.eager else forks.checked(self.function, backend.name)

    @cached_property
    def jax_function(self) -> Callable[..., Any]:
        """The same as a function that JAX transforms."""
        is_own = self.mode.name == "JAX"
        return (self.function if is_own else self._compiled(get_mode("JAX"))).pure

    def _compiled(self, mode: Mode) -> Function:
        return function(
            list(self.graph.inputs),
            list(self.graph.outputs),
            mode=mode,
            on_unused_input="ignore",
            returns="numpy",
            name=str(self),
        )

    def perform(self, node: Any, inputs: Sequence[Any], outputs: Sequence[list[Any]]) -> None:
        """Run it by its mode.

        Raises:
            ModeError: The process was forked after it ran on JAX or MLX.
        """
        for cell, y in zip(outputs, self._run(*inputs), strict=True):
            # A copy: PyTensor may write into it, and it may be an argument or a backend's buffer.
            cell[0] = np.array(y)

    def perform_jax(self, *inputs: Any) -> Any:
        """Run it while JAX traces."""
        if _has_checks(self.graph):
            warnings.warn(
                f"{self} checks conditions, which PyTensor's JAX linker leaves out, as it does "
                "its own.",
                stacklevel=2,
            )
        found = self.jax_function(*inputs)
        return found[0] if len(found) == 1 else tuple(found)

    # Derivatives.

    @cached_property
    def _pattern(self) -> list[list[bool]]:
        """For each input and each output: whether a cotangent of the one arrives at the other."""
        xs, ys = self.graph.inputs, self.graph.outputs
        inexact = [is_inexact(y.type.dtype) for y in ys]
        columns = [
            _cotangents({y: typed_like(y, "g")}, xs) if has else [None] * len(xs)
            for y, has in zip(ys, inexact, strict=True)
        ]
        return [[column[i] is not None for column in columns] for i in range(len(xs))]

    def connection_pattern(self, node: Any) -> list[list[bool]]:
        """Whether a derivative exists, for each input and each output."""
        return self._pattern

    def pullback(
        self, inputs: Sequence[Any], outputs: Sequence[Any], gradients: Sequence[Any]
    ) -> list[Any]:
        """The cotangents of the inputs: graphc's gradient, as an operation."""
        known = _inexact(self.graph.outputs, gradients)
        given, found = self._kept(("pulled", *known), lambda: self._pulled(known))
        wanted = [g for g in found if isinstance(g, Node)]
        made = iter(applied(given, wanted, [*inputs, *known.values()], self.mode))
        result = []
        for i, (x, g) in enumerate(zip(inputs, found, strict=True)):
            if isinstance(g, NO_GRADIENT):
                result.append(grad_undefined(self, i, x, str(g)))
            else:
                result.append(DisconnectedType()() if g is None else next(made))
        return result

    def _pulled(self, given: Iterable[int]) -> tuple[list[Node], list[Any]]:
        """What a gradient is a function of, and the gradients."""
        xs, ys = self.graph.inputs, self.graph.outputs
        gs = {i: typed_like(ys[i], f"gradient{i}") for i in given}
        known = summed((ys[i], g) for i, g in gs.items())
        return [*xs, *gs.values()], _cotangents(known, xs)

    def L_op(self, inputs: Any, outputs: Any, gradients: Any) -> Any:  # noqa: N802
        """The same, by the name in older versions."""
        return self.pullback(inputs, outputs, gradients)

    def pushforward(
        self, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]
    ) -> list[Any]:
        """The tangents of the outputs, as an operation."""
        known = _inexact(self.graph.inputs, tangents)
        given, found = self._kept(("pushed", *known), lambda: self._pushed(known))
        wanted = [t for t in found if t is not None]
        made = iter(applied(given, wanted, [*inputs, *known.values()], self.mode))
        return [DisconnectedType()() if t is None else next(made) for t in found]

    def _pushed(self, moved: Iterable[int]) -> tuple[list[Node], list[Any]]:
        xs = self.graph.inputs
        ts = {i: typed_like(xs[i], f"tangent{i}") for i in moved}
        found = push(self.graph.outputs, {xs[i]: t for i, t in ts.items()})
        return [*xs, *ts.values()], found

    def R_op(self, inputs: Any, eval_points: Any) -> Any:  # noqa: N802
        """The same, by the name in older versions, which have None for what is disconnected."""
        tangents = [DisconnectedType()() if t is None else t for t in eval_points]
        found = self.pushforward(inputs, self.make_node(*inputs).outputs, tangents)
        return [None if isinstance(t.type, DisconnectedType) else t for t in found]


_numbered: WeakValueDictionary[Any, Node] = WeakValueDictionary()
_operations: WeakValueDictionary[Any, GraphcOp] = WeakValueDictionary()


def operation(inputs: Sequence[Node], outputs: Sequence[Node], mode: Mode, name: str) -> GraphcOp:
    """The operation of a graph; equal graphs with inputs of equal types and names have one."""
    own = [_parameter(i, x) for i, x in enumerate(inputs)]
    graph = Graph(own, replaced(outputs, dict(zip(inputs, own, strict=True))))
    made = GraphcOp(graph, mode, name)
    # One with captured arrays has the values that they have when it is compiled, not before.
    return made if graph.leaves else _once(_operations, (graph, mode.written), lambda: made)


def _parameter(place: int, x: Node) -> Node:
    return _once(_numbered, (place, x.type, x.name), lambda: Node.input(x.type, x.name))


def _unpickled(graph: Graph, mode: Mode, name: str) -> GraphcOp:
    # As where it was pickled; nothing else may import them in this process.
    import_module("graphc.interop.pytensor.rewrites")
    return operation(graph.inputs, graph.outputs, mode, name)


def _once(made: WeakValueDictionary[Any, T], key: Any, make: Callable[[], T]) -> T:
    known = made.get(key)
    return made.setdefault(key, make()) if known is None else known


def applied(
    inputs: Sequence[Node], outputs: Sequence[Node], variables: Sequence[Any], mode: Mode
) -> list[Any]:
    """Apply the operation of a graph to variables, without those that nothing needs."""
    if not outputs:
        return []
    needed = {x for node in toposort(outputs, inputs) for x in node.inputs}.union(outputs)
    pairs = [(x, v) for x, v in zip(inputs, variables, strict=True) if x in needed]
    name = ", ".join(str(y.name or y.op.name) for y in outputs)
    op = operation([x for x, _ in pairs], outputs, mode, name)
    return op.make_node(*[v for _, v in pairs]).outputs  # type: ignore[no-any-return]


def own_type(type: TensorType) -> Any:
    """PyTensor's type for one of graphc's.

    Raises:
        DTypeError: PyTensor has no such dtype.
    """
    try:
        return PytensorType(type.dtype, type.shape)
    except TypeError as error:
        raise DTypeError(
            f"to_pytensor: PyTensor has no arrays of {type!r}.",
            "Cast it: .astype('float32') is exact for narrower floats.",
        ) from error


def _lengths(x: Node, variable: Any) -> tuple[int | None, ...]:
    """What is known of an input's lengths where a variable stands for it."""
    if not is_variable(variable):
        raise ArgumentError(f"{variable!r} is no variable of PyTensor.", "Give pt.as_tensor(it).")
    given = tensor_type(variable)
    what = f"to_pytensor: {named(variable)} is given for {x!r}"
    if given is None:
        raise ArgumentError(f"{what}, which is an array.", "Give a variable of dense arrays.")
    if given.dtype != x.type.dtype:
        raise DTypeError(f"{what}, of another dtype.", f"Cast it: .astype({x.type.dtype!r}).")
    pairs = [*zip(x.type.shape, given.shape, strict=False)]
    if given.ndim != x.type.ndim or any(n != m and None not in {n, m} for n, m in pairs):
        raise ShapeError(f"{what}, of another shape.", "Reshape, squeeze or index it.")
    return tuple(m if n is None else n for n, m in pairs)


def _has_checks(graph: Graph) -> bool:
    """Whether a graph, or one that it holds, checks conditions."""
    ops = [node.op for node in graph.nodes]
    return any(isinstance(op, CheckAndRaise) or any(map(_has_checks, op.graphs())) for op in ops)


def _inexact(xs: Sequence[Node], given: Sequence[Any]) -> dict[int, Any]:
    """The tangents or cotangents that there are, by place."""
    return {
        i: g
        for i, (x, g) in enumerate(zip(xs, given, strict=True))
        if is_inexact(x.type.dtype) and tensor_type(g) is not None
    }


def _cotangents(known: Mapping[Node, Tensor], xs: Sequence[Node]) -> list[Any]:
    """The cotangents of arrays; None where none arrives, an error where there is none."""
    wanted = [x for x in xs if is_inexact(x.type.dtype)]
    try:
        found: list[Any] = [*cotangents(known, wanted)]
    except NO_GRADIENT:
        found = [_cotangent(known, x) for x in wanted]
    by_input = dict(zip(wanted, found, strict=True))
    return [by_input.get(x) for x in xs]


def _cotangent(known: Mapping[Node, Tensor], x: Node) -> Any:
    try:
        return cotangents(known, [x])[0]
    except NO_GRADIENT as error:
        return error


@register(GraphcOp)
def inlined(at: Application, *xs: Tensor) -> list[Node]:
    """The graph itself, so that modes of graphc rewrite and compile it with the rest."""
    graph = at.op.graph
    return replaced(graph.outputs, dict(zip(graph.inputs, xs, strict=True)))
