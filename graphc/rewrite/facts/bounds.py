"""Bounds: between which numbers the values of a node lie, by interval arithmetic."""

from __future__ import annotations

import math
from functools import lru_cache

from graphc.intervals.interval import Interval, extent_of, numbers_of
from graphc.intervals.rules import RULES, image, outward
from graphc.ir import Constant, Node, TensorType, is_complex, is_float, is_integer
from graphc.rewrite.facts.memo import Memo, memoized
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
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.elementwise import Cast, Elementwise, Where
from graphc.tensor.core.shape import Length, Reshape, Shape
from graphc.tensor.special.special import Softmax

LONGEST = 2**60
"""No array is longer: no machine has as many bytes. Sums of a few lengths don't wrap around."""

UNKNOWN = Interval(-math.inf, math.inf)

_found = Memo[Interval]()


def bounds_of(node: Node) -> Interval:
    """The interval of all values that are not NaN; each node is looked at once in its life.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> bounds_of(gt.exp(x)), bounds_of(-gt.abs(x)), bounds_of(gt.shape(x)[0] + 1)[0]
        (Interval(low=0.0, high=inf), Interval(low=-inf, high=0), 1)
    """
    return memoized(node, _found, _sources, _bounds)


BY_FIRST = (BroadcastTo, Cast, ExpandDims, Index, Max, Min, Reshape, Squeeze, Transpose)
"""Values are those of the first input; but a Peak or Pit of no elements is infinite."""

DIVISIONS = {"floor_divide", "remainder", "fmod"}
"""Of floats these can be infinite, or round up to the divisor, so only integers have bounds."""


def _sources(node: Node) -> tuple[Node, ...]:
    """The inputs that the bounds of a node follow from."""
    op = node.op
    if not _has_order(node) or isinstance(op, MaxWithDefault | MinWithDefault):
        return ()
    if isinstance(op, Elementwise):
        return node.inputs if _follows(op) and all(map(_has_order, node.inputs)) else ()
    if isinstance(op, BY_FIRST) or (isinstance(op, Sum | Prod) and is_float(node.type.dtype)):
        return node.inputs[:1]
    if isinstance(op, Where):
        return node.inputs[1:]
    return node.inputs if isinstance(op, Concatenate) else ()


def _follows(op: Elementwise) -> bool:
    """Whether bounds follow from those of the operands, and not from the row's range alone."""
    return op.row in RULES or (op.facts.exact and bool(op.facts.trend))


def _has_order(node: Node) -> bool:
    return isinstance(node.type, TensorType) and not is_complex(node.type.dtype)


def _bounds(node: Node) -> Interval:
    if not _has_order(node):
        return UNKNOWN
    low, high = _of_node(node, [_found[x] for x in _sources(node)])
    least, most, _ = extent_of(node.type.dtype)
    # An integer that leaves its range comes back at the other end.
    return Interval(low, high) if least <= low and high <= most else Interval(least, most)


def _of_node(node: Node, parts: list[Interval]) -> Interval:
    found = _union(*parts) if parts else UNKNOWN
    match node.op:
        case Constant() as op:
            found = _of_array(op)
        case Elementwise() as op:
            found = _of_row(op, node, parts)
        case Cast() as op:
            found = _of_cast(op, node.inputs[0].type.dtype, parts)
        case Sum() | Prod() if parts:
            found = Interval(0.0, math.inf) if parts[0].low >= 0 else UNKNOWN
        case Length() | Shape() | ArgExtreme():
            found = Interval(0, LONGEST)
        case Softmax():
            found = outward((0.0, 1.0))
    return found


def _union(*parts: Interval) -> Interval:
    return Interval(min(x.low for x in parts), max(x.high for x in parts))


@lru_cache(maxsize=4096)
def _of_array(op: Constant) -> Interval:
    values = [x for x in op.value.reshape(-1).tolist() if not math.isnan(x)]
    return Interval(min(values), max(values)) if values else UNKNOWN


def _of_row(op: Elementwise, node: Node, parts: list[Interval]) -> Interval:
    if not parts:
        return outward(op.facts.range) if is_float(node.type.dtype) else UNKNOWN
    dtype = node.inputs[0].type.dtype
    if op.row in {"fmax", "fmin"} and is_float(dtype):
        return _union(*parts)  # either operand, as the other may be NaN
    if op.row in DIVISIONS:
        return UNKNOWN if is_float(dtype) else _of_division(op, dtype, *parts)
    # What compares floats may be NaN, and compare false whatever its bounds.
    if is_float(dtype) and node.type.dtype == "bool":
        return UNKNOWN
    return image(numbers_of(dtype), op.row, *parts) or UNKNOWN


def _of_division(op: Elementwise, dtype: str, a: Interval, b: Interval) -> Interval:
    arithmetic = numbers_of(dtype)
    if b.low:
        return image(arithmetic, op.row, a, b) or UNKNOWN
    # An integer divided by 0 gives 0, as does one modulo 0.
    found = image(arithmetic, op.row, a, Interval(1, max(b.high, 1)))
    return _union(found, Interval(0, 0)) if found else UNKNOWN


def _of_cast(op: Cast, narrow: str, parts: list[Interval]) -> Interval:
    if not parts or op.dtype == "bool" or (is_integer(op.dtype) and is_float(narrow)):
        return UNKNOWN
    return numbers_of(op.dtype).rounded(*parts[0]) if is_float(op.dtype) else parts[0]
