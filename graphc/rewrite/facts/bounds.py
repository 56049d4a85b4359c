"""Bounds: the interval that contains the values of a node, and the signs of its elements."""

from __future__ import annotations

import math
from functools import lru_cache

from graphc.intervals.interval import Interval, extent_of, numbers_of
from graphc.intervals.rules import RULES, image, outward
from graphc.ir import Constant, Node, TensorType, is_complex, is_float, is_inexact, is_integer
from graphc.rewrite.facts.facts import Definiteness
from graphc.rewrite.facts.memo import Memo, memoize
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.index import Index
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.arrays.reduce import (
    ArgExtreme,
    Max,
    MaxWithDefault,
    Min,
    MinWithDefault,
    Prod,
    Sum,
)
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.exponential import power
from graphc.tensor.core.shape import Length, Reshape, Shape
from graphc.tensor.special.special import Softmax

MAX_LENGTH = 2**60
"""The longest array: no machine has as many bytes. Sums of a few lengths don't wrap around."""

UNKNOWN = Interval(-math.inf, math.inf)

_cached_bounds = Memo[Interval]()


def bounds_of(node: Node) -> Interval:
    """Return the interval of all values that are not NaN; each node is analysed once.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> bounds_of(gt.exp(x)), bounds_of(-gt.abs(x)), bounds_of(gt.shape(x)[0] + 1)[0]
        (Interval(low=0.0, high=inf), Interval(low=-inf, high=0), 1)
    """
    return memoize(node, _cached_bounds, _sources, _bounds)


BY_FIRST = (BroadcastTo, ew.Cast, ExpandDims, Index, Max, Min, Reshape, Squeeze, Transpose)
"""Operations with values of the first input; not MaxWithDefault, which is -inf for no elements."""

DIVISIONS = {"floor_divide", "remainder", "fmod"}
"""Bounded for integers alone: of floats, they can be infinite, or round up to the divisor."""


def _sources(node: Node) -> tuple[Node, ...]:
    op = node.op
    if not _has_order(node) or isinstance(op, MaxWithDefault | MinWithDefault):
        return ()
    if isinstance(op, ew.Elementwise):
        return node.inputs if _follows(op) and all(map(_has_order, node.inputs)) else ()
    if isinstance(op, BY_FIRST) or (isinstance(op, Sum | Prod) and is_float(node.type.dtype)):
        return node.inputs[:1]
    if isinstance(op, ew.Where):
        return node.inputs[1:]
    return node.inputs if isinstance(op, Concatenate) else ()


def _follows(op: ew.Elementwise) -> bool:
    """Return whether bounds follow from the operands', not from the row's range alone."""
    return op.row in RULES or (op.facts.exact and bool(op.facts.trend))


def _has_order(node: Node) -> bool:
    return isinstance(node.type, TensorType) and not is_complex(node.type.dtype)


def _bounds(node: Node) -> Interval:
    if not _has_order(node):
        return UNKNOWN
    low, high = _of_node(node, [_cached_bounds[x] for x in _sources(node)])
    lowest, highest, _ = extent_of(node.type.dtype)
    # Integers wrap around.
    return Interval(low, high) if lowest <= low and high <= highest else Interval(lowest, highest)


def _of_node(node: Node, operand_bounds: list[Interval]) -> Interval:
    result = _union(*operand_bounds) if operand_bounds else UNKNOWN
    match node.op:
        case Constant() as op:
            result = _of_array(op)
        case ew.Elementwise() as op:
            result = _of_row(op, node, operand_bounds)
        case ew.Cast() as op:
            result = _of_cast(op, node.inputs[0].type.dtype, operand_bounds)
        case Sum() | Prod() if operand_bounds:
            result = Interval(0.0, math.inf) if operand_bounds[0].low >= 0 else UNKNOWN
        case Length() | Shape() | ArgExtreme():
            result = Interval(0, MAX_LENGTH)
        case Softmax():
            result = outward((0.0, 1.0))
    return result


def _union(*intervals: Interval) -> Interval:
    return Interval(min(x.low for x in intervals), max(x.high for x in intervals))


@lru_cache(maxsize=4096)
def _of_array(op: Constant) -> Interval:
    values = [x for x in op.value.reshape(-1).tolist() if not math.isnan(x)]
    return Interval(min(values), max(values)) if values else UNKNOWN


def _of_row(op: ew.Elementwise, node: Node, bounds: list[Interval]) -> Interval:
    if not bounds:
        return outward(op.facts.range) if is_float(node.type.dtype) else UNKNOWN
    dtype = node.inputs[0].type.dtype
    if op.row in {"fmax", "fmin"} and is_float(dtype):
        return _union(*bounds)  # either operand, as the other may be NaN
    if op.row in DIVISIONS:
        return UNKNOWN if is_float(dtype) else _of_division(op, dtype, *bounds)
    # A comparison with NaN is false, whatever the bounds.
    if is_float(dtype) and node.type.dtype == "bool":
        return UNKNOWN
    return image(numbers_of(dtype), op.row, *bounds) or UNKNOWN


def _of_division(op: ew.Elementwise, dtype: str, a: Interval, b: Interval) -> Interval:
    arithmetic = numbers_of(dtype)
    if b.low:
        return image(arithmetic, op.row, a, b) or UNKNOWN
    # An integer divided by 0 gives 0, as does one modulo 0.
    result = image(arithmetic, op.row, a, Interval(1, max(b.high, 1)))
    return _union(result, Interval(0, 0)) if result else UNKNOWN


def _of_cast(op: ew.Cast, narrow: str, bounds: list[Interval]) -> Interval:
    if not bounds or op.dtype == "bool" or (is_integer(op.dtype) and is_float(narrow)):
        return UNKNOWN
    return numbers_of(op.dtype).round_outward(*bounds[0]) if is_float(op.dtype) else bounds[0]


# Signs.

MAX_DEPTH = 12
"""Depth to which an expression is analysed."""


def sign_of(x: Node, depth: int = MAX_DEPTH) -> Definiteness:
    """Return whether all elements are known to be positive, or nonnegative.

    Values that may underflow to 0, as ``exp(x)``, count as positive.

    Example:
        >>> import graphc.tensor as gt
        >>> sign_of(gt.exp(gt.vector("x")) * 2), sign_of(gt.vector("x") ** 2)
        (<Definiteness.POSITIVE: 2>, <Definiteness.SEMI: 1>)
    """
    if not isinstance(x.type, TensorType) or is_complex(x.type.dtype):
        return Definiteness.UNKNOWN
    low = bounds_of(x).low
    if low > 0 or (isinstance(x.op, ew.Elementwise) and x.op.facts.positive):
        return Definiteness.POSITIVE
    result = Definiteness.SEMI if low >= 0 else Definiteness.UNKNOWN
    return max(result, _sign_by_operands(x, depth - 1)) if depth else result


def _sign_by_operands(x: Node, depth: int) -> Definiteness:
    op = x.op
    if op in {ew.multiply, ew.divide} or (op is power and is_inexact(x.type.dtype)):
        base = x.inputs[:1] if op is power else x.inputs
        result = min(sign_of(part, depth) for part in base)
        return (
            result if op is not power or result is Definiteness.POSITIVE else Definiteness.UNKNOWN
        )
    if op is ew.add:
        signs = [sign_of(part, depth) for part in x.inputs]
        return max(signs) if min(signs) else Definiteness.UNKNOWN
    if op in {ew.sqrt, ew.square, ew.abs}:
        return max(
            sign_of(x.inputs[0], depth), Definiteness.SEMI if op is not ew.sqrt else Definiteness(0)
        )
    if isinstance(op, BroadcastTo | ExpandDims | Squeeze | Transpose | Reshape | ew.Cast):
        floats = not isinstance(op, ew.Cast) or is_inexact(op.dtype)
        return sign_of(x.inputs[0], depth) if floats else Definiteness.UNKNOWN
    return Definiteness.UNKNOWN
