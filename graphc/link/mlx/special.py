"""Functions of statistics and physics in MLX: what they are made of, in float64, on the CPU.

MLX has erf and erfinv alone, and those for float32. On Apple's GPUs there is no float64, but the
CPU reads and writes the same memory. A function is some hundred operations: fused, they would take
the C++ compiler up to minutes. So each stands alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import mlx.core as mx

from graphc.ir import Graph, TensorType
from graphc.link.legalize import inline
from graphc.link.mlx.arrays import device_array
from graphc.link.mlx.backend import backend
from graphc.link.mlx.elementwise import in_float32
from graphc.link.mlx.reduce import in_wide_floats
from graphc.link.program import Program, Step
from graphc.tensor.elementwise import ROWS, Cast, Elementwise, Where
from graphc.tensor.normal import ERF
from graphc.tensor.series import WIDE, polynomial
from graphc.tensor.special import LogSoftmax, Softmax, erf, erfinv

__all__ = ["in_float64", "traced"]


def traced(expand: Callable[..., Any]) -> Callable[..., Any]:
    """A function of graphs as one of float64 arrays of one axis and one length.

    Its operations are not fused with each other.
    """

    @cache
    def program(arity: int) -> Program:
        inputs = [TensorType("float64", (None,))() for _ in range(arity)]
        found = expand(*inputs)
        outputs = found if isinstance(found, list) else [found]
        return Program(inline(Graph(inputs, outputs), backend), backend, None)

    def compute(*xs: Any) -> Any:
        made = program(len(xs))
        values = [*xs, *[None] * (len(made.places) - len(xs))]
        for place, value in made.constants:
            values[place] = value
        for step in made.steps:
            operands = [values[i] for i in step.operands]
            values[step.place] = _apart(step, operands)
        found = [values[i] for i in made.outputs]
        return found if len(found) > 1 else found[0]

    return compute


def _apart(step: Step, operands: list[Any]) -> Any:
    """What a step gives, as no part of a fused kernel: its operands have its shape already."""
    if not isinstance(step.node.op, Elementwise | Cast | Where):
        return step.compute(*operands)
    given = [device_array(x) for x in operands]
    shape = mx.broadcast_shapes(*[x.shape for x in given])
    return mx.contiguous(step.compute(*[_repeated(x, shape) for x in given]))


def _repeated(x: Any, shape: tuple[int, ...]) -> Any:
    """An array in another shape, without a copy.

    MLX fuses what broadcasts with its consumers, but not what takes away an axis.
    """
    return x if x.shape == shape else mx.squeeze(mx.broadcast_to(x, (1, *shape)), 0)


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
        in_float64(_row, traced(_row.expand))


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
