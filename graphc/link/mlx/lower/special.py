"""Special functions in MLX: expanded into basic operations in float64 on the CPU.

MLX has only erf and erfinv, in float32. Apple's GPUs have no float64, but the CPU shares their
memory. A function expands to some hundred operations: fused, they would take the C++ compiler up to
minutes, so they are not fused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.ir import Graph, Node, Op, TensorType
from graphc.link.legalize import inline
from graphc.link.mlx.arrays import device_array, end_of_kernel
from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.elementwise import in_float32
from graphc.link.mlx.lower.reduce import widen_halves
from graphc.link.mlx.segments import SIZES, size_of
from graphc.link.program import Program, Step
from graphc.tensor.core.arithmetic import hypot
from graphc.tensor.core.elementwise import (
    ROWS,
    Cast,
    Elementwise,
    Where,
    abs,
    equal,
    greater,
    isinf,
    less,
    maximum,
    minimum,
    sign,
    sqrt,
    where,
)
from graphc.tensor.core.exponential import exp, expm1
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.core.trigonometric import cos, sin, tan
from graphc.tensor.special.normal import ERF
from graphc.tensor.special.series import WIDE, polynomial
from graphc.tensor.special.special import LogSoftmax, Softmax, erf, erfinv


class UnfusedFunction:
    """A function of graphs as a function of float64 arrays of one axis and one length.

    Its operations are not fused with each other. ``expand`` returns a node or a list of nodes.
    """

    def __init__(self, expand: Callable[..., Any], arity: int) -> None:
        self.expand = expand
        self.arity = arity

    @cached_property
    def program(self) -> Program:
        """The function as a program; all lowerings must be registered before."""
        inputs = [TensorType("float64", (None,))() for _ in range(self.arity)]
        outputs = self.expand(*inputs)
        graph = Graph(inputs, outputs if isinstance(outputs, list) else [outputs])
        return Program(_expand_rows(inline(graph, backend)), backend, None)

    def size(self) -> int:
        """Return the number of operations."""
        return sum(size_of(step.node) for step in self.program.steps)

    def __call__(self, *xs: Any) -> Any:
        results = _UnfusedRun(self.program, xs).results()
        return results if len(results) > 1 else results[0]


class _UnfusedRun:
    """The values of a program for these arguments.

    Attributes:
        wide: Values broadcast to the shapes of the operations that use them.
    """

    def __init__(self, program: Program, xs: Sequence[Any]) -> None:
        self.program = program
        self.values = [*xs, *[None] * (len(program.positions) - len(xs))]
        for index, value in program.constants:
            self.values[index] = value
        self.wide: dict[Any, Any] = {}

    def results(self) -> list[Any]:
        for step in self.program.steps:
            self.values[step.position] = self._compute(step)
        return [self.values[i] for i in self.program.outputs]

    def _compute(self, step: Step) -> Any:
        """Return a step's result outside of fused kernels, from operands of its shape."""
        operands = [self.values[i] for i in step.operands]
        if isinstance(step.node.op, Elementwise | Cast | Where):
            shape = np.broadcast_shapes(*[x.shape for x in operands])
            operands = [self._broadcast(i, shape) for i in step.operands]
        y = step.compute(*operands)
        return end_of_kernel(y) if isinstance(y, mx.array) else y

    def _broadcast(self, index: int, shape: tuple[int, ...]) -> Any:
        """Return a value in another shape, without a copy.

        MLX fuses a broadcast with its consumers, but not the removal of an axis.
        """
        y = self.wide.get((index, shape))
        if y is None:
            x = device_array(self.values[index])
            y = x if x.shape == shape else mx.squeeze(mx.broadcast_to(x, (1, *shape)), 0)
            self.wide[index, shape] = y
        return y


# Rows whose lowerings take several MLX operations, expanded to rows that take one each. As in those
# lowerings, exp, sin and cos use functions that are accurate in float64.


def _plain_exp(x: Tensor) -> Any:
    rise = expm1(abs(x)) + 1
    return where(less(x, 0), 1 / rise, rise)


def _plain_sin(x: Tensor) -> Any:
    t = tan(x / 2)
    return 2 * t / (1 + t * t)


def _plain_cos(x: Tensor) -> Any:
    half, full = tan(x / 2), tan(x)
    square = half * half
    direct = (1 - half) * (1 + half) / (1 + square)
    return where(less(abs(full), 1), direct, 2 * half / (1 + square) / full)


def _plain_hypot(a: Tensor, b: Tensor) -> Any:
    high, low = maximum(abs(a), abs(b)), minimum(abs(a), abs(b))
    ratio = low / where(equal(high, 0), 1, high)
    return where(equal(high, np.inf), high, high * sqrt(1 + ratio * ratio))


EXPANSIONS: dict[Op, Callable[..., Any]] = {
    exp: _plain_exp,
    sin: _plain_sin,
    cos: _plain_cos,
    hypot: _plain_hypot,
    sign: lambda x: where(less(x, 0), -1, where(greater(x, 0), 1, x)),
    isinf: lambda x: equal(abs(x), np.inf),
}


def _expand_rows(graph: Graph) -> Graph:
    done: dict[Node, Node] = {x: x for x in graph.inputs}
    for node in graph.nodes:
        if node not in done:
            inputs = [done[x] for x in node.inputs]
            plain = EXPANSIONS.get(node.op) if isinstance(node.op, Elementwise) else None
            done[node] = plain(*inputs) if plain else node.with_inputs(inputs)
    return Graph(graph.inputs, [done[y] for y in graph.outputs])


def enter_in_float64(row: Elementwise, compute: Callable[..., Any]) -> None:
    """Enter a lowering that computes in float64 on the CPU, whatever the operands' dtype.

    The operands of ``compute`` have one axis and one length.
    """

    def lowering(op: Elementwise, *xs: Any) -> Any:
        dtype = xs[0].dtype
        shape = mx.broadcast_shapes(*[x.shape for x in xs])
        with mx.stream(mx.cpu):
            operands = [mx.broadcast_to(x, shape).reshape(-1).astype(mx.float64) for x in xs]
            return compute(*operands).astype(dtype).reshape(shape)

    backend.lower(row)(lowering)


def enter_for_narrow_floats(row: Elementwise, narrow: Callable[[Any], Any]) -> None:
    """Enter another lowering for narrower floats, which computes on their device."""
    exact = backend.lowerings[row]
    single = in_float32(narrow)
    backend.lower(row)(lambda op, x: exact(op, x) if x.dtype == mx.float64 else single(x))


for _row in ROWS.values():
    if _row.expand in WIDE:
        assert _row.expand is not None
        _function = UnfusedFunction(_row.expand, _row.arity)
        enter_in_float64(_row, _function)
        SIZES[_row] = _function.size


def _erf(x: Any) -> Any:
    """Return MLX's erf for ``|x| >= 1``, where its error is 1e-7; else a polynomial, to 3e-7."""
    near = mx.less(mx.abs(x), 1)
    z = mx.where(near, x, 0)
    return mx.where(near, z * polynomial(2 * z * z - 1, ERF[:9]), mx.erf(x))


enter_for_narrow_floats(erf, _erf)
enter_for_narrow_floats(erfinv, mx.erfinv)


@backend.lower(Softmax)
def softmax(op: Softmax, x: Any) -> Any:
    """Return the softmax in one pass, computed in float32."""
    return mx.softmax(x, op.axes, precise=True)


@backend.lower(LogSoftmax)
def log_softmax(op: LogSoftmax, x: Any) -> Any:
    """Return ``log(softmax(x))``; subtract the maximum first, to keep the digits."""
    if not x.size:
        return x
    wide = widen_halves(x)
    shifted = wide - mx.max(wide, op.axes, keepdims=True)
    return (shifted - mx.logsumexp(shifted, op.axes, keepdims=True)).astype(x.dtype)
