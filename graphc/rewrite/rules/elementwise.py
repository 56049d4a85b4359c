"""Rules of functions applied to each element: identities, and forms that keep their digits."""

from __future__ import annotations

import numpy as np

from graphc.ir import (
    Node,
    is_complex,
    is_float,
    is_inexact,
    is_integer,
    is_numeric,
    real_dtype,
)
from graphc.rewrite.lengths import fitted
from graphc.rewrite.rule import Equation, equation, rewrite, scalar_value
from graphc.tensor.create import ones_like, zeros_like
from graphc.tensor.elementwise import (
    Cast,
    Elementwise,
    Where,
    abs,
    add,
    cast,
    conj,
    equal,
    greater,
    invert,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    reciprocal,
    sqrt,
    square,
    where,
)
from graphc.tensor.exponential import power
from graphc.tensor.tensor import Tensor


def is_bool(dtype: str) -> bool:
    """Whether values are true or false."""
    return dtype == "bool"


def is_ordered(dtype: str) -> bool:
    """Whether values have an order: all but complex numbers."""
    return not is_complex(dtype)


def is_real(dtype: str) -> bool:
    """Whether values are real numbers, whole or not."""
    return is_integer(dtype) or is_float(dtype)


def is_any(dtype: str) -> bool:
    """All dtypes."""
    return True


# Neutral and absorbing operands.


@equation("canonicalize")
def sum_with_zero(x: Tensor) -> Equation:
    """0 changes nothing when added."""
    return Equation(x + 0, x)


@equation("canonicalize")
def difference_from_zero(x: Tensor) -> Equation:
    """0 changes nothing when taken away."""
    return Equation(x - 0, x)


@equation("canonicalize")
def product_with_one(x: Tensor) -> Equation:
    """1 changes nothing as a factor."""
    return Equation(x * 1, x)


@equation("canonicalize", dtypes=is_inexact)
def quotient_by_one(x: Tensor) -> Equation:
    """1 changes nothing as a divisor."""
    return Equation(x / 1, x)


@equation("canonicalize")
def power_of_one(x: Tensor) -> Equation:
    """1 changes nothing as an exponent."""
    return Equation(x**1, x)


@equation("canonicalize", absorbing=True)
def product_with_zero(x: Tensor) -> Equation:
    """A finite number times 0 is 0."""
    return Equation(x * 0, zeros_like(x))


@equation("canonicalize", dtypes=is_real)
def power_of_zero(x: Tensor) -> Equation:
    """Anything to the power of 0 is 1, also NaN."""
    return Equation(x**0, ones_like(x))


@rewrite("canonicalize", add, multiply)
def operand_of_neutral_elements(node: Node, op: Elementwise) -> Node | None:
    """An array of zeros added, or of ones multiplied, does no more than broadcast."""
    neutral = 0 if op is add else 1
    for x, other in (node.inputs, node.inputs[::-1]):
        if x.type.ndim and is_numeric(x.type.dtype) and scalar_value(x) == neutral:
            return fitted(other, node)
    return None


# Signs.


@equation("canonicalize")
def product_with_minus_one(x: Tensor) -> Equation:
    """A product with -1 changes the sign."""
    return Equation(x * -1, -x)


@equation("canonicalize")
def negative_of_negative(x: Tensor) -> Equation:
    """Two changes of sign are none."""
    return Equation(negative(negative(x)), x)


@equation("canonicalize")
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


@equation("canonicalize")
def product_with_negative(a: Tensor, b: Tensor) -> Equation:
    """The sign is changed last, of the product."""
    return Equation(-a * b, -(a * b))


@equation("canonicalize", dtypes=is_float)
def quotient_of_negative(a: Tensor, b: Tensor) -> Equation:
    """The sign is changed last, of the quotient."""
    return Equation(-a / b, -(a / b))


@equation("canonicalize", dtypes=is_float)
def quotient_by_negative(a: Tensor, b: Tensor) -> Equation:
    """The sign is changed last, of the quotient."""
    return Equation(a / -b, -(a / b))


@equation("canonicalize", dtypes=is_integer)
def difference_from_itself(x: Tensor) -> Equation:
    """Integers less themselves are 0; inf - inf is not, so floats stay."""
    return Equation(x - x, zeros_like(x))


@equation("canonicalize", dtypes=is_inexact)
def abs_of_negative(x: Tensor) -> Equation:
    """The magnitude does not see the sign."""
    return Equation(abs(-x), abs(x))


@equation("canonicalize")
def abs_of_abs(x: Tensor) -> Equation:
    """A magnitude is its own magnitude."""
    return Equation(abs(abs(x)), abs(x))


@equation("canonicalize", dtypes=is_float)
def abs_of_square(x: Tensor) -> Equation:
    """A real square is not negative; an integer one can overflow to be."""
    return Equation(abs(square(x)), square(x))


@equation("canonicalize", dtypes=is_float)
def square_of_abs(x: Tensor) -> Equation:
    """A real square does not see the sign."""
    return Equation(square(abs(x)), square(x))


@equation("canonicalize")
def square_of_negative(x: Tensor) -> Equation:
    """A square does not see the sign."""
    return Equation(square(-x), square(x))


@equation("canonicalize", dtypes=is_complex)
def conj_of_conj(x: Tensor) -> Equation:
    """Two conjugations are none."""
    return Equation(conj(conj(x)), x)


# One form for powers.


@equation("canonicalize", dtypes=is_real)
def power_of_two(x: Tensor) -> Equation:
    """A square is one product."""
    return Equation(x**2, square(x))


@equation("canonicalize")
def product_with_itself(x: Tensor) -> Equation:
    """A number times itself is its square."""
    return Equation(x * x, square(x))


@equation("canonicalize", dtypes=is_float, domain=lambda x: greater(x, -np.inf))
def power_of_half(x: Tensor) -> Equation:
    """A power of 1/2 is the square root; of -inf, sqrt gives NaN where power gives inf."""
    return Equation(x**0.5, sqrt(x))


@equation("canonicalize", dtypes=is_float)
def power_of_minus_one(x: Tensor) -> Equation:
    """A power of -1 is a quotient."""
    return Equation(x**-1, 1 / x)


@equation("canonicalize", dtypes=is_inexact)
def reciprocal_as_quotient(x: Tensor) -> Equation:
    """One form for both, so that what is said of quotients holds for it."""
    return Equation(reciprocal(x), 1 / x)


@rewrite("specialize", power)
def power_of_small_integer(node: Node, op: object) -> Node | None:
    """Third and fourth powers are two products, where a power is a logarithm and an exponential."""
    x, exponent = node.inputs
    if not is_float(node.type.dtype):
        return None
    match scalar_value(exponent):
        case 3:
            return fitted(multiply(x, square(x)), node)
        case 4:
            return fitted(square(square(x)), node)
    return None


# Truth and choice.


@equation("canonicalize", dtypes=is_bool)
def not_of_not(x: Tensor) -> Equation:
    """Two negations are none."""
    return Equation(logical_not(logical_not(x)), x)


@equation("canonicalize", dtypes=is_bool)
def invert_of_bool(x: Tensor) -> Equation:
    """The other bit of a bool is its negation."""
    return Equation(invert(x), logical_not(x))


@equation("canonicalize", dtypes=is_any)
def not_of_equal(a: Tensor, b: Tensor) -> Equation:
    """Not equal is the negation of equal, also beside NaN; of the orders that is not so."""
    return Equation(logical_not(equal(a, b)), not_equal(a, b))


@equation("canonicalize", dtypes=is_any)
def not_of_not_equal(a: Tensor, b: Tensor) -> Equation:
    """Equal is the negation of not equal, also beside NaN."""
    return Equation(logical_not(not_equal(a, b)), equal(a, b))


@equation("canonicalize", dtypes=is_bool)
def and_with_itself(x: Tensor) -> Equation:
    """Both of one truth are that one."""
    return Equation(logical_and(x, x), x)


@equation("canonicalize", dtypes=is_bool)
def or_with_itself(x: Tensor) -> Equation:
    """Either of one truth is that one."""
    return Equation(logical_or(x, x), x)


@equation("canonicalize", dtypes=is_bool)
def and_with_true(x: Tensor) -> Equation:
    """True changes nothing in a conjunction."""
    return Equation(logical_and(x, True), x)


@equation("canonicalize", dtypes=is_bool)
def and_with_false(x: Tensor) -> Equation:
    """False decides a conjunction."""
    return Equation(logical_and(x, False), zeros_like(x))


@equation("canonicalize", dtypes=is_bool)
def or_with_false(x: Tensor) -> Equation:
    """False changes nothing in a disjunction."""
    return Equation(logical_or(x, False), x)


@equation("canonicalize", dtypes=is_bool)
def or_with_true(x: Tensor) -> Equation:
    """True decides a disjunction."""
    return Equation(logical_or(x, True), ones_like(x))


@equation("canonicalize", dtypes=is_ordered)
def maximum_with_itself(x: Tensor) -> Equation:
    """The larger of two equal numbers is that number."""
    return Equation(maximum(x, x), x)


@equation("canonicalize", dtypes=is_ordered)
def minimum_with_itself(x: Tensor) -> Equation:
    """The smaller of two equal numbers is that number."""
    return Equation(minimum(x, x), x)


@rewrite("canonicalize", Where)
def choice_of_one_thing(node: Node, op: Where) -> Node | None:
    """What is chosen either way needs no condition."""
    _, a, b = node.inputs
    return fitted(a, node) if a is b else None


@rewrite("canonicalize", Where)
def choice_by_constant(node: Node, op: Where) -> Node | None:
    """A condition that is always true or always false chooses once and for all."""
    condition, a, b = node.inputs
    truth = scalar_value(condition)
    return None if truth is None else fitted(a if truth else b, node)


@rewrite("canonicalize", Where)
def choice_by_negation(node: Node, op: Where) -> Node | None:
    """A negated condition chooses the other way round."""
    condition, a, b = node.inputs
    if condition.op is not logical_not:
        return None
    return where(condition.inputs[0], b, a)  # type: ignore[no-any-return]


@rewrite("canonicalize", Where)
def choice_within_choice(node: Node, op: Where) -> Node | None:
    """A second question with the same condition has the same answer."""
    condition, a, b = node.inputs
    if isinstance(a.op, Where) and a.inputs[0] is condition:
        a = a.inputs[1]
    if isinstance(b.op, Where) and b.inputs[0] is condition:
        b = b.inputs[2]
    made = node.with_inputs([condition, a, b])
    return made if made.type is node.type else None


# Casts.


@rewrite("canonicalize", Cast)
def cast_to_own_dtype(node: Node, op: Cast) -> Node | None:
    """An array that has the dtype already is left as it is."""
    (x,) = node.inputs
    return x if x.type.dtype == op.dtype else None


@rewrite("canonicalize", Cast)
def cast_of_cast(node: Node, op: Cast) -> Node | None:
    """A dtype on the way that holds every value exactly leaves no trace."""
    (between,) = node.inputs
    if not isinstance(between.op, Cast):
        return None
    (x,) = between.inputs
    first, middle, last = x.type.dtype, between.type.dtype, op.dtype
    # A negative float has no value as an unsigned integer; a negative integer wraps around.
    wraps = is_integer(last) and is_inexact(middle) and not is_inexact(first)
    if not holds(middle, first) or (wraps and not holds(last, first)):
        return None
    return cast(x, last)


def holds(wide: str, narrow: str) -> bool:
    """Whether every value of the narrow dtype is exactly one of the wide dtype."""
    if narrow in {wide, "bool"}:
        return True
    if wide == "bool" or (is_complex(narrow) and not is_complex(wide)):
        return False
    if is_integer(wide):
        return is_integer(narrow) and np.can_cast(narrow, wide, "safe")
    digits, range_ = _float_size(real_dtype(wide))
    if is_integer(narrow):
        bounds = np.iinfo(narrow)
        return max(-int(bounds.min), int(bounds.max)).bit_length() <= digits
    less_digits, less_range = _float_size(real_dtype(narrow))
    return less_digits <= digits and less_range <= range_


def _float_size(dtype: str) -> tuple[int, int]:
    sizes = {"bfloat16": (8, 8), "float16": (11, 5), "float32": (24, 8), "float64": (53, 11)}
    return sizes[dtype]


# Roots.


@equation("stabilize", dtypes=is_float)
def sqrt_of_square(x: Tensor) -> Equation:
    """The square overflows from 1e154 on, and is 0 below 1e-162."""
    return Equation(sqrt(square(x)), abs(x))
