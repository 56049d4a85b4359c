"""Between which numbers the values of a node lie, as far as what it is made of tells."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from graphc.ir import Constant, Node, TensorType, is_complex, is_float, is_integer, numpy_dtype
from graphc.rewrite.once import known_once
from graphc.tensor.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.broadcast import BroadcastTo
from graphc.tensor.elementwise import Cast, Elementwise, Where
from graphc.tensor.index import Index
from graphc.tensor.join import Concatenate
from graphc.tensor.reduce import ArgExtreme, Max, Min, Peak, Pit, Prod, Sum
from graphc.tensor.shape import Length, Reshape, Shape
from graphc.tensor.special import Softmax

__all__ = ["Bounds", "bounds_of"]

LONGEST = 2**60
"""No array is longer: no machine has as many bytes. Sums of a few lengths don't wrap around."""

Number = int | float


class Bounds(NamedTuple):
    """Every value that is not NaN lies between these, both included."""

    low: Number
    high: Number


UNKNOWN = Bounds(-math.inf, math.inf)

_found: WeakKeyDictionary[Node, Bounds] = WeakKeyDictionary()


def bounds_of(node: Node) -> Bounds:
    """Between which numbers the values lie; each node is looked at once in its life.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> bounds_of(gt.exp(x)), bounds_of(-gt.abs(x)), bounds_of(gt.shape(x)[0] + 1)[0]
        (Bounds(low=0.0, high=inf), Bounds(low=-inf, high=-0.0), 1)
    """
    return known_once(node, _found, _sources, _bounds)


@lru_cache(maxsize=64)
def _of_dtype(dtype: str) -> Bounds:
    """All values of a dtype."""
    if dtype == "bool":
        return Bounds(0, 1)
    if is_integer(dtype):
        kind = np.iinfo(dtype)
        return Bounds(int(kind.min), int(kind.max))
    return UNKNOWN


# Functions whose values have bounds whatever their operand. Libraries round tanh and its like a
# little differently, so that the upper bounds of these leave room.
ALWAYS = {
    "exp": Bounds(0.0, math.inf),
    "exp2": Bounds(0.0, math.inf),
    "sqrt": Bounds(0.0, math.inf),
    "softplus": Bounds(0.0, math.inf),
    "cosh": Bounds(0.0, math.inf),
    "sigmoid": Bounds(0.0, 2.0),
    "erfc": Bounds(0.0, 4.0),
    "erf": Bounds(-2.0, 2.0),
    "tanh": Bounds(-2.0, 2.0),
    "sin": Bounds(-2.0, 2.0),
    "cos": Bounds(-2.0, 2.0),
    "arctan": Bounds(-2.0, 2.0),
}


def _product(a: Number, b: Number) -> Number:
    # 0 * inf is NaN, which no bounds speak of; next to it the products are 0.
    return a * b if a and b else 0


def _multiplied(a: Bounds, b: Bounds) -> Bounds:
    ends = [_product(x, y) for x in a for y in b]
    return Bounds(min(ends), max(ends))


def _added(a: Bounds, b: Bounds) -> Bounds:
    return Bounds(_sum(a.low, b.low, -1), _sum(a.high, b.high, 1))


def _sum(a: Number, b: Number, outward: int) -> Number:
    # A product that is added without rounding in between is off from what is expected here, which
    # shows where the sum is next to 0.
    room = outward * max(abs(a), abs(b)) / 64 if isinstance(a + b, float) and a * b < 0 else 0
    return a + b + room


def _negated(x: Bounds) -> Bounds:
    return Bounds(-x.high, -x.low)


def _subtracted(a: Bounds, b: Bounds) -> Bounds:
    return _added(a, _negated(b))


def _magnitude(x: Bounds) -> Bounds:
    ends = abs(x.low), abs(x.high)
    return Bounds(0 if x.low <= 0 <= x.high else min(ends), max(ends))


def _squared(x: Bounds) -> Bounds:
    size = _magnitude(x)
    return Bounds(_product(size.low, size.low), _product(size.high, size.high))


def _larger(a: Bounds, b: Bounds) -> Bounds:
    return Bounds(max(a.low, b.low), max(a.high, b.high))


def _smaller(a: Bounds, b: Bounds) -> Bounds:
    return Bounds(min(a.low, b.low), min(a.high, b.high))


def _limited(x: Bounds, low: Bounds, high: Bounds) -> Bounds:
    return _smaller(_larger(x, low), high)


def _divided(a: Bounds, b: Bounds) -> Bounds:
    # A zero may have a sign, and an infinite quotient has it too.
    return Bounds(0.0, math.inf) if a.low >= 0 and b.low > 0 else UNKNOWN


def _raised(a: Bounds, b: Bounds) -> Bounds:
    even = b.low == b.high and b.low % 2 == 0
    positive = a.low > 0 or (a.low >= 0 and b.low >= 0)
    return Bounds(0.0, math.inf) if positive or even else UNKNOWN


def _floor_divided(a: Bounds, b: Bounds) -> Bounds:
    # An integer divided by 0 gives 0.
    return Bounds(0, a.high) if a.low >= 0 and b.low >= 0 else UNKNOWN


def _remainder(a: Bounds, b: Bounds) -> Bounds:
    # An integer modulo 0 gives 0.
    return Bounds(0, max(b.high - 1, 0)) if b.low >= 0 else UNKNOWN


def _common_bits(a: Bounds, b: Bounds) -> Bounds:
    highs = [x.high for x in (a, b) if x.low >= 0]
    return Bounds(0, min(highs)) if highs else UNKNOWN


RULES: dict[str, Callable[..., Bounds]] = {
    "add": _added,
    "subtract": _subtracted,
    "multiply": _multiplied,
    "divide": _divided,
    "floor_divide": _floor_divided,
    "remainder": _remainder,
    "power": _raised,
    "negative": _negated,
    "abs": _magnitude,
    "square": _squared,
    "sign": lambda x: Bounds(0 if x.low >= 0 else -1, 0 if x.high <= 0 else 1),
    "maximum": _larger,
    "minimum": _smaller,
    "clip": _limited,
    "floor": lambda x: Bounds(_rounded(math.floor, x.low), _rounded(math.floor, x.high)),
    "ceil": lambda x: Bounds(_rounded(math.ceil, x.low), _rounded(math.ceil, x.high)),
    "trunc": lambda x: Bounds(_rounded(math.trunc, x.low), _rounded(math.trunc, x.high)),
    "round": lambda x: Bounds(_rounded(math.floor, x.low), _rounded(math.ceil, x.high)),
    "bitwise_and": _common_bits,
}
"""The bounds of a row's result in terms of those of its operands, were numbers endless."""

ROUNDED_FREELY = {"floor_divide", "remainder"}
"""Of floats these can be infinite, or round up to the divisor, so only integers have bounds."""


def _rounded(how: Callable[[Any], int], x: Number) -> Number:
    return how(x) if math.isfinite(x) else x


def _union(*parts: Bounds) -> Bounds:
    return Bounds(min(x.low for x in parts), max(x.high for x in parts))


BY_FIRST = (BroadcastTo, Cast, ExpandDims, Index, Max, Min, Reshape, Squeeze, Transpose)
"""Values are those of the first input; but a Peak or Pit of no elements is infinite."""


def _sources(node: Node) -> tuple[Node, ...]:
    """The inputs that the bounds of a node follow from."""
    op = node.op
    if not _has_order(node) or isinstance(op, Peak | Pit):
        return ()
    if isinstance(op, Elementwise):
        return node.inputs if op.row in RULES and _has_order(node.inputs[0]) else ()
    if isinstance(op, BY_FIRST) or (isinstance(op, Sum | Prod) and is_float(node.type.dtype)):
        return node.inputs[:1]
    if isinstance(op, Where):
        return node.inputs[1:]
    return node.inputs if isinstance(op, Concatenate) else ()


def _has_order(node: Node) -> bool:
    return isinstance(node.type, TensorType) and not is_complex(node.type.dtype)


def _bounds(node: Node) -> Bounds:
    if not _has_order(node):
        return UNKNOWN
    parts = [_found[x] for x in _sources(node)]
    found = _of_node(node, parts)
    whole = _of_dtype(node.type.dtype)
    # NaN is what inf - inf gives; and an integer that leaves its range comes back at the other end.
    low = -math.inf if math.isnan(found.low) else found.low
    high = math.inf if math.isnan(found.high) else found.high
    return Bounds(low, high) if whole.low <= low and high <= whole.high else whole


def _of_node(node: Node, parts: list[Bounds]) -> Bounds:
    found = _union(*parts) if parts else UNKNOWN
    match node.op:
        case Constant() as op:
            found = _of_array(op)
        case Elementwise() as op:
            found = _of_row(op.row, node.type.dtype, parts)
        case Cast() as op:
            found = _of_cast(op, node.inputs[0].type.dtype, parts)
        case Sum() | Prod() if parts:
            found = Bounds(0.0, math.inf) if parts[0].low >= 0 else UNKNOWN
        case Length() | Shape() | ArgExtreme():
            found = Bounds(0, LONGEST)
        case Softmax():
            found = Bounds(0.0, 2.0)
    return found


@lru_cache(maxsize=4096)
def _of_array(op: Constant) -> Bounds:
    values = [x for x in op.value.reshape(-1).tolist() if not math.isnan(x)]
    return Bounds(min(values), max(values)) if values else UNKNOWN


def _of_row(row: str, dtype: str, parts: list[Bounds]) -> Bounds:
    if row in ALWAYS:
        return ALWAYS[row]
    if row == "abs" and not parts:
        return Bounds(0.0, math.inf)  # of a complex number
    if not parts or (row in ROUNDED_FREELY and is_float(dtype)):
        return UNKNOWN
    found = RULES[row](*parts)
    if is_float(dtype):
        # The ends are rounded as the values are; a narrow dtype rounds further.
        return Bounds(*(_in_dtype(x, dtype) for x in found))
    return found


def _of_cast(op: Cast, narrow: str, parts: list[Bounds]) -> Bounds:
    if not parts or op.dtype == "bool" or (is_integer(op.dtype) and is_float(narrow)):
        return UNKNOWN
    if is_float(op.dtype):
        return Bounds(*(_in_dtype(x, op.dtype) for x in parts[0]))
    return parts[0]


def _in_dtype(x: Number, dtype: str) -> float:
    with np.errstate(over="ignore"):
        return float(np.asarray(float(x)).astype(numpy_dtype(dtype)))
