"""Rules of reductions, and of the composites made of them.

The derivative of a largest or smallest value is by which elements equal it, bit for bit. So what
is not a value of the same array may not be made of it: ``max(x + 1)`` is not ``max(x) + 1``.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from graphc.ir import Node, Op, is_complex, is_float, is_integer, is_numeric, numpy_dtype
from graphc.rewrite.algebra.indices import EVERYTHING, inputs_fit, is_reversal
from graphc.rewrite.facts.lengths import (
    Known,
    admitted,
    is_count,
    length_of,
    lengths_of,
    product,
)
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
from graphc.tensor.core.axes import ExpandDims, Transpose, expand_dims, squeeze, transpose
from graphc.tensor.core.elementwise import (
    RISING,
    Elementwise,
    add,
    cast,
    divide,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    where,
)
from graphc.tensor.core.exponential import (
    exp,
    log,
    power,
)
from graphc.tensor.core.shape import Length, Reshape
from graphc.tensor.core.tensor import Tensor, as_tensor, constant
from graphc.tensor.special.special import LogSoftmax, Softmax


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


@rewrite("canonicalize", Reduction, beside=[Reduction])
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


@rewrite("canonicalize", Reduction, beside=[ExpandDims])
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


@rewrite("canonicalize", Reduction, beside=[Transpose])
def reduction_of_transpose(node: Node, op: Reduction) -> Node | None:
    """The order of axes that are reduced over does not matter; the others are put in order last."""
    (between,) = node.inputs
    if not isinstance(between.op, Transpose):
        return None
    order = between.op.axes
    kept = [order[axis] for axis in range(len(order)) if axis not in op.axes]
    reduced = Tensor.make(
        type(op)(tuple(sorted(order[axis] for axis in op.axes))), between.inputs[0]
    )
    return transpose(reduced, [sorted(kept).index(axis) for axis in kept])


@rewrite("canonicalize", Reduction, beside=[Index])
def reduction_of_reversed(node: Node, op: Reduction) -> Node | None:
    """Nor does the order of the elements along them."""
    (between,) = node.inputs
    if not isinstance(between.op, Index) or not is_reversal(between):
        return None
    entries = tuple(
        EVERYTHING if axis in op.axes else entry for axis, entry in enumerate(between.op.entries)
    )
    if entries == between.op.entries:
        return None
    return Tensor.make(op, Tensor.make(Index(entries), between.inputs[0]))


@rewrite("canonicalize", Reduction, beside=[Reshape])
def reduction_of_reshape(node: Node, op: Reduction) -> Node | None:
    """For all elements at once, their order does not matter."""
    (between,) = node.inputs
    if not isinstance(between.op, Reshape) or node.type.ndim or not fits(between):
        return None
    (x, *_) = between.inputs
    return Tensor.make(type(op)(tuple(range(x.type.ndim))), x)


BOTH: dict[type[Reduction], Elementwise] = {
    Sum: add,
    Prod: multiply,
    Max: maximum,
    Min: minimum,
    All: logical_and,
    Any_: logical_or,
}
"""The functions that combine the reductions of two parts."""

MOST_PARTS = 8
"""Of more parts, it costs less to join them than to reduce each."""


@rewrite("canonicalize", Reduction, beside=[Concatenate])
def reduction_of_concatenate(node: Node, op: Reduction) -> Node | None:
    """Arrays need not be joined to be reduced along the axis of joining.

    The terms of a sum have no order that it is made in.
    """
    (between,) = node.inputs
    if not isinstance(between.op, Concatenate) or between.op.axis not in op.axes:
        return None
    both, xs = BOTH.get(type(op)), between.inputs
    if both is None or len(xs) > MOST_PARTS or not inputs_fit(between):
        return None
    if type(op) in {Max, Min} and any(x.type.shape[between.op.axis] in {0, None} for x in xs):
        return None  # an empty part has no extreme, though all together have
    if type(op) in {Sum, Prod} and (node.type.dtype == "bool" or is_half(node.type.dtype)):
        return None  # narrow floats are added up in wide ones
    parts = [Tensor.make(op, x) for x in xs]
    return reduce(both, parts)


def is_half(dtype: str) -> bool:
    """Whether sums of this dtype are made in a wider one."""
    return dtype in {"float16", "bfloat16"}


@rewrite("canonicalize", Sum, beside=[negative])
def sum_of_negative(node: Node, op: Sum) -> Node | None:
    """The sign is changed once, of the sum."""
    (x,) = node.inputs
    return -Tensor.make(op, x.inputs[0]) if x.op is negative else None


@rewrite("canonicalize", Sum, beside=[multiply])
def sum_of_scaled(node: Node, op: Sum) -> Node | None:
    """A common factor is multiplied once, with the sum.

    Of floats, only a constant of magnitude 1 or more: by a smaller one, or one that may be, terms
    are kept from a sum that is infinite.
    """
    (x,) = node.inputs
    if x.op is not multiply:
        return None
    for factor, rest in (x.inputs, x.inputs[::-1]):
        common = _common(factor, x, op.axes)
        if common is None or rest.type.ndim != x.type.ndim:
            continue
        if is_integer(node.type.dtype) or (is_float(node.type.dtype) and _is_large(factor)):
            made = multiply(common, Tensor.make(op, rest))
            return admitted(made, node)
    return None


@rewrite("canonicalize", Sum, beside=[divide])
def sum_of_quotients(node: Node, op: Sum) -> Node | None:
    """A common divisor divides once, the sum: a constant of magnitude 1 or less."""
    (x,) = node.inputs
    if x.op is not divide or not is_float(node.type.dtype):
        return None
    a, b = x.inputs
    value = scalar_value(b)
    if b.type.ndim or value is None or not 0 < abs(value) <= 1:
        return None
    return divide(Tensor.make(op, a), b)


def _is_large(x: Node) -> bool:
    value = None if x.type.ndim else scalar_value(x)
    return value is not None and 1 <= abs(value) < math.inf


def _common(factor: Node, x: Node, axes: tuple[int, ...]) -> Node | None:
    """An operand that is the same along the reduced axes of x, without them; None if it is not."""
    new = x.type.ndim - factor.type.ndim
    own = tuple(axis - new for axis in axes if axis >= new)
    if any(factor.type.shape[axis] != 1 for axis in own):
        return None
    return squeeze(factor, own) if own else factor


@rewrite("canonicalize", Prod, beside=[negative])
def product_of_negatives(node: Node, op: Prod) -> Node | None:
    """The sign of a product depends on whether there are evenly many."""
    (x,) = node.inputs
    lengths = [x.type.shape[axis] for axis in op.axes]
    if x.op is not negative or None in lengths:
        return None
    y = Tensor.make(op, x.inputs[0])
    return -y if math.prod(n for n in lengths if n is not None) % 2 else y


@rewrite("canonicalize", All, Any_, beside=[logical_not])
def truth_of_negations(node: Node, op: Reduction) -> Node | None:
    """None is true where not any is, and not all are where any is not."""
    (x,) = node.inputs
    if x.op is not logical_not:
        return None
    other = Any_ if isinstance(op, All) else All
    return logical_not(Tensor.make(other(op.axes), x.inputs[0]))


@rewrite("canonicalize", Sum, beside=[Eye])
def sum_of_eye(node: Node, op: Sum) -> Node | None:
    """As many ones as the diagonal is long."""
    (x,) = node.inputs
    if not isinstance(x.op, Eye) or node.type.ndim:
        return None
    rows, columns = (length_of(x, axis) for axis in (0, 1))
    if isinstance(rows, int) and isinstance(columns, int):
        count = min(rows, columns - x.op.offset) - max(0, -x.op.offset)
        return as_tensor(max(count, 0), dtype=x.op.dtype)
    square = rows is columns and isinstance(rows, Node) and isinstance(rows.op, Length)
    return cast(rows, x.op.dtype) if square and not x.op.offset else None


@rewrite("specialize", Sum, beside=[BroadcastTo])
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
    wide = "float32" if is_half(y.dtype) else y.dtype
    # One number of terms, as a product with one that is large may overflow before one with 0.
    return cast(cast(y, wide) * _count(product(lengths), wide), y.dtype)


def _count(n: Known, dtype: str) -> Any:
    return cast(n, dtype) if isinstance(n, Node) else np.asarray(n).astype(numpy_dtype(dtype))


@rewrite("specialize", Max, Min, All, Any_, beside=[BroadcastTo])
def extreme_of_broadcast(node: Node, op: Reduction) -> Node | None:
    """Of equal values, each is the largest and the smallest; none at all have no extreme."""
    made = _unrepeated(node)
    if made is None:
        return None
    y, lengths = made
    return y if all(isinstance(n, int) and n > 0 for n in lengths) else None


@rewrite("specialize", Prod, beside=[BroadcastTo])
def product_of_broadcast(node: Node, op: Prod) -> Node | None:
    """Equal factors are multiplied by one power."""
    made = _unrepeated(node)
    if made is None:
        return None
    y, lengths = made
    if not is_float(y.dtype) and y.dtype not in {"int64", "uint64"}:
        return None
    # Narrow floats do not hold the number of factors.
    wide = "float64" if is_float(y.dtype) else y.dtype
    power_of_all = cast(y, wide)
    for n in lengths:
        power_of_all = power(power_of_all, _count(n, wide))
    return cast(power_of_all, y.dtype)


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
    lengths = [length_of(between, axis) for axis in out]
    # A number that is no array's length may be negative, which is refused.
    return (Tensor.make(type(op)(axes), rest), lengths) if all(map(is_count, lengths)) else None


# Places of extremes.


@rewrite("canonicalize", ArgExtreme, beside=[Transpose, ExpandDims])
def arg_extreme_of_moved_axes(node: Node, op: ArgExtreme) -> Node | None:
    """The other axes can be put in order, and new ones put in, when they are fewer."""
    (between,) = node.inputs
    if isinstance(between.op, Transpose):
        order = between.op.axes
        axis = order[op.axis]
        kept = [i - (i > axis) for i in order if i != axis]
        return transpose(Tensor.make(type(op)(axis), between.inputs[0]), kept)
    if not isinstance(between.op, ExpandDims) or op.axis in between.op.axes:
        return None
    new = between.op.axes
    own = [axis for axis in range(between.type.ndim) if axis not in new]
    places = Tensor.make(type(op)(own.index(op.axis)), between.inputs[0])
    return expand_dims(places, tuple(axis - (axis > op.axis) for axis in new))


@rewrite("canonicalize", ArgExtreme)
def arg_extreme_of_one(node: Node, op: ArgExtreme) -> Node | None:
    """The only element along an axis is the first."""
    (x,) = node.inputs
    return broadcast_to(constant(0), lengths_of(node)) if x.type.shape[op.axis] == 1 else None


@rewrite("canonicalize", ArgMax, ArgMin, beside=[negative])
def arg_extreme_of_negative(node: Node, op: ArgExtreme) -> Node | None:
    """The largest is where the least is of the negatives; integers have a least without one."""
    (x,) = node.inputs
    if x.op is not negative or not is_float(x.type.dtype):
        return None
    other = ArgMin if isinstance(op, ArgMax) else ArgMax
    return Tensor.make(other(op.axis), x.inputs[0])


def _is_increasing(op: Op) -> bool:
    """Whether an operation is a function of all real numbers that rises everywhere."""
    if not isinstance(op, Elementwise):
        return False
    facts = op.facts
    return facts.trend == RISING and not facts.support and not facts.whole


@rewrite("stabilize", ArgMax, ArgMin)
def arg_extreme_of_increasing(node: Node, op: ArgExtreme) -> Node | None:
    """The largest value is the largest number's, and is told from others that round to the same."""
    (x,) = node.inputs
    if not is_float(node.inputs[0].type.dtype):
        return None
    along = isinstance(x.op, Softmax | LogSoftmax) and op.axis in x.op.axes
    if not (along or _is_increasing(x.op)) or is_complex(x.inputs[0].type.dtype):
        return None  # complex numbers, which have real parts, are not ordered
    return Tensor.make(op, x.inputs[0])


# Masks.

NEUTRAL: dict[type[Op], Any] = {Sum: 0, Prod: 1, All: True, Any_: False, LogSumExp: -math.inf}
"""The neutral elements of reductions."""


@rewrite("specialize", Sum, Prod, All, Any_, LogSumExp)
def reduction_of_masked(node: Node, op: Any) -> Node | None:
    """Masked-out elements are made neutral, so that no value decides a shape."""
    (y,) = node.inputs
    if type(op) not in NEUTRAL or 0 not in op.axes or y.type.shape[0] is not None:
        return None
    found = before_mask(y)
    if found is None:
        return None
    mask, x = found
    n = mask.type.ndim
    neutral = constant(NEUTRAL[type(op)], dtype=x.type.dtype)
    axes = (*range(n), *(axis + n - 1 for axis in op.axes if axis))
    return Tensor.make(type(op)(axes), where(mask_like(mask, x), x, neutral))


# Composites.


@rewrite("stabilize", log, beside=[Sum, ExpandDims])
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


@rewrite("canonicalize", LogSumExp)
def log_sum_exp_over_length_one(node: Node, op: LogSumExp) -> Node | None:
    """Of a single number, the logarithm and the exponential undo each other."""
    (x,) = node.inputs
    single = tuple(axis for axis in op.axes if x.type.shape[axis] == 1)
    if not single:
        return None
    left = [axis for axis in range(x.type.ndim) if axis not in single]
    axes = tuple(left.index(axis) for axis in op.axes if axis not in single)
    y = squeeze(x, single)
    return Tensor.make(LogSumExp(axes), y) if axes else y
