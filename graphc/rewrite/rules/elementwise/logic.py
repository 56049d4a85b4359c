"""Rules of comparisons, logical functions and bitwise functions."""

from __future__ import annotations

from functools import partial

import numpy as np

from graphc.intervals.interval import numbers_of
from graphc.intervals.rules import image
from graphc.ir import Constant, Node, is_inexact, is_integer
from graphc.ir.dtypes import is_any, is_bool, is_ordered, is_signed, is_whole
from graphc.rewrite.algebra.sums import real_number
from graphc.rewrite.facts.bounds import bounds_of
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import enter_equation, number_of, rewrite
from graphc.tensor.arrays.create import ones_like, zeros_like
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.tensor import as_tensor

wholes = partial(enter_equation, "canonicalize", is_whole, scope="integers and bools")
ordered = partial(enter_equation, "canonicalize", is_ordered)
integers = partial(enter_equation, "canonicalize", is_integer, scope="integers")
bools = partial(enter_equation, "canonicalize", is_bool, scope="bools")
anything = partial(enter_equation, "canonicalize", is_any)
signed = partial(enter_equation, "canonicalize", is_signed, scope="signed integers")

# Comparisons.

wholes(
    "equal_to_itself", lambda x: (ew.equal(x, x), ones_like(x, "bool")), ": NaN differs from itself"
)
wholes(
    "not_equal_to_itself",
    lambda x: (ew.not_equal(x, x), zeros_like(x, "bool")),
    ": NaN differs from itself",
)
wholes(
    "at_most_itself", lambda x: (ew.less_equal(x, x), ones_like(x, "bool")), ": for NaN it is false"
)
wholes(
    "at_least_itself",
    lambda x: (ew.greater_equal(x, x), ones_like(x, "bool")),
    ": for NaN it is false",
)
ordered("less_than_itself", lambda x: (ew.less(x, x), zeros_like(x, "bool")), ", for NaN too")
ordered("greater_than_itself", lambda x: (ew.greater(x, x), zeros_like(x, "bool")), ", for NaN too")
integers(
    "difference_equal_to_zero",
    lambda a, b: (ew.equal(a - b, 0), ew.equal(a, b)),
    ": for floats, ``inf - inf`` is NaN",
)
integers(
    "difference_not_equal_to_zero",
    lambda a, b: (ew.not_equal(a - b, 0), ew.not_equal(a, b)),
    ": for floats, ``inf - inf`` is NaN",
)


COMPARISONS = (ew.less, ew.less_equal, ew.greater, ew.greater_equal, ew.equal, ew.not_equal)


@rewrite("canonicalize", *COMPARISONS)
def comparison_decided_by_bounds(node: Node, op: ew.Elementwise) -> Node | None:
    """``x.shape[0] >= 0`` is true, and so for every comparison of integers that bounds decide."""
    a, b = node.inputs
    if not is_whole(a.type.dtype):
        return None
    truth = image(numbers_of(a.type.dtype), op.row, bounds_of(a), bounds_of(b))
    if truth is None or truth.low != truth.high:
        return None
    return fit_to(as_tensor(bool(truth.low)), node)


@rewrite("canonicalize", *COMPARISONS, beside=[ew.Cast, ew.Where])
def comparison_of_choice_of_numbers(node: Node, op: ew.Elementwise) -> Node | None:
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
        return fit_to(condition if if_true else ew.logical_not(condition), node)
    return None


def _choice_of_numbers(x: Node) -> tuple[Node | None, list[float]]:
    """Return the condition of a choice of two numbers, and the numbers for true and false."""
    match x.op:
        case ew.Cast() if x.inputs[0].type.dtype == "bool":
            return x.inputs[0], [1, 0]
        case ew.Where():
            condition, a, b = x.inputs
            numbers = [real_number(a), real_number(b)]
            if None not in numbers:
                return condition, numbers  # type: ignore[return-value]
    return None, []


@rewrite("canonicalize", ew.isnan, ew.isinf, ew.isfinite)
def finiteness_of_whole_number(node: Node, op: ew.Elementwise) -> Node | None:
    """``isfinite(x)`` of integers is true, ``isnan(x)`` and ``isinf(x)`` are false."""
    (x,) = node.inputs
    if is_inexact(x.type.dtype):
        return None
    return ones_like(x, "bool") if op is ew.isfinite else zeros_like(x, "bool")


# Logical functions.

bools("not_of_not", lambda x: (ew.logical_not(ew.logical_not(x)), x))
bools("invert_of_bool", lambda x: (ew.invert(x), ew.logical_not(x)))
bools("sum_of_bools", lambda a, b: (ew.add(a, b), ew.logical_or(a, b)))
bools("product_of_bools", lambda a, b: (ew.multiply(a, b), ew.logical_and(a, b)))
bools("maximum_of_bools", lambda a, b: (ew.maximum(a, b), ew.logical_or(a, b)))
bools("minimum_of_bools", lambda a, b: (ew.minimum(a, b), ew.logical_and(a, b)))
bools("bits_both_bools_have", lambda a, b: (ew.bitwise_and(a, b), ew.logical_and(a, b)))
bools("bits_either_bool_has", lambda a, b: (ew.bitwise_or(a, b), ew.logical_or(a, b)))
bools("bits_one_bool_has", lambda a, b: (ew.bitwise_xor(a, b), ew.logical_xor(a, b)))
bools("equal_to_true", lambda x: (ew.equal(x, True), x))
bools("equal_to_false", lambda x: (ew.equal(x, False), ew.logical_not(x)))
bools("not_equal_to_true", lambda x: (ew.not_equal(x, True), ew.logical_not(x)))
bools("not_equal_to_false", lambda x: (ew.not_equal(x, False), x))
anything(
    "not_of_equal",
    lambda a, b: (ew.logical_not(ew.equal(a, b)), ew.not_equal(a, b)),
    ", for NaN too",
)
anything(
    "not_of_not_equal",
    lambda a, b: (ew.logical_not(ew.not_equal(a, b)), ew.equal(a, b)),
    ", for NaN too",
)
wholes(
    "not_of_less",
    lambda a, b: (ew.logical_not(ew.less(a, b)), ew.greater_equal(a, b)),
    ": for NaN, both comparisons are false",
)
wholes("not_of_less_equal", lambda a, b: (ew.logical_not(ew.less_equal(a, b)), ew.greater(a, b)))
wholes("not_of_greater", lambda a, b: (ew.logical_not(ew.greater(a, b)), ew.less_equal(a, b)))
wholes("not_of_greater_equal", lambda a, b: (ew.logical_not(ew.greater_equal(a, b)), ew.less(a, b)))
bools("and_with_itself", lambda x: (ew.logical_and(x, x), x))
bools("or_with_itself", lambda x: (ew.logical_or(x, x), x))
bools("xor_with_itself", lambda x: (ew.logical_xor(x, x), zeros_like(x)))
bools("and_with_true", lambda x: (ew.logical_and(x, True), x))
bools("and_with_false", lambda x: (ew.logical_and(x, False), zeros_like(x)))
bools("or_with_false", lambda x: (ew.logical_or(x, False), x))
bools("or_with_true", lambda x: (ew.logical_or(x, True), ones_like(x)))
bools("xor_with_false", lambda x: (ew.logical_xor(x, False), x))
bools("xor_with_true", lambda x: (ew.logical_xor(x, True), ew.logical_not(x)))
bools("and_with_negation", lambda x: (ew.logical_and(x, ew.logical_not(x)), zeros_like(x)))
bools("or_with_negation", lambda x: (ew.logical_or(x, ew.logical_not(x)), ones_like(x)))
bools("xor_with_negation", lambda x: (ew.logical_xor(x, ew.logical_not(x)), ones_like(x)))
bools(
    "and_of_negations",
    lambda a, b: (
        ew.logical_and(ew.logical_not(a), ew.logical_not(b)),
        ew.logical_not(ew.logical_or(a, b)),
    ),
    ", by De Morgan's law: one negation instead of two",
)
bools(
    "or_of_negations",
    lambda a, b: (
        ew.logical_or(ew.logical_not(a), ew.logical_not(b)),
        ew.logical_not(ew.logical_and(a, b)),
    ),
    ", by De Morgan's law: one negation instead of two",
)
bools(
    "xor_of_negations",
    lambda a, b: (ew.logical_xor(ew.logical_not(a), ew.logical_not(b)), ew.logical_xor(a, b)),
)
bools("and_with_disjunction", lambda a, b: (ew.logical_and(a, ew.logical_or(a, b)), a))
bools("or_with_conjunction", lambda a, b: (ew.logical_or(a, ew.logical_and(a, b)), a))
bools(
    "and_with_conjunction",
    lambda a, b: (ew.logical_and(a, ew.logical_and(a, b)), ew.logical_and(a, b)),
)
bools(
    "or_with_disjunction", lambda a, b: (ew.logical_or(a, ew.logical_or(a, b)), ew.logical_or(a, b))
)
bools(
    "or_of_conjunctions",
    lambda a, b, c: (
        ew.logical_or(ew.logical_and(a, b), ew.logical_and(a, c)),
        ew.logical_and(a, ew.logical_or(b, c)),
    ),
)
bools(
    "and_of_disjunctions",
    lambda a, b, c: (
        ew.logical_and(ew.logical_or(a, b), ew.logical_or(a, c)),
        ew.logical_or(a, ew.logical_and(b, c)),
    ),
)


# Bits of integers.

integers("invert_of_invert", lambda x: (ew.invert(ew.invert(x)), x))
integers("common_bits_with_itself", lambda x: (ew.bitwise_and(x, x), x))
integers("joint_bits_with_itself", lambda x: (ew.bitwise_or(x, x), x))
integers("different_bits_from_itself", lambda x: (ew.bitwise_xor(x, x), zeros_like(x)))
integers("common_bits_with_inverse", lambda x: (ew.bitwise_and(x, ew.invert(x)), zeros_like(x)))
integers(
    "joint_bits_with_inverse", lambda x: (ew.bitwise_or(x, ew.invert(x)), ew.invert(zeros_like(x)))
)
integers(
    "different_bits_from_inverse",
    lambda x: (ew.bitwise_xor(x, ew.invert(x)), ew.invert(zeros_like(x))),
)
integers("common_bits_with_zero", lambda x: (ew.bitwise_and(x, 0), zeros_like(x)))
integers("joint_bits_with_zero", lambda x: (ew.bitwise_or(x, 0), x))
integers("different_bits_from_zero", lambda x: (ew.bitwise_xor(x, 0), x))


@rewrite("canonicalize", ew.bitwise_and, ew.bitwise_or, ew.bitwise_xor, beside=[Constant])
def bits_with_all_bits(node: Node, op: ew.Elementwise) -> Node | None:
    """``x & -1`` is ``x``, ``x | -1`` is -1, and ``x ^ -1`` is ``~x``."""
    all_bits, x = node.inputs
    value = number_of(all_bits)
    if value is None or ~value % 2 ** (8 * np.dtype(node.type.dtype).itemsize):
        return None
    if op is ew.bitwise_xor:
        return fit_to(ew.invert(x), node)
    return fit_to(x if op is ew.bitwise_and else all_bits, node)


signed("negative_of_invert", lambda x: (-ew.invert(x), x + 1), " in two's complement")
signed("invert_of_negative", lambda x: (ew.invert(-x), x - 1), " in two's complement")
integers("left_shift_by_zero", lambda x: (ew.left_shift(x, 0), x))
integers("right_shift_by_zero", lambda x: (ew.right_shift(x, 0), x))


@rewrite("canonicalize", ew.left_shift, ew.right_shift, beside=[ew.left_shift, ew.right_shift])
def shift_of_shift(node: Node, op: ew.Elementwise) -> Node | None:
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
