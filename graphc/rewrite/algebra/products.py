"""Products and powers as a number, a base and an exponent, and how one is put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

from graphc.ir import Constant, Node, is_complex, is_inexact, is_integer
from graphc.rewrite.algebra.sums import constant_of, real_number, rounded
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
    """Whether a node may be a product with a number: a quick look before ``scaled``."""
    op = node.op
    if op is negative:
        return True
    return (op is multiply or op is divide) and any(type(x.op) is Constant for x in node.inputs)


def scaled(node: Node) -> Scaled | None:
    """A product with a number or a quotient of one, or None."""
    if node.op is negative:
        return Scaled(Fraction(-1), 1, node.inputs[0])
    if node.op is not multiply and node.op is not divide:
        return None
    a, b = node.inputs
    # A product has its constant first.
    above, below = _factor(a), _factor(b) if node.op is divide else None
    if above is not None:
        return Scaled(above, -1 if node.op is divide else 1, b)
    return None if below is None else Scaled(1 / below, 1, a)


def _factor(node: Node) -> Fraction | None:
    """A number of full precision, or None."""
    value, dtype = real_number(node), node.type.dtype
    if not value or (is_inexact(dtype) and rounded(Fraction(value), dtype) is None):
        return None
    return Fraction(value)


def product_of(parts: Scaled, dtype: str) -> Node | None:
    """The node of these parts, rounded as little as can be; None if the factor can't be written."""
    factor, exponent, x = parts
    if is_integer(dtype):
        return negative(x) if factor == -1 else multiply(x, constant_of(factor, dtype))
    number = rounded(factor, dtype)
    if number is None:
        return None
    if exponent == -1:
        return divide(as_tensor(number, dtype=dtype), x)
    if factor in {1, -1}:
        return x if factor == 1 else negative(x)
    inverse = rounded(1 / factor, dtype)
    if number != factor and inverse is not None and inverse == 1 / factor:
        return divide(x, as_tensor(inverse, dtype=dtype))
    return multiply(x, as_tensor(number, dtype=dtype))


class Power(NamedTuple):
    """A node as a power of another, and whether it is written as one: no square, root or such."""

    base: Node
    exponent: Fraction
    written: bool


def as_power(node: Node) -> Power:
    """A power, a root or a reciprocal of one in terms of what it is a power of."""
    if node.op is divide:
        one, below = node.inputs
        if real_number(one) == 1 and below.op is not divide:
            found = as_power(below)
            return found._replace(exponent=-found.exponent)
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
    """A power in its cheapest form; one that needs the function itself only if there was one."""
    dtype = x.type.dtype
    form = FORMS.get(exponent)
    if form is not None and (exponent.denominator == 1 or not is_complex(dtype)):
        return form(x)
    number = rounded(exponent, dtype)
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
    """Whether a power is no number, as roots of negative numbers are none, where these are not."""
    whole = result.denominator == 1 and not is_complex(x.type.dtype)
    lost = whole and any(n.denominator != 1 for n in exponents)
    return not lost or bounds_of(x).low >= 0


def power_of_power(inner: Power, outer: Power) -> Node | None:
    """A power of a power as one, where it is that for each base the inner one is a number of."""
    a, b = inner.exponent, outer.exponent
    x = inner.base
    if is_complex(x.type.dtype):
        valid = b.denominator == 1
    else:
        # An even power hides the sign, which only an even result does not ask for.
        hidden = a % 2 == 0 and (a * b) % 2 == 0
        valid = b.denominator == 1 or hidden or bounds_of(x).low >= 0
        valid = valid and keeps_roots(x, (a,), a * b)
    return power_of(x, a * b, inner.written or outer.written) if valid else None
