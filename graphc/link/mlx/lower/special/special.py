"""Functions of statistics and physics in MLX: what they are made of, in float64, on the CPU.

MLX has erf and erfinv alone, and those for float32. On Apple's GPUs there is no float64, but the
CPU reads and writes the same memory. A function is some hundred operations: fused, they would take
the C++ compiler up to minutes. So each stands alone.
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
from graphc.link.mlx.lower.arrays.reduce import in_wide_floats
from graphc.link.mlx.lower.core.elementwise import in_float32
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


class Apart:
    """A function of graphs as one of float64 arrays of one axis and one length.

    Its operations are not fused with each other.

    Attributes:
        expand: Takes nodes, and gives one or a list of them.
        arity: How many.
    """

    def __init__(self, expand: Callable[..., Any], arity: int) -> None:
        self.expand = expand
        self.arity = arity

    @cached_property
    def program(self) -> Program:
        """The function as a program; it can be made once all lowerings are known."""
        inputs = [TensorType("float64", (None,))() for _ in range(self.arity)]
        found = self.expand(*inputs)
        graph = Graph(inputs, found if isinstance(found, list) else [found])
        return Program(_in_plain_rows(inline(graph, backend)), backend, None)

    def size(self) -> int:
        """The number of operations in it."""
        return sum(size_of(step.node) for step in self.program.steps)

    def __call__(self, *xs: Any) -> Any:
        found = _Run(self.program, xs).results()
        return found if len(found) > 1 else found[0]


class _Run:
    """The values of a program for these arguments.

    Attributes:
        wide: Values in the shapes of what they have been operands of.
    """

    def __init__(self, program: Program, xs: Sequence[Any]) -> None:
        self.program = program
        self.values = [*xs, *[None] * (len(program.places) - len(xs))]
        for place, value in program.constants:
            self.values[place] = value
        self.wide: dict[Any, Any] = {}

    def results(self) -> list[Any]:
        for step in self.program.steps:
            self.values[step.place] = self._apart(step)
        return [self.values[i] for i in self.program.outputs]

    def _apart(self, step: Step) -> Any:
        """A step's result outside of fused kernels: its operands have its shape already."""
        operands = [self.values[i] for i in step.operands]
        if isinstance(step.node.op, Elementwise | Cast | Where):
            shape = np.broadcast_shapes(*[x.shape for x in operands])
            operands = [self._repeated(i, shape) for i in step.operands]
        y = step.compute(*operands)
        return end_of_kernel(y) if isinstance(y, mx.array) else y

    def _repeated(self, place: int, shape: tuple[int, ...]) -> Any:
        """A value in another shape, without a copy.

        MLX fuses what broadcasts with its consumers, but not what takes away an axis.
        """
        found = self.wide.get((place, shape))
        if found is None:
            x = device_array(self.values[place])
            found = x if x.shape == shape else mx.squeeze(mx.broadcast_to(x, (1, *shape)), 0)
            self.wide[place, shape] = found
        return found


# Rows whose lowerings are several operations of MLX, in rows that are one each. As there, e ** x,
# the sine and the cosine go by what is exact in float64.


def _plain_exp(x: Tensor) -> Any:
    rise = expm1(abs(x)) + 1
    return where(less(x, 0), 1 / rise, rise)


def _plain_sin(x: Tensor) -> Any:
    t = tan(x / 2)
    return 2 * t / (1 + t * t)


def _plain_cos(x: Tensor) -> Any:
    half, whole = tan(x / 2), tan(x)
    square = half * half
    direct = (1 - half) * (1 + half) / (1 + square)
    return where(less(abs(whole), 1), direct, 2 * half / (1 + square) / whole)


def _plain_hypot(a: Tensor, b: Tensor) -> Any:
    high, low = maximum(abs(a), abs(b)), minimum(abs(a), abs(b))
    ratio = low / where(equal(high, 0), 1, high)
    return where(equal(high, np.inf), high, high * sqrt(1 + ratio * ratio))


def _plain_sign(x: Tensor) -> Any:
    return where(less(x, 0), -1, where(greater(x, 0), 1, x))


def _plain_isinf(x: Tensor) -> Any:
    return equal(abs(x), np.inf)


PLAIN: dict[Op, Callable[..., Any]] = {
    exp: _plain_exp,
    sin: _plain_sin,
    cos: _plain_cos,
    hypot: _plain_hypot,
    sign: _plain_sign,
    isinf: _plain_isinf,
}


def _in_plain_rows(graph: Graph) -> Graph:
    done: dict[Node, Node] = {x: x for x in graph.inputs}
    for node in graph.nodes:
        if node not in done:
            inputs = [done[x] for x in node.inputs]
            plain = PLAIN.get(node.op) if isinstance(node.op, Elementwise) else None
            done[node] = plain(*inputs) if plain else node.with_inputs(inputs)
    return Graph(graph.inputs, [done[y] for y in graph.outputs])


def in_float64(row: Elementwise, compute: Callable[..., Any]) -> None:
    """Enter a lowering that computes in float64 on the CPU, whatever the operands' dtype.

    Args:
        row: The row.
        compute: Takes float64 arrays of one axis and one length, and gives one.
    """

    def lowered(op: Elementwise, *xs: Any) -> Any:
        dtype = xs[0].dtype
        shape = mx.broadcast_shapes(*[x.shape for x in xs])
        with mx.stream(mx.cpu):
            wide = [mx.broadcast_to(x, shape).reshape(-1).astype(mx.float64) for x in xs]
            return compute(*wide).astype(dtype).reshape(shape)

    backend.lower(row)(lowered)


def in_either(row: Elementwise, narrow: Callable[[Any], Any]) -> None:
    """Enter beside that one another for narrower floats, which computes where they are."""
    exact = backend.lowerings[row]
    single = in_float32(narrow)
    backend.lower(row)(lambda op, x: exact(op, x) if x.dtype == mx.float64 else single(x))


for _row in ROWS.values():
    if _row.expand in WIDE:
        assert _row.expand is not None
        _apart = Apart(_row.expand, _row.arity)
        in_float64(_row, _apart)
        SIZES[_row] = _apart.size


def _erf(x: Any) -> Any:
    """MLX's for |x| >= 1, where it is exact to 1e-7; relative error 3e-7."""
    near = mx.less(mx.abs(x), 1)
    z = mx.where(near, x, 0)
    return mx.where(near, z * polynomial(2 * z * z - 1, ERF[:9]), mx.erf(x))


in_either(erf, _erf)
in_either(erfinv, mx.erfinv)


@backend.lower(Softmax)
def softmax(op: Softmax, x: Any) -> Any:
    """In float32 within, in one pass."""
    return mx.softmax(x, op.axes, precise=True)


@backend.lower(LogSoftmax)
def log_softmax(op: LogSoftmax, x: Any) -> Any:
    """The largest is taken out first, so that no digits are lost beside it."""
    if not x.size:
        return x
    wide = in_wide_floats(x)
    shifted = wide - mx.max(wide, op.axes, keepdims=True)
    return (shifted - mx.logsumexp(shifted, op.axes, keepdims=True)).astype(x.dtype)
