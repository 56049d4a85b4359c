"""Products and powers as a number, a base and an exponent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

from graphc.ir import Constant, Node, is_complex, is_inexact, is_integer
from graphc.rewrite.algebra.sums import constant_of, real_number, round_to_dtype
from graphc.rewrite.facts.bounds import bounds_of
from graphc.tensor.arrays.create import ones_like
from graphc.tensor.core.elementwise import divide, multiply, negative, sqrt, square
from graphc.tensor.core.exponential import power
from graphc.tensor.core.tensor import Tensor, as_tensor


class Scaled(NamedTuple):
    """A node as ``factor * base ** exponent``, where the exponent is 1 or -1."""

    factor: Fraction
    exponent: int
    base: Node


def has_factor(node: Node) -> bool:
    """Return whether a node may be a product with a number: a quick test before ``as_scaled``."""
    op = node.op
    if op is negative:
        return True
    return (op is multiply or op is divide) and any(type(x.op) is Constant for x in node.inputs)


def as_scaled(node: Node) -> Scaled | None:
    """Return a product with a number, or a quotient by or of one, in this form, or None."""
    if node.op is negative:
        return Scaled(Fraction(-1), 1, node.inputs[0])
    if node.op is not multiply and node.op is not divide:
        return None
    a, b = node.inputs
    # A product has its constant first.
    above, below = _precise_number(a), _precise_number(b) if node.op is divide else None
    if above is not None:
        return Scaled(above, -1 if node.op is divide else 1, b)
    return None if below is None else Scaled(1 / below, 1, a)


def _precise_number(node: Node) -> Fraction | None:
    value, dtype = real_number(node), node.type.dtype
    if not value or (is_inexact(dtype) and round_to_dtype(Fraction(value), dtype) is None):
        return None
    return Fraction(value)


def product_of(product: Scaled, dtype: str) -> Node | None:
    """Return a product with the least rounding; None if the factor has no value of the dtype."""
    factor, exponent, x = product
    if is_integer(dtype):
        return negative(x) if factor == -1 else multiply(x, constant_of(factor, dtype))
    number = round_to_dtype(factor, dtype)
    if number is None:
        return None
    if exponent == -1:
        return divide(as_tensor(number, dtype=dtype), x)
    if factor in {1, -1}:
        return x if factor == 1 else negative(x)
    inverse = round_to_dtype(1 / factor, dtype)
    if number != factor and inverse is not None and inverse == 1 / factor:
        return divide(x, as_tensor(inverse, dtype=dtype))
    return multiply(x, as_tensor(number, dtype=dtype))


class Power(NamedTuple):
    """A node as a power of another; ``written`` if by ``power``, not as a square or root."""

    base: Node
    exponent: Fraction
    written: bool


def as_power(node: Node) -> Power:
    """Return a power, a root or a reciprocal of one as a power of its base."""
    if node.op is divide:
        one, below = node.inputs
        if real_number(one) == 1 and below.op is not divide:
            inverse = as_power(below)
            return inverse._replace(exponent=-inverse.exponent)
    if node.op is square:
        return Power(node.inputs[0], Fraction(2), False)
    if node.op is sqrt:
        return Power(node.inputs[0], Fraction(1, 2), False)
    if node.op is power:
        exponent = real_number(node.inputs[1])
        if exponent is not None:
            return Power(node.inputs[0], Fraction(exponent), True)
    return Power(node, Fraction(1), False)


def power_of(x: Any, exponent: Fraction, written: bool) -> Tensor | None:
    """Return a power in its cheapest form; ``power`` itself only if it was ``written``."""
    dtype = x.type.dtype
    form = FORMS.get(exponent)
    if form is not None and (exponent.denominator == 1 or not is_complex(dtype)):
        return form(x)
    number = round_to_dtype(exponent, dtype)
    if not written or is_complex(dtype) or number is None or Fraction(number) != exponent:
        return None
    return power(x, as_tensor(number, dtype=dtype))


FORMS: dict[Fraction, Callable[[Any], Tensor]] = {
    Fraction(0): ones_like,
    Fraction(1): lambda x: x,
    Fraction(2): square,
    Fraction(1, 2): sqrt,
    Fraction(-1): lambda x: 1 / x,
    Fraction(-1, 2): lambda x: 1 / sqrt(x),
}


def keeps_roots(x: Node, exponents: Iterable[Fraction], result: Fraction) -> bool:
    """Return whether combining powers keeps the NaN of roots of negative numbers."""
    is_integral = result.denominator == 1 and not is_complex(x.type.dtype)
    loses_nan = is_integral and any(n.denominator != 1 for n in exponents)
    return not loses_nan or bounds_of(x).low >= 0


def power_of_power(inner: Power, outer: Power) -> Node | None:
    """Return a power of a power as one power, or None where a base may give another value."""
    a, b = inner.exponent, outer.exponent
    x = inner.base
    if is_complex(x.type.dtype):
        valid = b.denominator == 1
    else:
        # An even power drops the sign, which only an even result does not need.
        is_even = a % 2 == 0 and (a * b) % 2 == 0
        valid = b.denominator == 1 or is_even or bounds_of(x).low >= 0
        valid = valid and keeps_roots(x, (a,), a * b)
    return power_of(x, a * b, inner.written or outer.written) if valid else None
