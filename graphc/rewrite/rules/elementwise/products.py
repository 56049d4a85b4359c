"""Rules of products, quotients and powers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from graphc.ir import Constant, Node, is_float, is_inexact, is_integer, is_numeric
from graphc.ir.dtypes import is_real, is_signed, limits
from graphc.rewrite.algebra import products
from graphc.rewrite.algebra.sums import round_to_dtype
from graphc.rewrite.facts.bounds import bounds_of
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import Equation, enter_equation, equation, number_of, rewrite, scalar_value
from graphc.tensor.arrays.create import ones_like, zeros_like
from graphc.tensor.core.elementwise import (
    Elementwise,
    abs,
    add,
    divide,
    floor_divide,
    greater,
    isfinite,
    multiply,
    negative,
    not_equal,
    reciprocal,
    remainder,
    sqrt,
    square,
    subtract,
)
from graphc.tensor.core.exponential import power
from graphc.tensor.core.tensor import Tensor, as_tensor

numbers = partial(enter_equation, "canonicalize", is_numeric)
inexact = partial(enter_equation, "canonicalize", is_inexact)
reals = partial(enter_equation, "canonicalize", is_real)
floats = partial(enter_equation, "canonicalize", is_float)
integers = partial(enter_equation, "canonicalize", is_integer, scope="integers")
signed = partial(enter_equation, "canonicalize", is_signed, scope="signed integers")
stable = partial(enter_equation, "stabilize", is_float)


def first_divides(a: Tensor, *others: Tensor) -> Tensor:
    """Return where the first operand is neither 0, infinite nor NaN."""
    return isfinite(a) * not_equal(a, 0)


numbers("product_with_one", lambda x: (x * 1, x))
inexact("quotient_by_one", lambda x: (x / 1, x))


@equation("canonicalize", absorbing=True)
def product_with_zero(x: Tensor) -> Equation:
    """``x * 0`` is 0 for a finite ``x``."""
    return Equation(x * 0, zeros_like(x))


@equation("canonicalize", dtypes=is_inexact, absorbing=True)
def quotient_of_zero(x: Tensor) -> Equation:
    """``0 / x`` is 0, unless ``x`` is 0 or NaN."""
    return Equation(0 / x, zeros_like(x))


@equation("canonicalize", dtypes=is_inexact, domain=first_divides)
def quotient_by_itself(x: Tensor) -> Equation:
    """``x / x`` is 1, unless ``x`` is 0, infinite or NaN."""
    return Equation(x / x, ones_like(x))


inexact(
    "reciprocal_as_quotient",
    lambda x: (reciprocal(x), 1 / x),
    ", so that the rules of quotients apply",
)


# Signs.

reals("product_with_minus_one", lambda x: (x * -1, -x))
inexact("quotient_by_minus_one", lambda x: (x / -1, -x))
numbers(
    "product_with_negative",
    lambda a, b: (-a * b, -(a * b)),
    ": signs move outwards, where they cancel",
)
floats(
    "quotient_of_negative",
    lambda a, b: (-a / b, -(a / b)),
    ": signs move outwards, where they cancel",
)
floats(
    "quotient_by_negative",
    lambda a, b: (a / -b, -(a / b)),
    ": signs move outwards, where they cancel",
)


# Combining constants.


@rewrite("canonicalize", multiply, divide, negative, beside=[multiply, divide, negative])
def constants_of_product(node: Node, op: Elementwise) -> Node | None:
    """``x * 2 / 6`` is ``x / 3``: constant factors and divisors are combined.

    ``2 * (1 / y)`` is left to ``specialize``: with ``y = 1 + exp(x)``, a rule makes it a sigmoid.
    """
    return _combine_factors(node, lambda inner: inner.exponent == 1 or inner.factor != 1)


@rewrite("specialize", multiply, divide, negative, beside=[divide])
def constant_of_reciprocal(node: Node, op: Elementwise) -> Node | None:
    """``2 * (1 / y)`` is ``2 / y``."""
    return _combine_factors(node, lambda inner: True)


def _combine_factors(node: Node, admits: Callable[[products.Scaled], bool]) -> Node | None:
    outer = products.as_scaled(node) if any(map(products.has_factor, node.inputs)) else None
    inner = products.as_scaled(outer.base) if outer is not None else None
    if outer is None or inner is None or not admits(inner):
        return None
    factor = outer.factor * inner.factor**outer.exponent
    product = products.Scaled(factor, outer.exponent * inner.exponent, inner.base)
    result = products.product_of(product, node.type.dtype)
    return None if result is None else fit_to(result, node)


@rewrite("specialize", divide, beside=[Constant], dtypes=is_float)
def quotient_by_power_of_two(node: Node, op: Elementwise) -> Node | None:
    """``x / 2`` is ``x * 0.5``: powers of two have exact reciprocals; products are cheaper."""
    x, divisor = node.inputs
    value = scalar_value(divisor)
    if not value or math.fabs(np.frexp(value)[0]) != 0.5:
        return None
    inverse = round_to_dtype(1 / Fraction(value), node.type.dtype)
    if inverse is None:
        return None
    return fit_to(multiply(x, as_tensor(inverse, dtype=node.type.dtype)), node)


def has_reciprocal(a: Tensor, b: Tensor) -> Tensor:
    """Return where the reciprocal of b is neither infinite nor close to the subnormal numbers."""
    return isfinite(1 / b) * greater(abs(1 / b), 1e-30)


@equation("specialize", dtypes=is_inexact, domain=has_reciprocal)
def product_with_reciprocal(a: Tensor, b: Tensor) -> Equation:
    """``a * (1 / b)`` is ``a / b``."""
    return Equation(a * (1 / b), a / b)


@rewrite("canonicalize", floor_divide, beside=[floor_divide], dtypes=is_integer)
def floor_of_floor_quotient(node: Node, op: Elementwise) -> Node | None:
    """``i // 2 // 3`` is ``i // 6`` for integers."""
    inner, outer = node.inputs
    b = number_of(outer)
    if inner.op is not floor_divide:
        return None
    x, divisor = inner.inputs
    a = number_of(divisor)
    if not a or not b or a < 0 or b < 0 or a * b > np.iinfo(node.type.dtype).max:
        return None
    return fit_to(floor_divide(x, as_tensor(a * b, dtype=node.type.dtype)), node)


integers("floor_quotient_by_one", lambda x: (floor_divide(x, 1), x))
signed("floor_quotient_by_minus_one", lambda x: (floor_divide(x, -1), -x))
integers("floor_quotient_of_zero", lambda x: (floor_divide(0, x), zeros_like(x)))
integers("remainder_by_one", lambda x: (remainder(x, 1), zeros_like(x)))
integers("remainder_by_itself", lambda x: (remainder(x, x), zeros_like(x)))
integers("remainder_of_zero", lambda x: (remainder(0, x), zeros_like(x)))


@rewrite("canonicalize", remainder, dtypes=is_integer)
def remainder_of_small_integer(node: Node, op: Elementwise) -> Node | None:
    """``i % n`` is ``i`` where bounds show that ``0 <= i < n``: ``i % 5 % 5``."""
    x, divisor = node.inputs
    inside, by = bounds_of(x), bounds_of(divisor)
    return fit_to(x, node) if inside.low >= 0 and inside.high < by.low else None


@rewrite("specialize", add, subtract, beside=[multiply])
def common_factor(node: Node, op: Elementwise) -> Node | None:
    """``x * y + x * z`` is ``x * (y + z)``, for integers and where ``y + z`` cannot overflow."""
    a, b = node.inputs
    if a.op is not multiply or b.op is not multiply:
        return None
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        x, y, z = a.inputs[i], a.inputs[1 - i], b.inputs[1 - j]
        if x is b.inputs[j] and not isinstance(x.op, Constant) and _can_be_added(y, z):
            return fit_to(multiply(x, op(y, z)), node)
    return None


def _can_be_added(a: Node, b: Node) -> bool:
    dtype = a.type.dtype
    if not is_float(dtype):
        return is_integer(dtype)
    largest = max(math.fabs(end) for x in (a, b) for end in bounds_of(x))
    return 2 * largest < limits(dtype).max


# Factors that cancel. The right sides are the exact values, also where the left ones overflow,
# underflow to 0, or are 0 / 0.


def first_two_divide(a: Tensor, b: Tensor, *others: Tensor) -> Tensor:
    """Return where neither of the first two operands is 0, infinite or NaN."""
    return first_divides(a) * first_divides(b)


def first_has_root(a: Tensor, *others: Tensor) -> Tensor:
    """Return where the first operand is positive and finite."""
    return isfinite(a) * greater(a, 0)


with_divisor = partial(enter_equation, "stabilize", is_inexact, domain=first_divides)
with_divisor("product_over_factor", lambda a, b: ((a * b) / a, b))
with_divisor("factor_over_product", lambda a, b: (a / (a * b), 1 / b))
with_divisor("products_with_one_factor", lambda a, b, c: ((a * b) / (a * c), b / c))
with_divisor("quotient_times_divisor", lambda b, a: ((a / b) * b, a))
with_divisor("quotient_times_multiple", lambda b, a, c: ((a / b) * (b * c), a * c))
with_divisor("product_of_adjacent_quotients", lambda b, a, c: ((a / b) * (b / c), a / c))
with_divisor("quotients_by_one_divisor", lambda b, a, c: ((a / b) / (c / b), a / c))


@equation("stabilize", dtypes=is_inexact, domain=lambda a, b, c: first_two_divide(a, b))
def quotients_of_one_number(a: Tensor, b: Tensor, c: Tensor) -> Equation:
    """``(a / c) / (a / b)`` is ``b / c``."""
    return Equation((a / c) / (a / b), b / c)


with_two_divisors = partial(enter_equation, "stabilize", is_inexact, domain=first_two_divide)
with_two_divisors("number_over_quotient", lambda a, b: (a / (a / b), b))
with_divisor("quotient_over_number", lambda a, b: ((a / b) / a, 1 / b))
with_divisor("longer_product_over_factor", lambda a, b, c: (((a * b) * c) / a, b * c))
with_divisor("factor_times_share_of_product", lambda a, b, c: (a * (b / (a * c)), b / c))
with_divisor("divisor_times_longer_product", lambda a, b, c: (a * ((b / a) * c), b * c))
with_two_divisors("reciprocal_of_quotient", lambda a, b: (1 / (a / b), b / a))
with_divisor("product_over_square_of_factor", lambda a, b: ((a * b) / square(a), b / a))
with_divisor("factor_times_share_of_square", lambda a, b: (a * (b / square(a)), b / a))
with_divisor("square_times_share_of_factor", lambda a, b: (square(a) * (b / a), a * b))
with_divisor("product_with_square_over_factor", lambda a, b: ((b * square(a)) / a, a * b))
with_root = partial(enter_equation, "stabilize", is_float, domain=first_has_root)
with_root("number_times_share_of_root", lambda a, b: (a * (b / sqrt(a)), b * sqrt(a)))
with_root("root_times_share_of_number", lambda a, b: (sqrt(a) * (b / a), b / sqrt(a)))


# Powers. Where a base is 0, negative or infinite, a product of powers may be NaN and the power that
# replaces it finite.

numbers("power_of_one", lambda x: (x**1, x))
reals("power_of_zero", lambda x: (x**0, ones_like(x)), ", for NaN too")
floats(
    "one_to_a_power",
    lambda x: (power(1, x), ones_like(x)),
    ", for NaN too; an integer to a negative power is an error",
)
reals("power_of_two", lambda x: (x**2, square(x)), ", one product")
numbers("product_with_itself", lambda x: (x * x, square(x)))


@equation("canonicalize", dtypes=is_float, domain=lambda x: greater(x, -np.inf))
def power_of_half(x: Tensor) -> Equation:
    """``x**0.5`` is ``sqrt(x)``, except at -inf: the power is inf, the root NaN."""
    return Equation(x**0.5, sqrt(x))


@equation("canonicalize", dtypes=is_float, domain=lambda x: greater(x, -np.inf) * not_equal(x, 0))
def power_of_minus_half(x: Tensor) -> Equation:
    """``x**-0.5`` is ``1 / sqrt(x)``, except at -0.0 and -inf: the quotient is -inf and NaN."""
    return Equation(x**-0.5, 1 / sqrt(x))


floats("power_of_minus_one", lambda x: (x**-1, 1 / x))
numbers("square_of_negative", lambda x: (square(-x), square(x)))
stable(
    "product_of_squares",
    lambda a, b: (square(a) * square(b), square(a * b)),
    ": one square, and no factor overflows before the product",
)
stable(
    "quotient_of_squares",
    lambda a, b: (square(a) / square(b), square(a / b)),
    ": one square, and neither overflows before the quotient",
)


@rewrite("canonicalize", multiply, divide, beside=[power, square, sqrt, divide], dtypes=is_inexact)
def powers_of_one_base(node: Node, op: Elementwise) -> Node | None:
    """``x**a * x**b`` is ``x**(a + b)``, and ``x**a / x**b`` is ``x**(a - b)``."""
    a, b = products.as_power(node.inputs[0]), products.as_power(node.inputs[1])
    if a.base is not b.base:
        return None
    exponent = a.exponent - b.exponent if op is divide else a.exponent + b.exponent
    if not products.keeps_roots(a.base, (a.exponent, b.exponent), exponent):
        return None
    result = products.power_of(a.base, exponent, a.written or b.written)
    return None if result is None else fit_to(result, node)


@rewrite(
    "canonicalize", power, square, sqrt, beside=[power, square, sqrt, divide], dtypes=is_inexact
)
def power_of_a_power(node: Node, op: Elementwise) -> Node | None:
    """``(x**3)**2`` is ``x**6``: exponents multiply; ``(x**2)**0.5`` is no power of ``x``."""
    outer = products.as_power(node)
    if outer.base is node:
        return None
    inner = products.as_power(outer.base)
    if inner.base is outer.base:
        return None
    result = products.power_of_power(inner, outer)
    return None if result is None else fit_to(result, node)


stable(
    "sqrt_of_square",
    lambda x: (sqrt(square(x)), abs(x)),
    ": the square overflows from 1e154 on, and is 0 below 1e-162",
)


MAX_EXPONENT = 8
"""The largest exponent of a power by products: at most four of them."""


@rewrite("specialize", power, dtypes=is_real)
def power_of_small_integer(node: Node, op: object) -> Node | None:
    """``x**3`` is ``x * x**2``: a few products instead of a logarithm and an exponential.

    A negative power is the power of the reciprocal: ``1 / x**2`` would be 0 where ``x**2``
    overflows and ``x**-2`` does not.
    """
    x, exponent = node.inputs
    number = scalar_value(exponent)
    if number is None:
        return None
    magnitude = math.fabs(number)
    if not 1 < magnitude <= MAX_EXPONENT or (number < 0 and is_integer(node.type.dtype)):
        return None
    base = x if number > 0 else divide(1, x)
    result = _power_by_squaring(base, int(magnitude))
    if magnitude % 1:
        if magnitude not in {1.5, 2.5}:
            return None
        result = multiply(result, sqrt(base))
    return fit_to(result, node)


def _power_by_squaring(x: Any, n: int) -> Any:
    if n == 1:
        return x
    half = square(_power_by_squaring(x, n // 2))
    return multiply(x, half) if n % 2 else half
