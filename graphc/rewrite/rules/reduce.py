"""Rules of reductions, and of the composites made of them."""

from __future__ import annotations

import numpy as np

from graphc.ir import Node, is_float, is_numeric, numpy_dtype
from graphc.rewrite.lengths import fitted, length_of
from graphc.rewrite.rule import rewrite
from graphc.tensor.elementwise import cast, divide, exp, log, multiply, negative
from graphc.tensor.reduce import (
    All,
    Any_,
    LogSoftmax,
    LogSumExp,
    Max,
    Min,
    Reduction,
    Softmax,
    Sum,
)
from graphc.tensor.shape import (
    BroadcastTo,
    ExpandDims,
    Transpose,
    broadcast_to,
    expand_dims,
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
    total, restored = _summed(node.inputs[0])
    if total is None or total.inputs[0].op is not exp:
        return None
    (x,) = total.inputs[0].inputs
    y = Tensor.make(LogSumExp(total.op.axes), x)  # type: ignore[attr-defined]
    return Tensor.make(ExpandDims(restored), y) if restored else y


def _summed(y: Node) -> tuple[Node | None, tuple[int, ...]]:
    """The sum of slices of real numbers that an array is, and where its axes were put back."""
    restored: tuple[int, ...] = ()
    if isinstance(y.op, ExpandDims):
        restored = y.op.axes
        (y,) = y.inputs
    if not isinstance(y.op, Sum) or not is_float(y.type.dtype):
        return None, ()
    # Slices known to be empty have the sum 0, and no largest element to take out.
    empty = any(y.inputs[0].type.shape[axis] == 0 for axis in y.op.axes)
    return (None, ()) if empty else (y, restored)


@rewrite("stabilize", log)
def log_of_softmax(node: Node, op: object) -> Node | None:
    """Where softmax is 0, its logarithm goes on."""
    (weights,) = node.inputs
    if not isinstance(weights.op, Softmax):
        return None
    return Tensor.make(LogSoftmax(weights.op.axes), *weights.inputs)


@rewrite("stabilize", divide)
def exp_over_sum_of_exp(node: Node, op: object) -> Node | None:
    """``inf / inf`` is NaN from x = 710 on; softmax takes the largest out first."""
    g, weights, axes = _share_of_sum(node) or (None, node, ())
    if g is not weights or weights.op is not exp:
        return None
    return Tensor.make(Softmax(axes), *weights.inputs)


@rewrite("stabilize", multiply)
def exp_times_share_of_sum(node: Node, op: object) -> Node | None:
    """The slope of log(sum(exp(x))), where exp overflows."""
    for terms, share in (node.inputs, node.inputs[::-1]):
        g, weights, axes = _share_of_sum(share) or (None, node, ())
        if g is not None and weights is terms and weights.op is exp:
            return fitted(multiply(g, Tensor.make(Softmax(axes), *weights.inputs)), node)
    return None


def _share_of_sum(y: Node) -> tuple[Node, Node, tuple[int, ...]] | None:
    """The parts of ``g / sum(terms, axes)`` with the axes put back: g, terms and axes."""
    restored: tuple[int, ...] = ()
    if isinstance(y.op, ExpandDims):
        restored = y.op.axes
        (y,) = y.inputs
    if y.op is not divide or y.inputs[0].type.ndim not in {0, y.type.ndim}:
        return None
    g, below = y.inputs
    total, again = _summed(below)
    if total is None or (restored and again):
        return None
    (terms,) = total.inputs
    axes: tuple[int, ...] = total.op.axes  # type: ignore[attr-defined]
    placed = restored or again
    if placed != axes and (placed or len(axes) != terms.type.ndim):
        return None
    return expand_dims(g, restored) if restored and g.type.ndim else g, terms, axes


@rewrite("specialize", exp)
def exp_of_log_softmax(node: Node, op: object) -> Node | None:
    """The exponential of log_softmax is softmax."""
    (x,) = node.inputs
    if not isinstance(x.op, LogSoftmax):
        return None
    return Tensor.make(Softmax(x.op.axes), *x.inputs)
