"""Rules of sums and differences."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np

from graphc.ir import Constant, Node, is_inexact, is_integer, is_numeric
from graphc.ir.dtypes import is_real, limits
from graphc.rewrite.algebra import sums
from graphc.rewrite.facts.lengths import equal_lengths, fit_to
from graphc.rewrite.rule import UNIFORM, Equation, enter_equation, equation, rewrite, scalar_value
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.core.elementwise import Elementwise, add, isfinite, multiply, negative, subtract
from graphc.tensor.core.shape import Length, complete_shape
from graphc.tensor.core.tensor import Tensor, as_tensor

numbers = partial(enter_equation, "canonicalize", is_numeric)
reals = partial(enter_equation, "canonicalize", is_real)


numbers("sum_with_zero", lambda x: (x + 0, x))
numbers("difference_from_zero", lambda x: (x - 0, x))
reals("zero_less_number", lambda x: (0 - x, -x))


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

reals("negative_of_difference", lambda a, b: (-(a - b), b - a))
numbers("sum_with_negative", lambda a, b: (a + -b, a - b))
numbers("difference_from_negative", lambda a, b: (a - -b, a + b))
numbers(
    "difference_of_negative",
    lambda a, b: (-a - b, -(a + b)),
    ": signs move outwards, where they cancel",
)


@rewrite("canonicalize", add, subtract, beside=[Constant])
def negative_constant_in_sum(node: Node, op: Elementwise) -> Node | None:
    """``x + -1`` is ``x - 1``, and ``x - -1`` is ``x + 1``: one form for both."""
    x, number = node.inputs[::-1] if op is add else node.inputs
    value = sums.real_number(number)
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
    terms = sums.as_shifted(total)
    if terms is None:
        return None
    return fit_to(sums.sum_of([(-terms.sign, terms.rest)], -terms.constant, node.type.dtype), node)


# Combining constants and equal terms.


@rewrite("canonicalize", add, subtract, dtypes=is_integer)
def integers_taken_together(node: Node, op: Elementwise) -> Node | None:
    """``i + 1 + j - i`` is ``j + 1``: equal terms and constants of integer sums are combined."""
    result = sums.integer_sum(node)
    return None if result is None else fit_to(result, node)


@rewrite("canonicalize", add, subtract, beside=[Constant], dtypes=is_inexact)
def constants_of_sum(node: Node, op: Elementwise) -> Node | None:
    """``(x + 1) + 2`` is ``x + 3``, unless rounding would lose digits of the smaller constant.

    ``1 - p + 1e-10`` stays: in single precision, the sum of the constants is 1.
    """
    outer = sums.as_shifted(node)
    if outer is None:
        return None
    inner = sums.as_shifted(outer.rest)
    if inner is None:
        return _constants_around_sum(node, outer)
    constant = sums.exact_sum(outer.constant, outer.sign * inner.constant, node.type.dtype)
    if constant is None:
        return None
    return fit_to(
        sums.sum_of([(outer.sign * inner.sign, inner.rest)], constant, node.type.dtype), node
    )


def _constants_around_sum(node: Node, outer: sums.Shifted) -> Node | None:
    """Return ``((x + 1) + y) + 2`` as ``(x + y) + 3``."""
    total, dtype = outer.rest, node.type.dtype
    if total.op is not add and total.op is not subtract:
        return None
    a, b = total.inputs
    right = -1 if total.op is subtract else 1
    for first, other, signs in ((a, b, (1, right)), (b, a, (right, 1))):
        inner = sums.as_shifted(first)
        if inner is None:
            continue
        constants = outer.constant, outer.sign * signs[0] * inner.constant
        if abs(constants[0]) < abs(constants[1]):
            continue  # the sum of the larger constant and its term may be small
        constant = sums.exact_sum(*constants, dtype)
        if constant is None or not all(_cannot_cause_overflow(c, dtype) for c in constants):
            continue
        coefficient = outer.sign * signs[0] * inner.sign
        pair = [(coefficient, inner.rest), (outer.sign * signs[1], other)]
        return fit_to(sums.sum_of(pair, constant, dtype), node)
    return None


def _cannot_cause_overflow(constant: float, dtype: str) -> bool:
    eps, _, largest = limits(dtype)
    return abs(constant) < largest * eps / 2


reals("sum_with_itself", lambda x: (x + x, x * 2))


@rewrite(
    "canonicalize", add, subtract, beside=[multiply, negative, add, subtract], dtypes=is_inexact
)
def multiples_taken_together(node: Node, op: Elementwise) -> Node | None:
    """``2 * x + 3 * x`` is ``5 * x``."""
    dtype = node.type.dtype
    a, b = node.inputs
    (m, x), (n, y) = sums.term(a), sums.term(b)
    sign = -1 if op is subtract else 1
    if x is y:
        factor = sums.round_to_dtype(Fraction(m) + sign * Fraction(n), dtype)
        return fit_to(sums.sum_of([(factor, x)], 0, dtype), node) if factor else None
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
        n, y = sums.term(operand) if operand.op is multiply else (1, operand)
        if y is not x:
            continue
        factor = sums.round_to_dtype(Fraction(m) + sign * Fraction(n), node.type.dtype)
        if factor and abs(factor) < max(abs(m), abs(n)):
            return fit_to(sums.sum_of([(factor, x), other], 0, node.type.dtype), node)
    return None


# Terms that cancel. The right sides are the exact values, also where the left ones lose digits or
# are inf - inf.


def first_is_finite(a: Tensor, *others: Tensor) -> Tensor:
    """Return where the first operand is neither infinite nor NaN."""
    return isfinite(a)


finite = partial(enter_equation, "stabilize", is_inexact, domain=first_is_finite)
finite("sum_less_part", lambda a, b: ((a + b) - a, b))
finite("part_less_sum", lambda a, b: (a - (a + b), -b))
finite("difference_put_back", lambda b, a: ((a - b) + b, a))
finite("whole_less_difference", lambda a, b: (a - (a - b), b))
finite("difference_less_whole", lambda a, b: ((a - b) - a, -b))
finite("sum_of_adjacent_differences", lambda b, a, c: ((a - b) + (b - c), a - c))
finite("differences_from_one_end", lambda a, b, c: ((a - b) - (a - c), c - b))
finite("differences_to_one_end", lambda c, a, b: ((a - c) - (b - c), a - b))
finite("sums_with_one_part", lambda a, b, c: ((a + b) - (a + c), b - c))
finite("sum_less_difference", lambda a, b, c: ((a + b) - (a - c), b + c))
finite("difference_less_sum", lambda a, b, c: ((a - b) - (a + c), -(b + c)))
finite("difference_and_sum", lambda b, a, c: ((a - b) + (b + c), a + c))
finite("longer_sum_less_part", lambda a, b, c: (((a + b) + c) - a, b + c))
finite("longer_sum_put_back", lambda b, a, c: (((a - b) + c) + b, a + c))
finite("longer_difference_less_part", lambda a, b, c: (((a + b) - c) - a, b - c))
finite("longer_difference_put_back", lambda b, a, c: (((a - b) - c) + b, a - c))
finite("difference_from_sum_put_back", lambda a, b, c: ((c - (a + b)) + a, c - b))
finite("difference_from_difference_put_back", lambda a, b, c: ((c - (a - b)) + a, c + b))
