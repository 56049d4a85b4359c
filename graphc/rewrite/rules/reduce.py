"""Rules of reductions, and of the composites made of them."""

from __future__ import annotations

import numpy as np

from graphc.ir import Node, is_float, is_numeric, numpy_dtype
from graphc.rewrite.lengths import length_of
from graphc.rewrite.rule import rewrite
from graphc.tensor.elementwise import cast, negative
from graphc.tensor.exponential import exp, log
from graphc.tensor.reduce import (
    All,
    Any_,
    LogSumExp,
    Max,
    Min,
    Reduction,
    Sum,
)
from graphc.tensor.shape import (
    BroadcastTo,
    ExpandDims,
    Transpose,
    broadcast_to,
    squeeze,
)
from graphc.tensor.tensor import Tensor


@rewrite("canonicalize", Reduction)
def reduction_over_no_axes(node: Node, op: Reduction) -> Node | None:
    """Of single elements, the sum, product or extreme is the element."""
    return None if op.axes else node.inputs[0]


@rewrite("canonicalize", Reduction)
def reduction_over_length_one(node: Node, op: Reduction) -> Node | None:
    """An axis of one element is dropped; there is nothing to add up."""
    (x,) = node.inputs
    single = tuple(axis for axis in op.axes if x.type.shape[axis] == 1)
    if not single:
        return None
    left = [axis for axis in range(x.type.ndim) if axis not in single]
    axes = tuple(left.index(axis) for axis in op.axes if axis not in single)
    return Tensor.make(type(op)(axes), squeeze(x, single))


@rewrite("canonicalize", Reduction)
def reduction_of_same_reduction(node: Node, op: Reduction) -> Node | None:
    """A sum of sums is one sum over the axes of both, and so for the others."""
    (between,) = node.inputs
    if type(between.op) is not type(op):
        return None
    (x,) = between.inputs
    first: tuple[int, ...] = between.op.axes
    left = [axis for axis in range(x.type.ndim) if axis not in first]
    axes = tuple(sorted((*first, *(left[axis] for axis in op.axes))))
    return Tensor.make(type(op)(axes), x)


@rewrite("canonicalize", Reduction)
def reduction_of_expand_dims(node: Node, op: Reduction) -> Node | None:
    """New axes that are reduced over at once need not be made, the others can wait."""
    (between,) = node.inputs
    if not isinstance(between.op, ExpandDims):
        return None
    (x,) = between.inputs
    new = between.op.axes
    own = [axis for axis in range(between.type.ndim) if axis not in new]
    reduced = Tensor.make(type(op)(tuple(own.index(a) for a in op.axes if a not in new)), x)
    left = [axis for axis in range(between.type.ndim) if axis not in op.axes]
    places = tuple(left.index(axis) for axis in new if axis not in op.axes)
    return Tensor.make(ExpandDims(places), reduced)


@rewrite("canonicalize", Reduction)
def reduction_of_transpose(node: Node, op: Reduction) -> Node | None:
    """The order of axes that are reduced over does not matter."""
    (between,) = node.inputs
    if not isinstance(between.op, Transpose):
        return None
    order = between.op.axes
    left = [order[axis] for axis in range(len(order)) if axis not in op.axes]
    if left != sorted(left):
        return None
    axes = tuple(sorted(order[axis] for axis in op.axes))
    return Tensor.make(type(op)(axes), between.inputs[0])


@rewrite("canonicalize", Sum)
def sum_of_negative(node: Node, op: Sum) -> Node | None:
    """The sign is changed once, of the sum."""
    (x,) = node.inputs
    return -Tensor.make(op, x.inputs[0]) if x.op is negative else None


@rewrite("specialize", Sum)
def sum_of_broadcast(node: Node, op: Sum) -> Node | None:
    """Equal terms are added up by one product with their number.

    Of terms that are not finite, an axis of length 0 has the sum 0, and the product NaN.
    """
    made = _unrepeated(node)
    if made is None:
        return None
    y, lengths = made
    if not is_numeric(y.dtype):
        return None
    # Half-width floats do not hold the number of terms; integers wrap around as their sum does.
    wide = "float32" if y.dtype in {"float16", "bfloat16"} else y.dtype
    product = cast(y, wide)
    for n in lengths:
        number = n if isinstance(n, Node) else np.asarray(n).astype(numpy_dtype(wide))
        product = product * cast(number, wide)
    return cast(product, y.dtype)


@rewrite("specialize", Max, Min, All, Any_)
def extreme_of_broadcast(node: Node, op: Reduction) -> Node | None:
    """Of equal values, each is the largest and the smallest; none at all have no extreme."""
    made = _unrepeated(node)
    if made is None:
        return None
    y, lengths = made
    return y if all(isinstance(n, int) and n > 0 for n in lengths) else None


def _unrepeated(node: Node) -> tuple[Tensor, list[int | Node]] | None:
    """A reduction of a broadcast over the other axes alone, and the lengths it leaves out."""
    (between,) = node.inputs
    op, broadcast = node.op, between.op
    if not isinstance(broadcast, BroadcastTo) or not isinstance(op, Reduction):
        return None
    x = between.inputs[0]
    new = between.type.ndim - x.type.ndim
    repeated = [*range(new), *(new + axis for axis in broadcast.repeated)]
    out = [axis for axis in op.axes if axis in repeated]
    if not out:
        return None
    dropped = tuple(axis - new for axis in out if axis >= new)
    if dropped:
        x = squeeze(x, dropped)
    left = [axis for axis in range(between.type.ndim) if axis not in out]
    rest = broadcast_to(x, [length_of(between, axis) for axis in left])
    axes = tuple(left.index(axis) for axis in op.axes if axis not in out)
    return Tensor.make(type(op)(axes), rest), [length_of(between, axis) for axis in out]


# Composites.


@rewrite("stabilize", log)
def log_of_sum_of_exp(node: Node, op: object) -> Node | None:
    """The largest exponential of each slice is taken out before it overflows."""
    total, restored = summed(node.inputs[0])
    if total is None or total.inputs[0].op is not exp:
        return None
    (x,) = total.inputs[0].inputs
    y = Tensor.make(LogSumExp(total.op.axes), x)  # type: ignore[attr-defined]
    return Tensor.make(ExpandDims(restored), y) if restored else y


def summed(y: Node) -> tuple[Node | None, tuple[int, ...]]:
    """The sum of slices of real numbers that an array is, and where its axes were put back."""
    restored: tuple[int, ...] = ()
    if isinstance(y.op, ExpandDims):
        restored = y.op.axes
        (y,) = y.inputs
    if not isinstance(y.op, Sum) or not is_float(y.type.dtype):
        return None, ()
    return y, restored
