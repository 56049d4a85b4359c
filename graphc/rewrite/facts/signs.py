"""The signs of an array's elements, by its expression."""

from __future__ import annotations

from graphc.ir import Node, TensorType, is_complex, is_inexact
from graphc.rewrite.facts.bounds import bounds_of
from graphc.rewrite.facts.facts import Definiteness
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.exponential import power
from graphc.tensor.core.shape import Reshape

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
