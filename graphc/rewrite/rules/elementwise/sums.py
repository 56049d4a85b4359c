"""Rules of sums and differences."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from graphc.ir import Constant, Node, is_inexact, is_integer
from graphc.rewrite.algebra.sums import (
    Shifted,
    exact_sum,
    integer_sum,
    real_number,
    rounded,
    shifted,
    sum_of,
    term,
)
from graphc.rewrite.facts.dtypes import is_real, limits
from graphc.rewrite.facts.lengths import equal_lengths, fitted, symbolic_length
from graphc.rewrite.rule import UNIFORM, Equation, equation, rewrite, scalar_value
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.core.elementwise import Elementwise, add, isfinite, multiply, negative, subtract
from graphc.tensor.core.shape import Length
from graphc.tensor.core.tensor import Tensor, as_tensor


@equation("canonicalize")
def sum_with_zero(x: Tensor) -> Equation:
    """0 changes nothing when added."""
    return Equation(x + 0, x)


@equation("canonicalize")
def difference_from_zero(x: Tensor) -> Equation:
    """0 changes nothing when taken away."""
    return Equation(x - 0, x)


@equation("canonicalize", dtypes=is_real)
def zero_less_number(x: Tensor) -> Equation:
    """``0 - x`` is ``-x``."""
    return Equation(0 - x, -x)


@equation("canonicalize", absorbing=True)
def difference_from_itself(x: Tensor) -> Equation:
    """A finite number less itself is 0."""
    return Equation(x - x, zeros_like(x))


@rewrite("canonicalize", add, multiply, beside=UNIFORM)
def operand_of_neutral_elements(node: Node, op: Elementwise) -> Node | None:
    """An array of zeros added, or of ones multiplied, does no more than broadcast."""
    neutral = 0 if op is add else 1
    for x, other in (node.inputs, node.inputs[::-1]):
        if x.type.ndim and x.type.dtype != "bool" and scalar_value(x) == neutral:
            return fitted(other, node) if _is_of_lengths(x, other) else None
    return None


def _is_of_lengths(x: Node, other: Node) -> bool:
    """Whether the lengths that were asked for are known to be another array's, where it has any.

    If they are not, the sum is what sees to it. Those of arrays need not be: of zeros or ones
    nothing is used.
    """
    if not isinstance(x.op, BroadcastTo):
        return True
    for axis in range(-min(x.type.ndim, other.type.ndim), 0):
        n = symbolic_length(x.op.shape, x.inputs[1:], axis + x.type.ndim)
        asked = isinstance(n, Node) and not isinstance(n.op, Length) and other.type.shape[axis] != 1
        if asked and not equal_lengths(x, axis, other, axis):
            return False
    return True


# Signs.


@equation("canonicalize")
def negative_of_negative(x: Tensor) -> Equation:
    """Two changes of sign are none."""
    return Equation(negative(negative(x)), x)


@equation("canonicalize", dtypes=is_real)
def negative_of_difference(a: Tensor, b: Tensor) -> Equation:
    """The other difference has the other sign."""
    return Equation(-(a - b), b - a)


@equation("canonicalize")
def sum_with_negative(a: Tensor, b: Tensor) -> Equation:
    """Adding what has its sign changed is taking away."""
    return Equation(a + -b, a - b)


@equation("canonicalize")
def difference_from_negative(a: Tensor, b: Tensor) -> Equation:
    """Taking away what has its sign changed is adding."""
    return Equation(a - -b, a + b)


@equation("canonicalize")
def difference_of_negative(a: Tensor, b: Tensor) -> Equation:
    """The sign is changed last, of the sum."""
    return Equation(-a - b, -(a + b))


@rewrite("canonicalize", add, subtract, beside=[Constant])
def negative_constant_in_sum(node: Node, op: Elementwise) -> Node | None:
    """A negative number added is taken away, and the other way round: one form for both."""
    x, number = node.inputs[::-1] if op is add else node.inputs
    value = real_number(number)
    if value is None or value >= 0 or (is_integer(node.type.dtype) and _is_lowest(number, value)):
        return None
    positive = as_tensor(-value, dtype=node.type.dtype)
    return fitted((subtract if op is add else add)(x, positive), node)


def _is_lowest(x: Node, value: float) -> bool:
    return value == np.iinfo(x.type.dtype).min


@rewrite("specialize", negative, beside=[add], dtypes=is_inexact)
def negative_of_sum_with_constant(node: Node, op: Elementwise) -> Node | None:
    """The constant takes the sign: ``-(x + 1)`` is ``-1 - x``."""
    (total,) = node.inputs
    parts = shifted(total)
    if parts is None:
        return None
    return fitted(sum_of([(-parts.sign, parts.rest)], -parts.constant, node.type.dtype), node)


# Constants and equal terms taken together.


@rewrite("canonicalize", add, subtract, dtypes=is_integer)
def integers_taken_together(node: Node, op: Elementwise) -> Node | None:
    """Equal terms of a sum of integers are one, and its constants too: ``i + 1 + j - i``."""
    found = integer_sum(node)
    return None if found is None else fitted(found, node)


@rewrite("canonicalize", add, subtract, beside=[Constant], dtypes=is_inexact)
def constants_of_sum(node: Node, op: Elementwise) -> Node | None:
    """Numbers added one after the other are added at once, where neither drowns in the other.

    ``1 - p + 1e-10`` stays, or in single precision 1e-10 would be gone.
    """
    outer = shifted(node)
    if outer is None:
        return None
    inner = shifted(outer.rest)
    if inner is None:
        return _constants_around_sum(node, outer)
    constant = exact_sum(outer.constant, outer.sign * inner.constant, node.type.dtype)
    if constant is None:
        return None
    whole = sum_of([(outer.sign * inner.sign, inner.rest)], constant, node.type.dtype)
    return fitted(whole, node)


def _constants_around_sum(node: Node, outer: Shifted) -> Node | None:
    """``((x + 1) + y) + 2`` as ``(x + y) + 3``."""
    total, dtype = outer.rest, node.type.dtype
    if total.op is not add and total.op is not subtract:
        return None
    a, b = total.inputs
    right = -1 if total.op is subtract else 1
    for first, other, signs in ((a, b, (1, right)), (b, a, (right, 1))):
        inner = shifted(first)
        if inner is None:
            continue
        constants = outer.constant, outer.sign * signs[0] * inner.constant
        if abs(constants[0]) < abs(constants[1]):
            continue  # what is left of the larger one and its term may be small
        constant = exact_sum(*constants, dtype)
        if constant is None or not all(_is_harmless(c, dtype) for c in constants):
            continue
        left = outer.sign * signs[0] * inner.sign
        pair = [(left, inner.rest), (outer.sign * signs[1], other)]
        return fitted(sum_of(pair, constant, dtype), node)
    return None


def _is_harmless(constant: float, dtype: str) -> bool:
    """Whether a number is too small to decide that a sum overflows."""
    eps, _, largest = limits(dtype)
    return abs(constant) < largest * eps / 2


@equation("canonicalize", dtypes=is_real)
def sum_with_itself(x: Tensor) -> Equation:
    """A number added to itself is twice the number."""
    return Equation(x + x, x * 2)


@rewrite(
    "canonicalize",
    add,
    subtract,
    beside=[multiply, negative, add, subtract],
    dtypes=is_inexact,
)
def multiples_taken_together(node: Node, op: Elementwise) -> Node | None:
    """Multiples of one thing are one multiple of it: ``2 * x + 3 * x``."""
    dtype = node.type.dtype
    a, b = node.inputs
    (m, x), (n, y) = term(a), term(b)
    sign = -1 if op is subtract else 1
    if x is y:
        factor = rounded(Fraction(m) + sign * Fraction(n), dtype)
        return fitted(sum_of([(factor, x)], 0, dtype), node) if factor else None
    found = _multiple_in_sum(node, a, (sign * n, y))
    return _multiple_in_sum(node, b, (m, x)) if found is None and op is add else found


def _multiple_in_sum(node: Node, total: Node, found: tuple[float, Node]) -> Node | None:
    """``(3 * x + y) - x`` as ``2 * x + y``; a larger multiple might overflow."""
    if total.op is not add and total.op is not subtract:
        return None
    m, x = found
    a, b = total.inputs
    right = -1 if total.op is subtract else 1
    for multiple, sign, other in ((a, 1, (right, b)), (b, right, (1, a))):
        n, y = term(multiple) if multiple.op is multiply else (1, multiple)
        if y is not x:
            continue
        factor = rounded(Fraction(m) + sign * Fraction(n), node.type.dtype)
        if factor and abs(factor) < max(abs(m), abs(n)):
            return fitted(sum_of([(factor, x), other], 0, node.type.dtype), node)
    return None


# What is added and taken away again. The right sides are the true values, where the left ones have
# lost digits, or are inf - inf.


def first_is_finite(a: Tensor, *others: Tensor) -> Tensor:
    """Where the first one is neither infinite nor NaN."""
    return isfinite(a)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def sum_less_part(a: Tensor, b: Tensor) -> Equation:
    """``(a + b) - a`` is ``b``."""
    return Equation((a + b) - a, b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def part_less_sum(a: Tensor, b: Tensor) -> Equation:
    """A part less the whole is what the other part lacks."""
    return Equation(a - (a + b), -b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def difference_put_back(b: Tensor, a: Tensor) -> Equation:
    """``(a - b) + b`` is ``a``."""
    return Equation((a - b) + b, a)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def whole_less_difference(a: Tensor, b: Tensor) -> Equation:
    """The whole less what is left of it is what was taken away."""
    return Equation(a - (a - b), b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def difference_less_whole(a: Tensor, b: Tensor) -> Equation:
    """``(a - b) - a`` is ``-b``."""
    return Equation((a - b) - a, -b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def sum_of_adjacent_differences(b: Tensor, a: Tensor, c: Tensor) -> Equation:
    """From a to b and from b to c is from a to c."""
    return Equation((a - b) + (b - c), a - c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def differences_from_one_end(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """The common end does not matter."""
    return Equation((a - b) - (a - c), c - b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def differences_to_one_end(c: Tensor, a: Tensor, b: Tensor) -> Equation:
    """The common end does not matter."""
    return Equation((a - c) - (b - c), a - b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def sums_with_one_part(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """The common part does not matter."""
    return Equation((a + b) - (a + c), b - c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def sum_less_difference(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """The common part does not matter."""
    return Equation((a + b) - (a - c), b + c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def difference_less_sum(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """The common part does not matter."""
    return Equation((a - b) - (a + c), -(b + c))


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def difference_and_sum(b: Tensor, a: Tensor, c: Tensor) -> Equation:
    """``(a - b) + (b + c)`` is ``a + c``."""
    return Equation((a - b) + (b + c), a + c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def longer_sum_less_part(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """A term that is added first cancels with one subtracted last."""
    return Equation(((a + b) + c) - a, b + c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def longer_sum_put_back(b: Tensor, a: Tensor, c: Tensor) -> Equation:
    """A term that is subtracted first cancels with one added last."""
    return Equation(((a - b) + c) + b, a + c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def longer_difference_less_part(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """A term that is added first cancels with one subtracted last."""
    return Equation(((a + b) - c) - a, b - c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def longer_difference_put_back(b: Tensor, a: Tensor, c: Tensor) -> Equation:
    """A term that is subtracted first cancels with one added last."""
    return Equation(((a - b) - c) + b, a - c)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def difference_from_sum_put_back(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``(c - (a + b)) + a`` is ``c - b``."""
    return Equation((c - (a + b)) + a, c - b)


@equation("stabilize", dtypes=is_inexact, domain=first_is_finite)
def difference_from_difference_put_back(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``(c - (a - b)) + a`` is ``c + b``."""
    return Equation((c - (a - b)) + a, c + b)
