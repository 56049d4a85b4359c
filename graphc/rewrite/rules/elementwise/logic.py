"""Rules of comparisons, logical functions and bitwise functions."""

from __future__ import annotations

import numpy as np

from graphc.intervals.interval import numbers_of
from graphc.intervals.rules import image
from graphc.ir import Constant, Node, is_inexact, is_integer
from graphc.rewrite.algebra.sums import real_number
from graphc.rewrite.facts.bounds import bounds_of
from graphc.rewrite.facts.dtypes import is_any, is_bool, is_ordered, is_signed, is_whole
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import Equation, equation, number_of, rewrite
from graphc.tensor.arrays.create import ones_like, zeros_like
from graphc.tensor.core.elementwise import (
    Cast,
    Elementwise,
    Where,
    add,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    invert,
    isfinite,
    isinf,
    isnan,
    left_shift,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    not_equal,
    right_shift,
)
from graphc.tensor.core.tensor import Tensor, as_tensor

# Comparisons.


@equation("canonicalize", dtypes=is_whole)
def equal_to_itself(x: Tensor) -> Equation:
    """``x == x`` is true for integers and bools; NaN differs from itself."""
    return Equation(equal(x, x), ones_like(x, "bool"))


@equation("canonicalize", dtypes=is_whole)
def not_equal_to_itself(x: Tensor) -> Equation:
    """``x != x`` is false for integers and bools; NaN differs from itself."""
    return Equation(not_equal(x, x), zeros_like(x, "bool"))


@equation("canonicalize", dtypes=is_whole)
def at_most_itself(x: Tensor) -> Equation:
    """``x <= x`` is true for integers and bools; for NaN it is false."""
    return Equation(less_equal(x, x), ones_like(x, "bool"))


@equation("canonicalize", dtypes=is_whole)
def at_least_itself(x: Tensor) -> Equation:
    """``x >= x`` is true for integers and bools; for NaN it is false."""
    return Equation(greater_equal(x, x), ones_like(x, "bool"))


@equation("canonicalize", dtypes=is_ordered)
def less_than_itself(x: Tensor) -> Equation:
    """``x < x`` is false, for NaN too."""
    return Equation(less(x, x), zeros_like(x, "bool"))


@equation("canonicalize", dtypes=is_ordered)
def greater_than_itself(x: Tensor) -> Equation:
    """``x > x`` is false, for NaN too."""
    return Equation(greater(x, x), zeros_like(x, "bool"))


@equation("canonicalize", dtypes=is_integer)
def difference_equal_to_zero(a: Tensor, b: Tensor) -> Equation:
    """``a - b == 0`` is ``a == b`` for integers; for floats, ``inf - inf`` is NaN."""
    return Equation(equal(a - b, 0), equal(a, b))


@equation("canonicalize", dtypes=is_integer)
def difference_not_equal_to_zero(a: Tensor, b: Tensor) -> Equation:
    """``a - b != 0`` is ``a != b`` for integers; for floats, ``inf - inf`` is NaN."""
    return Equation(not_equal(a - b, 0), not_equal(a, b))


COMPARISONS = (less, less_equal, greater, greater_equal, equal, not_equal)


@rewrite("canonicalize", *COMPARISONS)
def comparison_decided_by_bounds(node: Node, op: Elementwise) -> Node | None:
    """``x.shape[0] >= 0`` is true, and so for every comparison of integers that bounds decide."""
    a, b = node.inputs
    if not is_whole(a.type.dtype):
        return None
    truth = image(numbers_of(a.type.dtype), op.row, bounds_of(a), bounds_of(b))
    if truth is None or truth.low != truth.high:
        return None
    return fit_to(as_tensor(bool(truth.low)), node)


@rewrite("canonicalize", *COMPARISONS, beside=[Cast, Where])
def comparison_of_choice_of_numbers(node: Node, op: Elementwise) -> Node | None:
    """``where(c, 1, 2) == 1`` is ``c``: comparing the numbers gives ``c``, ``~c`` or a constant."""
    for i, x in enumerate(node.inputs):
        number = number_of(node.inputs[1 - i])
        condition, numbers = _choice_of_numbers(x)
        if number is None or condition is None:
            continue
        dtype = x.type.dtype
        pairs = [(y, number) if i == 0 else (number, y) for y in numbers]
        with np.errstate(invalid="ignore"):
            if_true, if_false = (bool(op.perform(*np.array(pair, dtype))) for pair in pairs)
        if if_true == if_false:
            return fit_to(as_tensor(if_true), node)
        return fit_to(condition if if_true else logical_not(condition), node)
    return None


def _choice_of_numbers(x: Node) -> tuple[Node | None, list[float]]:
    """Return the condition of a choice of two numbers, and the numbers for true and false."""
    match x.op:
        case Cast() if x.inputs[0].type.dtype == "bool":
            return x.inputs[0], [1, 0]
        case Where():
            condition, a, b = x.inputs
            numbers = [real_number(a), real_number(b)]
            if None not in numbers:
                return condition, numbers  # type: ignore[return-value]
    return None, []


@rewrite("canonicalize", isnan, isinf, isfinite)
def finiteness_of_whole_number(node: Node, op: Elementwise) -> Node | None:
    """``isfinite(x)`` of integers is true, ``isnan(x)`` and ``isinf(x)`` are false."""
    (x,) = node.inputs
    if is_inexact(x.type.dtype):
        return None
    return ones_like(x, "bool") if op is isfinite else zeros_like(x, "bool")


# Logical functions.


@equation("canonicalize", dtypes=is_bool)
def not_of_not(x: Tensor) -> Equation:
    """``~~x`` of bools is ``x``."""
    return Equation(logical_not(logical_not(x)), x)


@equation("canonicalize", dtypes=is_bool)
def invert_of_bool(x: Tensor) -> Equation:
    """``invert(x)`` of bools is ``logical_not(x)``."""
    return Equation(invert(x), logical_not(x))


@equation("canonicalize", dtypes=is_bool)
def sum_of_bools(a: Tensor, b: Tensor) -> Equation:
    """``a + b`` of bools is ``a | b``."""
    return Equation(add(a, b), logical_or(a, b))


@equation("canonicalize", dtypes=is_bool)
def product_of_bools(a: Tensor, b: Tensor) -> Equation:
    """``a * b`` of bools is ``a & b``."""
    return Equation(multiply(a, b), logical_and(a, b))


@equation("canonicalize", dtypes=is_bool)
def maximum_of_bools(a: Tensor, b: Tensor) -> Equation:
    """``maximum(a, b)`` of bools is ``a | b``."""
    return Equation(maximum(a, b), logical_or(a, b))


@equation("canonicalize", dtypes=is_bool)
def minimum_of_bools(a: Tensor, b: Tensor) -> Equation:
    """``minimum(a, b)`` of bools is ``a & b``."""
    return Equation(minimum(a, b), logical_and(a, b))


@equation("canonicalize", dtypes=is_bool)
def bits_both_bools_have(a: Tensor, b: Tensor) -> Equation:
    """``bitwise_and(a, b)`` of bools is ``logical_and(a, b)``."""
    return Equation(bitwise_and(a, b), logical_and(a, b))


@equation("canonicalize", dtypes=is_bool)
def bits_either_bool_has(a: Tensor, b: Tensor) -> Equation:
    """``bitwise_or(a, b)`` of bools is ``logical_or(a, b)``."""
    return Equation(bitwise_or(a, b), logical_or(a, b))


@equation("canonicalize", dtypes=is_bool)
def bits_one_bool_has(a: Tensor, b: Tensor) -> Equation:
    """``bitwise_xor(a, b)`` of bools is ``logical_xor(a, b)``."""
    return Equation(bitwise_xor(a, b), logical_xor(a, b))


@equation("canonicalize", dtypes=is_bool)
def equal_to_true(x: Tensor) -> Equation:
    """``x == True`` is ``x``."""
    return Equation(equal(x, True), x)


@equation("canonicalize", dtypes=is_bool)
def equal_to_false(x: Tensor) -> Equation:
    """``x == False`` is ``~x``."""
    return Equation(equal(x, False), logical_not(x))


@equation("canonicalize", dtypes=is_bool)
def not_equal_to_true(x: Tensor) -> Equation:
    """``x != True`` is ``~x``."""
    return Equation(not_equal(x, True), logical_not(x))


@equation("canonicalize", dtypes=is_bool)
def not_equal_to_false(x: Tensor) -> Equation:
    """``x != False`` is ``x``."""
    return Equation(not_equal(x, False), x)


@equation("canonicalize", dtypes=is_any)
def not_of_equal(a: Tensor, b: Tensor) -> Equation:
    """``not a == b`` is ``a != b``, for NaN too."""
    return Equation(logical_not(equal(a, b)), not_equal(a, b))


@equation("canonicalize", dtypes=is_any)
def not_of_not_equal(a: Tensor, b: Tensor) -> Equation:
    """``not a != b`` is ``a == b``, for NaN too."""
    return Equation(logical_not(not_equal(a, b)), equal(a, b))


@equation("canonicalize", dtypes=is_whole)
def not_of_less(a: Tensor, b: Tensor) -> Equation:
    """``not a < b`` is ``a >= b`` for integers and bools; for NaN, both comparisons are false."""
    return Equation(logical_not(less(a, b)), greater_equal(a, b))


@equation("canonicalize", dtypes=is_whole)
def not_of_less_equal(a: Tensor, b: Tensor) -> Equation:
    """``not a <= b`` is ``a > b`` for integers and bools."""
    return Equation(logical_not(less_equal(a, b)), greater(a, b))


@equation("canonicalize", dtypes=is_whole)
def not_of_greater(a: Tensor, b: Tensor) -> Equation:
    """``not a > b`` is ``a <= b`` for integers and bools."""
    return Equation(logical_not(greater(a, b)), less_equal(a, b))


@equation("canonicalize", dtypes=is_whole)
def not_of_greater_equal(a: Tensor, b: Tensor) -> Equation:
    """``not a >= b`` is ``a < b`` for integers and bools."""
    return Equation(logical_not(greater_equal(a, b)), less(a, b))


@equation("canonicalize", dtypes=is_bool)
def and_with_itself(x: Tensor) -> Equation:
    """``x & x`` of bools is ``x``."""
    return Equation(logical_and(x, x), x)


@equation("canonicalize", dtypes=is_bool)
def or_with_itself(x: Tensor) -> Equation:
    """``x | x`` of bools is ``x``."""
    return Equation(logical_or(x, x), x)


@equation("canonicalize", dtypes=is_bool)
def xor_with_itself(x: Tensor) -> Equation:
    """``x ^ x`` of bools is ``False``."""
    return Equation(logical_xor(x, x), zeros_like(x))


@equation("canonicalize", dtypes=is_bool)
def and_with_true(x: Tensor) -> Equation:
    """``x & True`` is ``x``."""
    return Equation(logical_and(x, True), x)


@equation("canonicalize", dtypes=is_bool)
def and_with_false(x: Tensor) -> Equation:
    """``x & False`` is ``False``."""
    return Equation(logical_and(x, False), zeros_like(x))


@equation("canonicalize", dtypes=is_bool)
def or_with_false(x: Tensor) -> Equation:
    """``x | False`` is ``x``."""
    return Equation(logical_or(x, False), x)


@equation("canonicalize", dtypes=is_bool)
def or_with_true(x: Tensor) -> Equation:
    """``x | True`` is ``True``."""
    return Equation(logical_or(x, True), ones_like(x))


@equation("canonicalize", dtypes=is_bool)
def xor_with_false(x: Tensor) -> Equation:
    """``x ^ False`` is ``x``."""
    return Equation(logical_xor(x, False), x)


@equation("canonicalize", dtypes=is_bool)
def xor_with_true(x: Tensor) -> Equation:
    """``x ^ True`` is ``~x``."""
    return Equation(logical_xor(x, True), logical_not(x))


@equation("canonicalize", dtypes=is_bool)
def and_with_negation(x: Tensor) -> Equation:
    """``x & ~x`` of bools is ``False``."""
    return Equation(logical_and(x, logical_not(x)), zeros_like(x))


@equation("canonicalize", dtypes=is_bool)
def or_with_negation(x: Tensor) -> Equation:
    """``x | ~x`` of bools is ``True``."""
    return Equation(logical_or(x, logical_not(x)), ones_like(x))


@equation("canonicalize", dtypes=is_bool)
def xor_with_negation(x: Tensor) -> Equation:
    """``x ^ ~x`` of bools is ``True``."""
    return Equation(logical_xor(x, logical_not(x)), ones_like(x))


@equation("canonicalize", dtypes=is_bool)
def and_of_negations(a: Tensor, b: Tensor) -> Equation:
    """``~a & ~b`` is ``~(a | b)``, by De Morgan's law: one negation instead of two."""
    return Equation(logical_and(logical_not(a), logical_not(b)), logical_not(logical_or(a, b)))


@equation("canonicalize", dtypes=is_bool)
def or_of_negations(a: Tensor, b: Tensor) -> Equation:
    """``~a | ~b`` is ``~(a & b)``, by De Morgan's law: one negation instead of two."""
    return Equation(logical_or(logical_not(a), logical_not(b)), logical_not(logical_and(a, b)))


@equation("canonicalize", dtypes=is_bool)
def xor_of_negations(a: Tensor, b: Tensor) -> Equation:
    """``~a ^ ~b`` is ``a ^ b``."""
    return Equation(logical_xor(logical_not(a), logical_not(b)), logical_xor(a, b))


@equation("canonicalize", dtypes=is_bool)
def and_with_disjunction(a: Tensor, b: Tensor) -> Equation:
    """``a & (a | b)`` is ``a``."""
    return Equation(logical_and(a, logical_or(a, b)), a)


@equation("canonicalize", dtypes=is_bool)
def or_with_conjunction(a: Tensor, b: Tensor) -> Equation:
    """``a | (a & b)`` is ``a``."""
    return Equation(logical_or(a, logical_and(a, b)), a)


@equation("canonicalize", dtypes=is_bool)
def and_with_conjunction(a: Tensor, b: Tensor) -> Equation:
    """``a & (a & b)`` is ``a & b``."""
    return Equation(logical_and(a, logical_and(a, b)), logical_and(a, b))


@equation("canonicalize", dtypes=is_bool)
def or_with_disjunction(a: Tensor, b: Tensor) -> Equation:
    """``a | (a | b)`` is ``a | b``."""
    return Equation(logical_or(a, logical_or(a, b)), logical_or(a, b))


@equation("canonicalize", dtypes=is_bool)
def or_of_conjunctions(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``(a & b) | (a & c)`` is ``a & (b | c)``."""
    lhs = logical_or(logical_and(a, b), logical_and(a, c))
    return Equation(lhs, logical_and(a, logical_or(b, c)))


@equation("canonicalize", dtypes=is_bool)
def and_of_disjunctions(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``(a | b) & (a | c)`` is ``a | (b & c)``."""
    lhs = logical_and(logical_or(a, b), logical_or(a, c))
    return Equation(lhs, logical_or(a, logical_and(b, c)))


# Bits of integers.


@equation("canonicalize", dtypes=is_integer)
def invert_of_invert(x: Tensor) -> Equation:
    """``~~x`` of integers is ``x``."""
    return Equation(invert(invert(x)), x)


@equation("canonicalize", dtypes=is_integer)
def common_bits_with_itself(x: Tensor) -> Equation:
    """``x & x`` of integers is ``x``."""
    return Equation(bitwise_and(x, x), x)


@equation("canonicalize", dtypes=is_integer)
def joint_bits_with_itself(x: Tensor) -> Equation:
    """``x | x`` of integers is ``x``."""
    return Equation(bitwise_or(x, x), x)


@equation("canonicalize", dtypes=is_integer)
def different_bits_from_itself(x: Tensor) -> Equation:
    """``x ^ x`` of integers is 0."""
    return Equation(bitwise_xor(x, x), zeros_like(x))


@equation("canonicalize", dtypes=is_integer)
def common_bits_with_inverse(x: Tensor) -> Equation:
    """``x & ~x`` of integers is 0."""
    return Equation(bitwise_and(x, invert(x)), zeros_like(x))


@equation("canonicalize", dtypes=is_integer)
def joint_bits_with_inverse(x: Tensor) -> Equation:
    """``x | ~x`` of integers is ``~0``."""
    return Equation(bitwise_or(x, invert(x)), invert(zeros_like(x)))


@equation("canonicalize", dtypes=is_integer)
def different_bits_from_inverse(x: Tensor) -> Equation:
    """``x ^ ~x`` of integers is ``~0``."""
    return Equation(bitwise_xor(x, invert(x)), invert(zeros_like(x)))


@equation("canonicalize", dtypes=is_integer)
def common_bits_with_zero(x: Tensor) -> Equation:
    """``x & 0`` is 0."""
    return Equation(bitwise_and(x, 0), zeros_like(x))


@equation("canonicalize", dtypes=is_integer)
def joint_bits_with_zero(x: Tensor) -> Equation:
    """``x | 0`` is ``x``."""
    return Equation(bitwise_or(x, 0), x)


@equation("canonicalize", dtypes=is_integer)
def different_bits_from_zero(x: Tensor) -> Equation:
    """``x ^ 0`` is ``x``."""
    return Equation(bitwise_xor(x, 0), x)


@rewrite("canonicalize", bitwise_and, bitwise_or, bitwise_xor, beside=[Constant])
def bits_with_all_bits(node: Node, op: Elementwise) -> Node | None:
    """``x & -1`` is ``x``, ``x | -1`` is -1, and ``x ^ -1`` is ``~x``."""
    all_bits, x = node.inputs
    value = number_of(all_bits)
    if value is None or ~value % 2 ** (8 * np.dtype(node.type.dtype).itemsize):
        return None
    if op is bitwise_xor:
        return fit_to(invert(x), node)
    return fit_to(x if op is bitwise_and else all_bits, node)


@equation("canonicalize", dtypes=is_signed)
def negative_of_invert(x: Tensor) -> Equation:
    """``-~x`` is ``x + 1`` in two's complement."""
    return Equation(-invert(x), x + 1)


@equation("canonicalize", dtypes=is_signed)
def invert_of_negative(x: Tensor) -> Equation:
    """``~-x`` is ``x - 1`` in two's complement."""
    return Equation(invert(-x), x - 1)


@equation("canonicalize", dtypes=is_integer)
def left_shift_by_zero(x: Tensor) -> Equation:
    """``x << 0`` is ``x``."""
    return Equation(left_shift(x, 0), x)


@equation("canonicalize", dtypes=is_integer)
def right_shift_by_zero(x: Tensor) -> Equation:
    """``x >> 0`` is ``x``."""
    return Equation(right_shift(x, 0), x)


@rewrite("canonicalize", left_shift, right_shift, beside=[left_shift, right_shift])
def shift_of_shift(node: Node, op: Elementwise) -> Node | None:
    """``(x << 1) << 2`` is ``x << 3``: the sum must be less than the number of bits."""
    inner, outer = node.inputs
    if inner.op is not op:
        return None
    x, first = inner.inputs
    a, b = number_of(first), number_of(outer)
    bits = 8 * np.dtype(node.type.dtype).itemsize
    if a is None or b is None or a < 0 or b < 0 or a + b >= bits:
        return None
    return fit_to(op(x, as_tensor(a + b, dtype=node.type.dtype)), node)
