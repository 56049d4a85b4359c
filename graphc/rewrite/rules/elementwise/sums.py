"""Rules of sums and differences."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from graphc.ir import Constant, Node, is_inexact, is_integer
from graphc.rewrite.algebra.sums import (
    Shifted,
    as_shifted,
    exact_sum,
    integer_sum,
    real_number,
    round_to_dtype,
    sum_of,
    term,
)
from graphc.rewrite.facts.dtypes import is_real, limits
from graphc.rewrite.facts.lengths import equal_lengths, fit_to
from graphc.rewrite.rule import UNIFORM, Equation, equation, rewrite, scalar_value
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.core.elementwise import Elementwise, add, isfinite, multiply, negative, subtract
from graphc.tensor.core.shape import Length, complete_shape
from graphc.tensor.core.tensor import Tensor, as_tensor


@equation("canonicalize")
def sum_with_zero(x: Tensor) -> Equation:
    """``x + 0`` is ``x``."""
    return Equation(x + 0, x)


@equation("canonicalize")
def difference_from_zero(x: Tensor) -> Equation:
    """``x - 0`` is ``x``."""
    return Equation(x - 0, x)


@equation("canonicalize", dtypes=is_real)
def zero_less_number(x: Tensor) -> Equation:
    """``0 - x`` is ``-x``."""
    return Equation(0 - x, -x)


@equation("canonicalize", absorbing=True)
def difference_from_itself(x: Tensor) -> Equation:
    """``x - x`` is 0 for a finite ``x``."""
    return Equation(x - x, zeros_like(x))


@rewrite("canonicalize", add, multiply, beside=UNIFORM)
def operand_of_neutral_elements(node: Node, op: Elementwise) -> Node | None:
    """``x + zeros(shape)`` and ``x * ones(shape)`` are ``x``, broadcast to the shape."""
    neutral = 0 if op is add else 1
    for x, other in (node.inputs, node.inputs[::-1]):
        if x.type.ndim and x.type.dtype != "bool" and scalar_value(x) == neutral:
            return fit_to(other, node) if _is_of_lengths(x, other) else None
    return None


def _is_of_lengths(x: Node, other: Node) -> bool:
    """Return whether the lengths requested for a broadcast are provably another array's.

    Where they are not, the sum checks them at run time. Lengths of arrays need no proof: no element
    of the zeros or ones is used.
    """
    if not isinstance(x.op, BroadcastTo):
        return True
    for axis in range(-min(x.type.ndim, other.type.ndim), 0):
        n = complete_shape(x.op.shape, x.inputs[1:])[axis]
        is_requested = (
            isinstance(n, Node) and not isinstance(n.op, Length) and other.type.shape[axis] != 1
        )
        if is_requested and not equal_lengths(x, axis, other, axis):
            return False
    return True


# Signs.


@equation("canonicalize")
def negative_of_negative(x: Tensor) -> Equation:
    """``--x`` is ``x``."""
    return Equation(negative(negative(x)), x)


@equation("canonicalize", dtypes=is_real)
def negative_of_difference(a: Tensor, b: Tensor) -> Equation:
    """``-(a - b)`` is ``b - a``."""
    return Equation(-(a - b), b - a)


@equation("canonicalize")
def sum_with_negative(a: Tensor, b: Tensor) -> Equation:
    """``a + -b`` is ``a - b``."""
    return Equation(a + -b, a - b)


@equation("canonicalize")
def difference_from_negative(a: Tensor, b: Tensor) -> Equation:
    """``a - -b`` is ``a + b``."""
    return Equation(a - -b, a + b)


@equation("canonicalize")
def difference_of_negative(a: Tensor, b: Tensor) -> Equation:
    """``-a - b`` is ``-(a + b)``: signs move outwards, where they cancel."""
    return Equation(-a - b, -(a + b))


@rewrite("canonicalize", add, subtract, beside=[Constant])
def negative_constant_in_sum(node: Node, op: Elementwise) -> Node | None:
    """``x + -1`` is ``x - 1``, and ``x - -1`` is ``x + 1``: one form for both."""
    x, number = node.inputs[::-1] if op is add else node.inputs
    value = real_number(number)
    if value is None or value >= 0 or (is_integer(node.type.dtype) and _is_lowest(number, value)):
        return None
    positive = as_tensor(-value, dtype=node.type.dtype)
    return fit_to((subtract if op is add else add)(x, positive), node)


def _is_lowest(x: Node, value: float) -> bool:
    return value == np.iinfo(x.type.dtype).min


@rewrite("specialize", negative, beside=[add], dtypes=is_inexact)
def negative_of_sum_with_constant(node: Node, op: Elementwise) -> Node | None:
    """``-(x + 1)`` is ``-1 - x``: the constant absorbs the sign."""
    (total,) = node.inputs
    terms = as_shifted(total)
    if terms is None:
        return None
    return fit_to(sum_of([(-terms.sign, terms.rest)], -terms.constant, node.type.dtype), node)


# Combining constants and equal terms.


@rewrite("canonicalize", add, subtract, dtypes=is_integer)
def integers_taken_together(node: Node, op: Elementwise) -> Node | None:
    """``i + 1 + j - i`` is ``j + 1``: equal terms and constants of integer sums are combined."""
    result = integer_sum(node)
    return None if result is None else fit_to(result, node)


@rewrite("canonicalize", add, subtract, beside=[Constant], dtypes=is_inexact)
def constants_of_sum(node: Node, op: Elementwise) -> Node | None:
    """``(x + 1) + 2`` is ``x + 3``, unless rounding would lose digits of the smaller constant.

    ``1 - p + 1e-10`` stays: in single precision, the sum of the constants is 1.
    """
    outer = as_shifted(node)
    if outer is None:
        return None
    inner = as_shifted(outer.rest)
    if inner is None:
        return _constants_around_sum(node, outer)
    constant = exact_sum(outer.constant, outer.sign * inner.constant, node.type.dtype)
    if constant is None:
        return None
    return fit_to(sum_of([(outer.sign * inner.sign, inner.rest)], constant, node.type.dtype), node)


def _constants_around_sum(node: Node, outer: Shifted) -> Node | None:
    """Return ``((x + 1) + y) + 2`` as ``(x + y) + 3``."""
    total, dtype = outer.rest, node.type.dtype
    if total.op is not add and total.op is not subtract:
        return None
    a, b = total.inputs
    right = -1 if total.op is subtract else 1
    for first, other, signs in ((a, b, (1, right)), (b, a, (right, 1))):
        inner = as_shifted(first)
        if inner is None:
            continue
        constants = outer.constant, outer.sign * signs[0] * inner.constant
        if abs(constants[0]) < abs(constants[1]):
            continue  # the sum of the larger constant and its term may be small
        constant = exact_sum(*constants, dtype)
        if constant is None or not all(_cannot_cause_overflow(c, dtype) for c in constants):
            continue
        coefficient = outer.sign * signs[0] * inner.sign
        pair = [(coefficient, inner.rest), (outer.sign * signs[1], other)]
        return fit_to(sum_of(pair, constant, dtype), node)
    return None


def _cannot_cause_overflow(constant: float, dtype: str) -> bool:
    eps, _, largest = limits(dtype)
    return abs(constant) < largest * eps / 2


@equation("canonicalize", dtypes=is_real)
def sum_with_itself(x: Tensor) -> Equation:
    """``x + x`` is ``x * 2``."""
    return Equation(x + x, x * 2)


@rewrite(
    "canonicalize", add, subtract, beside=[multiply, negative, add, subtract], dtypes=is_inexact
)
def multiples_taken_together(node: Node, op: Elementwise) -> Node | None:
    """``2 * x + 3 * x`` is ``5 * x``."""
    dtype = node.type.dtype
    a, b = node.inputs
    (m, x), (n, y) = term(a), term(b)
    sign = -1 if op is subtract else 1
    if x is y:
        factor = round_to_dtype(Fraction(m) + sign * Fraction(n), dtype)
        return fit_to(sum_of([(factor, x)], 0, dtype), node) if factor else None
    result = _multiple_in_sum(node, a, (sign * n, y))
    return _multiple_in_sum(node, b, (m, x)) if result is None and op is add else result


def _multiple_in_sum(node: Node, total: Node, multiple_of_x: tuple[float, Node]) -> Node | None:
    """Return ``(3 * x + y) - x`` as ``2 * x + y``; None if the multiple would grow."""
    if total.op is not add and total.op is not subtract:
        return None
    m, x = multiple_of_x
    a, b = total.inputs
    right = -1 if total.op is subtract else 1
    for operand, sign, other in ((a, 1, (right, b)), (b, right, (1, a))):
        n, y = term(operand) if operand.op is multiply else (1, operand)
        if y is not x:
            continue
        factor = round_to_dtype(Fraction(m) + sign * Fraction(n), node.type.dtype)
        if factor and abs(factor) < max(abs(m), abs(n)):
            return fit_to(sum_of([(factor, x), other], 0, node.type.dtype), node)
    return None


# Terms that cancel. The right sides are the exact values, also where the left ones lose digits or
# are inf - inf.


def first_is_finite(a: Tensor, *others: Tensor) -> Tensor:
    """Return where the first operand is neither infinite nor NaN."""
    return isfinite(a)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def sum_less_part(a: Tensor, b: Tensor) -> Equation:
    """``(a + b) - a`` is ``b``."""
    return Equation((a + b) - a, b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def part_less_sum(a: Tensor, b: Tensor) -> Equation:
    """``a - (a + b)`` is ``-b``."""
    return Equation(a - (a + b), -b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def difference_put_back(b: Tensor, a: Tensor) -> Equation:
    """``(a - b) + b`` is ``a``."""
    return Equation((a - b) + b, a)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def whole_less_difference(a: Tensor, b: Tensor) -> Equation:
    """``a - (a - b)`` is ``b``."""
    return Equation(a - (a - b), b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def difference_less_whole(a: Tensor, b: Tensor) -> Equation:
    """``(a - b) - a`` is ``-b``."""
    return Equation((a - b) - a, -b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def sum_of_adjacent_differences(b: Tensor, a: Tensor, c: Tensor) -> Equation:
    """``(a - b) + (b - c)`` is ``a - c``."""
    return Equation((a - b) + (b - c), a - c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def differences_from_one_end(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``(a - b) - (a - c)`` is ``c - b``."""
    return Equation((a - b) - (a - c), c - b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def differences_to_one_end(c: Tensor, a: Tensor, b: Tensor) -> Equation:
    """``(a - c) - (b - c)`` is ``a - b``."""
    return Equation((a - c) - (b - c), a - b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def sums_with_one_part(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``(a + b) - (a + c)`` is ``b - c``."""
    return Equation((a + b) - (a + c), b - c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def sum_less_difference(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``(a + b) - (a - c)`` is ``b + c``."""
    return Equation((a + b) - (a - c), b + c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def difference_less_sum(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``(a - b) - (a + c)`` is ``-(b + c)``."""
    return Equation((a - b) - (a + c), -(b + c))


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def difference_and_sum(b: Tensor, a: Tensor, c: Tensor) -> Equation:
    """``(a - b) + (b + c)`` is ``a + c``."""
    return Equation((a - b) + (b + c), a + c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def longer_sum_less_part(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``((a + b) + c) - a`` is ``b + c``."""
    return Equation(((a + b) + c) - a, b + c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def longer_sum_put_back(b: Tensor, a: Tensor, c: Tensor) -> Equation:
    """``((a - b) + c) + b`` is ``a + c``."""
    return Equation(((a - b) + c) + b, a + c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def longer_difference_less_part(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``((a + b) - c) - a`` is ``b - c``."""
    return Equation(((a + b) - c) - a, b - c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def longer_difference_put_back(b: Tensor, a: Tensor, c: Tensor) -> Equation:
    """``((a - b) - c) + b`` is ``a - c``."""
    return Equation(((a - b) - c) + b, a - c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def difference_from_sum_put_back(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``(c - (a + b)) + a`` is ``c - b``."""
    return Equation((c - (a + b)) + a, c - b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def difference_from_difference_put_back(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``(c - (a - b)) + a`` is ``c + b``."""
    return Equation((c - (a - b)) + a, c + b)
