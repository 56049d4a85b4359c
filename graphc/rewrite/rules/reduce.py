"""Rules of reductions, and of composites of them.

The derivative of an extreme depends on which elements equal it exactly. So an extreme must stay one
of the same array: ``max(x + 1)`` does not become ``max(x) + 1``.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from graphc.ir import Node, Op, is_complex, is_float, is_integer, is_numeric, numpy_dtype
from graphc.rewrite.algebra.indices import EVERYTHING, inputs_fit, is_reversal
from graphc.rewrite.facts.lengths import Known, admit, is_count, length_of, lengths_of, product
from graphc.rewrite.rule import rewrite, scalar_value
from graphc.rewrite.rules.index import before_mask, mask_like
from graphc.rewrite.rules.shape import fits
from graphc.tensor.arrays.broadcast import BroadcastTo, broadcast_to
from graphc.tensor.arrays.create import Eye
from graphc.tensor.arrays.index import Index
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.reduce import (
    All,
    Any_,
    ArgExtreme,
    ArgMax,
    ArgMin,
    LogSumExp,
    Max,
    Min,
    Prod,
    Reduction,
    Sum,
)
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import ExpandDims, Transpose, expand_dims, squeeze, transpose
from graphc.tensor.core.exponential import exp, log, power
from graphc.tensor.core.shape import Length, Reshape
from graphc.tensor.core.tensor import Tensor, as_tensor, constant
from graphc.tensor.special.special import LogSoftmax, Softmax


@rewrite("canonicalize", Reduction)
def reduction_over_no_axes(node: Node, op: Reduction) -> Node | None:
    """``sum(x, ())`` is ``x``, and so for the other reductions."""
    return None if op.axes else node.inputs[0]


@rewrite("canonicalize", Reduction)
def reduction_over_length_one(node: Node, op: Reduction) -> Node | None:
    """``sum(x, axis)`` over an axis of length 1 is ``squeeze(x, axis)``."""
    (x,) = node.inputs
    single = tuple(axis for axis in op.axes if x.type.shape[axis] == 1)
    if not single:
        return None
    axes_left = [axis for axis in range(x.type.ndim) if axis not in single]
    axes = tuple(axes_left.index(axis) for axis in op.axes if axis not in single)
    return Tensor.make(type(op)(axes), squeeze(x, single))


@rewrite("canonicalize", Reduction, beside=[Reduction])
def reduction_of_same_reduction(node: Node, op: Reduction) -> Node | None:
    """``sum(sum(x, 1), 0)`` is ``sum(x, (0, 1))``, and so for the other reductions."""
    (inner,) = node.inputs
    if type(inner.op) is not type(op):
        return None
    (x,) = inner.inputs
    first: tuple[int, ...] = inner.op.axes
    axes_left = [axis for axis in range(x.type.ndim) if axis not in first]
    axes = tuple(sorted((*first, *(axes_left[axis] for axis in op.axes))))
    return Tensor.make(type(op)(axes), x)


@rewrite("canonicalize", Reduction, beside=[ExpandDims])
def reduction_of_expand_dims(node: Node, op: Reduction) -> Node | None:
    """``sum(expand_dims(x, 0), 1)`` is ``expand_dims(sum(x, 0), 0)``: new axes come last."""
    (inner,) = node.inputs
    if not isinstance(inner.op, ExpandDims):
        return None
    (x,) = inner.inputs
    new = inner.op.axes
    axes_of_x = [axis for axis in range(inner.type.ndim) if axis not in new]
    reduced = Tensor.make(type(op)(tuple(axes_of_x.index(a) for a in op.axes if a not in new)), x)
    axes_left = [axis for axis in range(inner.type.ndim) if axis not in op.axes]
    new_left = tuple(axes_left.index(axis) for axis in new if axis not in op.axes)
    return Tensor.make(ExpandDims(new_left), reduced)


@rewrite("canonicalize", Reduction, beside=[Transpose])
def reduction_of_transpose(node: Node, op: Reduction) -> Node | None:
    """``sum(x.T, 0)`` is ``sum(x, 1)``: the remaining axes are reordered last."""
    (inner,) = node.inputs
    if not isinstance(inner.op, Transpose):
        return None
    order = inner.op.axes
    axes_left = [order[axis] for axis in range(len(order)) if axis not in op.axes]
    reduced = Tensor.make(type(op)(tuple(sorted(order[axis] for axis in op.axes))), inner.inputs[0])
    return transpose(reduced, [sorted(axes_left).index(axis) for axis in axes_left])


@rewrite("canonicalize", Reduction, beside=[Index])
def reduction_of_reversed(node: Node, op: Reduction) -> Node | None:
    """``sum(x[::-1])`` is ``sum(x)``: the order of the elements does not matter."""
    (inner,) = node.inputs
    if not isinstance(inner.op, Index) or not is_reversal(inner):
        return None
    entries = tuple(
        EVERYTHING if axis in op.axes else entry for axis, entry in enumerate(inner.op.entries)
    )
    if entries == inner.op.entries:
        return None
    return Tensor.make(op, Tensor.make(Index(entries), inner.inputs[0]))


@rewrite("canonicalize", Reduction, beside=[Reshape])
def reduction_of_reshape(node: Node, op: Reduction) -> Node | None:
    """``sum(reshape(x, shape))`` over all axes is ``sum(x)``."""
    (inner,) = node.inputs
    if not isinstance(inner.op, Reshape) or node.type.ndim or not fits(inner):
        return None
    (x, *_) = inner.inputs
    return Tensor.make(type(op)(tuple(range(x.type.ndim))), x)


BOTH: dict[type[Reduction], ew.Elementwise] = {
    Sum: ew.add,
    Prod: ew.multiply,
    Max: ew.maximum,
    Min: ew.minimum,
    All: ew.logical_and,
    Any_: ew.logical_or,
}
"""The elementwise function that combines two reductions of each kind."""

MAX_PARTS = 8
"""More parts are cheaper to concatenate than to reduce one by one."""


@rewrite("canonicalize", Reduction, beside=[Concatenate])
def reduction_of_concatenate(node: Node, op: Reduction) -> Node | None:
    """``sum(concatenate([a, b]))`` is ``sum(a) + sum(b)``, and so for the other reductions.

    The order of the terms of a sum is unspecified.
    """
    (joined,) = node.inputs
    if not isinstance(joined.op, Concatenate) or joined.op.axis not in op.axes:
        return None
    combine, xs = BOTH.get(type(op)), joined.inputs
    if combine is None or len(xs) > MAX_PARTS or not inputs_fit(joined):
        return None
    if type(op) in {Max, Min} and any(x.type.shape[joined.op.axis] in {0, None} for x in xs):
        return None  # an empty part has no extreme
    if type(op) in {Sum, Prod} and (node.type.dtype == "bool" or is_half(node.type.dtype)):
        return None  # narrow floats are accumulated in wide ones
    reductions = [Tensor.make(op, x) for x in xs]
    return reduce(combine, reductions)


def is_half(dtype: str) -> bool:
    """Return whether sums of this dtype are accumulated in a wider one."""
    return dtype in {"float16", "bfloat16"}


@rewrite("canonicalize", Sum, beside=[ew.negative])
def sum_of_negative(node: Node, op: Sum) -> Node | None:
    """``sum(-x)`` is ``-sum(x)``."""
    (x,) = node.inputs
    return -Tensor.make(op, x.inputs[0]) if x.op is ew.negative else None


@rewrite("canonicalize", Sum, beside=[ew.multiply])
def sum_of_scaled(node: Node, op: Sum) -> Node | None:
    """``sum(c * x)`` is ``c * sum(x)`` for a factor that is constant along the axes.

    For floats, only a constant of magnitude 1 or more: a smaller factor may keep the sum from
    overflowing.
    """
    (x,) = node.inputs
    if x.op is not ew.multiply:
        return None
    for factor, rest in (x.inputs, x.inputs[::-1]):
        common = _common(factor, x, op.axes)
        if common is None or rest.type.ndim != x.type.ndim:
            continue
        if is_integer(node.type.dtype) or (is_float(node.type.dtype) and _is_large(factor)):
            return admit(ew.multiply(common, Tensor.make(op, rest)), node)
    return None


@rewrite("canonicalize", Sum, beside=[ew.divide])
def sum_of_quotients(node: Node, op: Sum) -> Node | None:
    """``sum(x / c)`` is ``sum(x) / c`` for a constant of magnitude 1 or less."""
    (x,) = node.inputs
    if x.op is not ew.divide or not is_float(node.type.dtype):
        return None
    a, b = x.inputs
    value = scalar_value(b)
    if b.type.ndim or value is None or not 0 < abs(value) <= 1:
        return None
    return ew.divide(Tensor.make(op, a), b)


def _is_large(x: Node) -> bool:
    value = None if x.type.ndim else scalar_value(x)
    return value is not None and 1 <= abs(value) < math.inf


def _common(factor: Node, x: Node, axes: tuple[int, ...]) -> Node | None:
    """Return an operand without the reduced axes of x; None if it varies along them."""
    new = x.type.ndim - factor.type.ndim
    axes_of_factor = tuple(axis - new for axis in axes if axis >= new)
    if any(factor.type.shape[axis] != 1 for axis in axes_of_factor):
        return None
    return squeeze(factor, axes_of_factor) if axes_of_factor else factor


@rewrite("canonicalize", Prod, beside=[ew.negative])
def product_of_negatives(node: Node, op: Prod) -> Node | None:
    """``prod(-x)`` of n elements is ``prod(x)``, or ``-prod(x)`` if n is odd."""
    (x,) = node.inputs
    lengths = [x.type.shape[axis] for axis in op.axes]
    if x.op is not ew.negative or None in lengths:
        return None
    y = Tensor.make(op, x.inputs[0])
    return -y if math.prod(n for n in lengths if n is not None) % 2 else y


@rewrite("canonicalize", All, Any_, beside=[ew.logical_not])
def truth_of_negations(node: Node, op: Reduction) -> Node | None:
    """``all(~x)`` is ``~any(x)``, and ``any(~x)`` is ``~all(x)``."""
    (x,) = node.inputs
    if x.op is not ew.logical_not:
        return None
    other = Any_ if isinstance(op, All) else All
    return ew.logical_not(Tensor.make(other(op.axes), x.inputs[0]))


@rewrite("canonicalize", Sum, beside=[Eye])
def sum_of_eye(node: Node, op: Sum) -> Node | None:
    """``sum(eye(n))`` is ``n``."""
    (x,) = node.inputs
    if not isinstance(x.op, Eye) or node.type.ndim:
        return None
    rows, columns = (length_of(x, axis) for axis in (0, 1))
    if isinstance(rows, int) and isinstance(columns, int):
        count = min(rows, columns - x.op.offset) - max(0, -x.op.offset)
        return as_tensor(max(count, 0), dtype=x.op.dtype)
    square = rows is columns and isinstance(rows, Node) and isinstance(rows.op, Length)
    return ew.cast(rows, x.op.dtype) if square and not x.op.offset else None


@rewrite("specialize", Sum, beside=[BroadcastTo])
def sum_of_broadcast(node: Node, op: Sum) -> Node | None:
    """``sum(broadcast_to(x, n))`` is ``n * x``.

    For infinite terms and an axis of length 0, the sum is 0 and the product NaN.
    """
    reduction = _reduce_other_axes(node)
    if reduction is None:
        return None
    y, lengths = reduction
    if not is_numeric(y.dtype):
        return None
    # Half-width floats cannot represent large counts; integers wrap around as their sum does.
    wide = "float32" if is_half(y.dtype) else y.dtype
    # One product of the lengths: a large length may overflow before a length of 0 applies.
    return ew.cast(ew.cast(y, wide) * _count(product(lengths), wide), y.dtype)


def _count(n: Known, dtype: str) -> Any:
    return ew.cast(n, dtype) if isinstance(n, Node) else np.asarray(n).astype(numpy_dtype(dtype))


@rewrite("specialize", Max, Min, All, Any_, beside=[BroadcastTo])
def extreme_of_broadcast(node: Node, op: Reduction) -> Node | None:
    """``max(broadcast_to(x, n))`` is ``x`` if n > 0, and so for ``min``, ``all`` and ``any``."""
    reduction = _reduce_other_axes(node)
    if reduction is None:
        return None
    y, lengths = reduction
    return y if all(isinstance(n, int) and n > 0 for n in lengths) else None


@rewrite("specialize", Prod, beside=[BroadcastTo])
def product_of_broadcast(node: Node, op: Prod) -> Node | None:
    """``prod(broadcast_to(x, n))`` is ``x**n``."""
    reduction = _reduce_other_axes(node)
    if reduction is None:
        return None
    y, lengths = reduction
    if not is_float(y.dtype) and y.dtype not in {"int64", "uint64"}:
        return None
    # Narrow floats cannot represent large counts.
    wide = "float64" if is_float(y.dtype) else y.dtype
    power_of_all = ew.cast(y, wide)
    for n in lengths:
        power_of_all = power(power_of_all, _count(n, wide))
    return ew.cast(power_of_all, y.dtype)


def _reduce_other_axes(node: Node) -> tuple[Tensor, list[int | Node]] | None:
    """Return a reduction of a broadcast array over its other axes, and the lengths left out."""
    (repeated_x,) = node.inputs
    op, broadcast = node.op, repeated_x.op
    if not isinstance(broadcast, BroadcastTo) or not isinstance(op, Reduction):
        return None
    x = repeated_x.inputs[0]
    new = repeated_x.type.ndim - x.type.ndim
    repeated = [*range(new), *(new + axis for axis in broadcast.repeated)]
    out = [axis for axis in op.axes if axis in repeated]
    if not out:
        return None
    dropped = tuple(axis - new for axis in out if axis >= new)
    if dropped:
        x = squeeze(x, dropped)
    axes_left = [axis for axis in range(repeated_x.type.ndim) if axis not in out]
    rest = broadcast_to(x, [length_of(repeated_x, axis) for axis in axes_left])
    axes = tuple(axes_left.index(axis) for axis in op.axes if axis not in out)
    lengths = [length_of(repeated_x, axis) for axis in out]
    # A length that is no array's may be negative, which is an error.
    return (Tensor.make(type(op)(axes), rest), lengths) if all(map(is_count, lengths)) else None


# Indices of extremes.


@rewrite("canonicalize", ArgExtreme, beside=[Transpose, ExpandDims])
def arg_extreme_of_moved_axes(node: Node, op: ArgExtreme) -> Node | None:
    """``argmax(x.T, 0)`` is ``argmax(x, 1)``: the other axes are reordered and inserted last."""
    (inner,) = node.inputs
    if isinstance(inner.op, Transpose):
        order = inner.op.axes
        axis = order[op.axis]
        order_left = [i - (i > axis) for i in order if i != axis]
        return transpose(Tensor.make(type(op)(axis), inner.inputs[0]), order_left)
    if not isinstance(inner.op, ExpandDims) or op.axis in inner.op.axes:
        return None
    new = inner.op.axes
    axes_of_x = [axis for axis in range(inner.type.ndim) if axis not in new]
    indices = Tensor.make(type(op)(axes_of_x.index(op.axis)), inner.inputs[0])
    return expand_dims(indices, tuple(axis - (axis > op.axis) for axis in new))


@rewrite("canonicalize", ArgExtreme)
def arg_extreme_of_one(node: Node, op: ArgExtreme) -> Node | None:
    """``argmax(x, axis)`` along an axis of length 1 is 0."""
    (x,) = node.inputs
    return broadcast_to(constant(0), lengths_of(node)) if x.type.shape[op.axis] == 1 else None


@rewrite("canonicalize", ArgMax, ArgMin, beside=[ew.negative])
def arg_extreme_of_negative(node: Node, op: ArgExtreme) -> Node | None:
    """``argmax(-x)`` is ``argmin(x)`` for floats; the lowest integer has no negative."""
    (x,) = node.inputs
    if x.op is not ew.negative or not is_float(x.type.dtype):
        return None
    other = ArgMin if isinstance(op, ArgMax) else ArgMax
    return Tensor.make(other(op.axis), x.inputs[0])


def _is_strictly_increasing(op: Op) -> bool:
    if not isinstance(op, ew.Elementwise):
        return False
    facts = op.facts
    return facts.trend == ew.RISING and not facts.support and not facts.integral


@rewrite("stabilize", ArgMax, ArgMin)
def arg_extreme_of_increasing(node: Node, op: ArgExtreme) -> Node | None:
    """``argmax(exp(x))`` is ``argmax(x)``: exp may round different elements to one value."""
    (x,) = node.inputs
    if not is_float(node.inputs[0].type.dtype):
        return None
    along = isinstance(x.op, Softmax | LogSoftmax) and op.axis in x.op.axes
    if not (along or _is_strictly_increasing(x.op)) or is_complex(x.inputs[0].type.dtype):
        return None  # complex numbers, which have real parts, are not ordered
    return Tensor.make(op, x.inputs[0])


# Masks.

NEUTRAL: dict[type[Op], Any] = {Sum: 0, Prod: 1, All: True, Any_: False, LogSumExp: -math.inf}
"""The identity element of each reduction."""


@rewrite("specialize", Sum, Prod, All, Any_, LogSumExp)
def reduction_of_masked(node: Node, op: Any) -> Node | None:
    """``sum(x[mask])`` is ``sum(where(mask, x, 0))``, whose shapes depend on no value."""
    (y,) = node.inputs
    if type(op) not in NEUTRAL or 0 not in op.axes or y.type.shape[0] is not None:
        return None
    pair = before_mask(y)
    if pair is None:
        return None
    mask, x = pair
    n = mask.type.ndim
    neutral = constant(NEUTRAL[type(op)], dtype=x.type.dtype)
    axes = (*range(n), *(axis + n - 1 for axis in op.axes if axis))
    return Tensor.make(type(op)(axes), ew.where(mask_like(mask, x), x, neutral))


# Composites.


@rewrite("stabilize", log, beside=[Sum, ExpandDims])
def log_of_sum_of_exp(node: Node, op: object) -> Node | None:
    """``log(sum(exp(x)))`` is ``logsumexp(x)``, which does not overflow."""
    total, restored = sum_and_restored_axes(node.inputs[0])
    if total is None or total.inputs[0].op is not exp:
        return None
    (x,) = total.inputs[0].inputs
    y = Tensor.make(LogSumExp(total.op.axes), x)  # type: ignore[attr-defined]
    return Tensor.make(ExpandDims(restored), y) if restored else y


def sum_and_restored_axes(y: Node) -> tuple[Node | None, tuple[int, ...]]:
    """Return the sum that an array is, and the axes restored after it; None for other arrays."""
    restored: tuple[int, ...] = ()
    if isinstance(y.op, ExpandDims):
        restored = y.op.axes
        (y,) = y.inputs
    if not isinstance(y.op, Sum) or not is_float(y.type.dtype):
        return None, ()
    return y, restored


@rewrite("canonicalize", LogSumExp)
def log_sum_exp_over_length_one(node: Node, op: LogSumExp) -> Node | None:
    """``logsumexp(x, axis)`` over an axis of length 1 is ``squeeze(x, axis)``."""
    (x,) = node.inputs
    single = tuple(axis for axis in op.axes if x.type.shape[axis] == 1)
    if not single:
        return None
    axes_left = [axis for axis in range(x.type.ndim) if axis not in single]
    axes = tuple(axes_left.index(axis) for axis in op.axes if axis not in single)
    y = squeeze(x, single)
    return Tensor.make(LogSumExp(axes), y) if axes else y
