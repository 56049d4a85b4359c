"""Whether the elements of an array are positive, by how it is made."""

from __future__ import annotations

from graphc.ir import Node, TensorType, is_complex, is_inexact
from graphc.rewrite.facts.bounds import bounds_of
from graphc.rewrite.facts.facts import Definiteness
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.elementwise import (
    Cast,
    Elementwise,
    abs,
    add,
    divide,
    multiply,
    sqrt,
    square,
)
from graphc.tensor.core.exponential import power
from graphc.tensor.core.shape import Reshape

SIGN_DEPTH = 12
"""How far below a node it is looked for its sign."""


def sign_of(x: Node, depth: int = SIGN_DEPTH) -> Definiteness:
    """Whether all elements are known to be positive, or not to be negative.

    What is positive but for rounding to 0, as exp(x) is, counts as positive.

    Example:
        >>> import graphc.tensor as gt
        >>> sign_of(gt.exp(gt.vector("x")) * 2), sign_of(gt.vector("x") ** 2)
        (<Definiteness.POSITIVE: 2>, <Definiteness.SEMI: 1>)
    """
    if not isinstance(x.type, TensorType) or is_complex(x.type.dtype):
        return Definiteness.UNKNOWN
    low = bounds_of(x).low
    if low > 0 or (isinstance(x.op, Elementwise) and x.op.facts.positive):
        return Definiteness.POSITIVE
    found = Definiteness.SEMI if low >= 0 else Definiteness.UNKNOWN
    return max(found, _sign_of_parts(x, depth - 1)) if depth else found


def _sign_of_parts(x: Node, depth: int) -> Definiteness:
    op = x.op
    if op in {multiply, divide} or (op is power and is_inexact(x.type.dtype)):
        base = x.inputs[:1] if op is power else x.inputs
        found = min(sign_of(part, depth) for part in base)
        return found if op is not power or found is Definiteness.POSITIVE else Definiteness.UNKNOWN
    if op is add:
        known = [sign_of(part, depth) for part in x.inputs]
        return max(known) if min(known) else Definiteness.UNKNOWN
    if op in {sqrt, square, abs}:
        return max(
            sign_of(x.inputs[0], depth), Definiteness.SEMI if op is not sqrt else Definiteness(0)
        )
    if isinstance(op, BroadcastTo | ExpandDims | Squeeze | Transpose | Reshape | Cast):
        floats = not isinstance(op, Cast) or is_inexact(op.dtype)
        return sign_of(x.inputs[0], depth) if floats else Definiteness.UNKNOWN
    return Definiteness.UNKNOWN
