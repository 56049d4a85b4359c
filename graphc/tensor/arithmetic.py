"""Arithmetic on numbers and their digits: rows of the table, and functions made of rows."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError
from graphc.ir import here, is_complex, is_inexact, is_integer, where as where_is
from graphc.tensor.elementwise import (
    ROWS,
    abs,
    binary,
    cast,
    complex,
    equal,
    floor_divide,
    greater_equal,
    imag,
    isinf,
    isnan,
    less_equal,
    maximum,
    minimum,
    not_equal,
    order_predicate,
    ordered,
    real_inexact,
    real_numeric,
    remainder,
    sign,
    square,
    trunc,
    unary,
    where,
    widened,
)
from graphc.tensor.exponential import power, sigmoid
from graphc.tensor.tensor import Tensor, as_tensor, function, operands
from graphc.tensor.trigonometric import cos, sin

__all__ = ["in_floats"]


# Dtype rules.


def whole(dtype: str) -> tuple[str, str] | None:
    """Integers, kept; bool is refused, as in NumPy."""
    return (dtype, dtype) if is_integer(dtype) else None


def bits(dtype: str) -> tuple[str, str] | None:
    """Integers and bool; the result is uint8."""
    return None if is_inexact(dtype) else (dtype, "uint8")


def in_float32(f: Any) -> Any:
    """The reference with half-width floats computed in float32, and rounded once."""

    def reference(*xs: Any) -> Any:
        wide = [np.asarray(x, widened(x.dtype)) for x in xs]
        return f(*wide).astype(xs[0].dtype, copy=False)

    return reference


# What the functions below take.


def in_floats(op: str, x: Any) -> Tensor:
    """Real numbers in floating point; integers as NumPy converts them."""
    x = as_tensor(x)
    rule = real_inexact(x.dtype)
    if rule is None:
        raise DTypeError(f"{op}({x.type!r}): real numbers are wanted.", "", where_is(here()))
    return cast(x, rule[0])


# Rows.

hypot = binary(
    "hypot",
    "sqrt(a**2 + b**2) without overflow; its slope at (0, 0) is 0",
    real_inexact,
    lambda g, y, a, b: (g * _share(y, a), g * _share(y, b)),
    in_float32(np.hypot),
    commutes=True,
)


def _share(y: Any, x: Any) -> Any:
    still = equal(y, 0)
    return where(isinf(x), sign(x), where(still, 0, x / where(still, 1, y)))


cbrt = unary(
    "cbrt", "The cube root", real_inexact, lambda g, y, x: g / (3 * square(y)), in_float32(np.cbrt)
)
signbit = unary("signbit", "Whether the sign is negative, of -0.0 too", order_predicate)
copysign = binary(
    "copysign",
    "|a| with the sign of b, where b is a zero too",
    real_inexact,
    lambda g, y, a, b: (where(equal(signbit(a), signbit(b)), g, -g), None),
)
fmax = binary(
    "fmax",
    "The larger of a and b; the other one where one is NaN",
    ordered,
    lambda g, y, a, b: _by_chosen(g, greater_equal(a, b) | isnan(b)),
)
fmin = binary(
    "fmin",
    "The smaller of a and b; the other one where one is NaN",
    ordered,
    lambda g, y, a, b: _by_chosen(g, less_equal(a, b) | isnan(b)),
)


def _by_chosen(g: Any, first: Any) -> tuple[Any, Any]:
    return where(first, g, 0), where(first, 0, g)


fmod = binary(
    "fmod",
    "a - b * trunc(a / b), with the sign of a; an integer modulo zero gives 0",
    real_numeric,
    lambda g, y, a, b: (g, -g * trunc(a / b)),
)
heaviside = binary(
    "heaviside",
    "0 for a negative a, 1 for a positive one, b where a is 0",
    real_inexact,
    lambda g, y, a, b: (None, where(equal(a, 0), g, 0)),
)


def _logaddexp2(a: Any, b: Any) -> Any:
    """NumPy's has fewer digits where the result is next to 0."""
    high, low = np.maximum(a, b), np.minimum(a, b)
    gap = np.where(high == low, 0, low - high).astype(a.dtype)
    near = high + 1 + np.log1p(np.expm1(gap * np.log(2).item()) / 2) / np.log(2).item()
    return np.where(gap > -1, near, high + np.log1p(np.exp2(gap)) / np.log(2).item())


logaddexp2 = binary(
    "logaddexp2",
    "log2(2**a + 2**b) without overflow",
    real_inexact,
    lambda g, y, a, b: (g * _weight(a, b), g * _weight(b, a)),
    in_float32(_logaddexp2),
    commutes=True,
)


def _weight(a: Any, b: Any) -> Any:
    # Two equal infinities share evenly, and inf - inf is never formed.
    return sigmoid(math.log(2) * where(equal(a, b), 0, a - b))


nextafter = binary(
    "nextafter",
    "The number next to a in the direction of b",
    real_inexact,
    lambda g, y, a, b: (g, None),
)


def _scaled(a: Any, b: Any) -> Any:
    # 5000 is beyond what any number of these dtypes is scaled by.
    exponent = np.clip(np.where(np.isnan(b), 0, b), -5000, 5000).astype(np.int32)
    return np.where(np.isnan(b), b, np.ldexp(a, exponent)).astype(a.dtype, copy=False)


_ldexp: Any = binary(
    "ldexp",
    "a * 2**b, exact, for a whole number b",
    real_inexact,
    lambda g, y, a, b: (_ldexp(g, b), None),
    in_float32(_scaled),
)
_exponent = unary(
    "exponent",
    "The b for which x is a * 2**b with a magnitude of a from 0.5 on and below 1; 0 of 0",
    real_inexact,
    lambda g, y, x: None,
    in_float32(lambda x: np.frexp(x)[1].astype(x.dtype)),
)
gcd = binary("gcd", "The greatest common divisor", whole, commutes=True)
lcm = binary("lcm", "The least common multiple", whole, commutes=True)
bitwise_count = unary("bitwise_count", "How many bits of |x| are set", bits)


# Quotients.


@function
def divmod(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """``a // b`` and ``a % b``.

    Args:
        a: Real numbers of any shape.
        b: What broadcasts with a.
    """
    return floor_divide(a, b), remainder(a, b)


@function
def ceil_intdiv(a: Any, b: Any) -> Tensor:
    """The smallest integer not below ``a / b``, for integers.

    Example:
        >>> import graphc.tensor as gt
        >>> [int(gt.ceil_intdiv(n, 4).eval(mode="NUMPY")) for n in (7, 8, -7)]
        [2, 2, -1]
    """
    quotient, rest = divmod(a, b)
    return quotient + cast(not_equal(rest, 0), quotient.dtype)


# Signs and parts.


@function
def positive(x: Any) -> Tensor:
    """x itself; bool is refused, as in NumPy."""
    x = as_tensor(x)
    if x.dtype == "bool":
        raise DTypeError("positive: bool has no sign.", "Cast it with astype.", where_is(here()))
    return x  # type: ignore[no-any-return]


@function
def fabs(x: Any) -> Tensor:
    """The magnitude of real numbers, in floating point."""
    return abs(in_floats("fabs", x))


@function
def modf(x: Any) -> tuple[Tensor, Tensor]:
    """What stands behind and before the point, both with the sign of x.

    Args:
        x: Real numbers of any shape.

    Returns:
        The fraction and the whole part, floating.
    """
    x = in_floats("modf", x)
    before = trunc(x)
    return copysign(where(isinf(x), 0, x - before), x), before


@function
def frexp(x: Any) -> tuple[Tensor, Tensor]:
    """x as ``mantissa * 2**exponent``, the mantissa's magnitude from 0.5 on and below 1.

    Args:
        x: Real numbers of any shape.

    Returns:
        The mantissa, and the exponent as int32; of 0, an infinity and NaN, x itself and 0.
    """
    x = in_floats("frexp", x)
    exponent = _exponent(x)
    return _ldexp(x, -exponent), cast(exponent, "int32")


@function
def ldexp(x: Any, exponent: Any) -> Tensor:
    """``x * 2**exponent``, exact.

    Args:
        x: Real numbers of any shape.
        exponent: Integers of a shape that broadcasts with x's.

    Raises:
        DTypeError: The exponents are no integers.
    """
    x, exponent = in_floats("ldexp", x), as_tensor(exponent)
    if is_inexact(exponent.dtype):
        raise DTypeError(f"ldexp: {exponent!r} holds no integers.", "", where_is(here()))
    # Beyond 5000 every number is 0 or infinite; float16 can't hold much more.
    return _ldexp(x, cast(minimum(maximum(cast(exponent, "int64"), -5000), 5000), x.dtype))  # type: ignore[no-any-return]


@function
def spacing(x: Any) -> Tensor:
    """The distance to the next number away from 0, with x's sign; NaN of an infinity."""
    x = in_floats("spacing", x)
    return nextafter(x, copysign(cast(np.inf, x.dtype), x)) - x  # type: ignore[no-any-return]


@function
def float_power(a: Any, b: Any) -> Tensor:
    """``a ** b`` in float64, or complex128 where one is complex.

    Args:
        a: Any dtype and shape.
        b: What broadcasts with a.
    """
    (a, b), dtype = operands("float_power", (a, b))
    wide = "complex128" if is_complex(dtype) else "float64"
    return power(cast(a, wide), cast(b, wide))


# Complex numbers.

_angle = ROWS["angle"]


@function
def angle(x: Any, deg: bool = False) -> Tensor:
    """The angle of a complex number, in radians.

    Args:
        x: Any dtype and shape.
        deg: In degrees.
    """
    y = _angle(x)
    return y * (180 / math.pi) if deg else y


@function
def complex_from_polar(abs: Any, angle: Any) -> Tensor:
    """The complex number of a magnitude and an angle in radians.

    Args:
        abs: Real numbers of any shape.
        angle: What broadcasts with ``abs``.
    """
    return complex(abs * cos(angle), abs * sin(angle))


@function
def isreal(x: Any) -> Tensor:
    """Whether the imaginary part is 0."""
    return equal(imag(x), 0)


@function
def iscomplex(x: Any) -> Tensor:
    """Whether the imaginary part is not 0."""
    return not_equal(imag(x), 0)


@function
def isrealobj(x: Any) -> bool:
    """Whether the dtype is real: a Python bool."""
    return not iscomplexobj(x)


@function
def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex: a Python bool."""
    return is_complex(as_tensor(x).dtype)


@function
def ndim(x: Any) -> int:
    """How many axes there are: a Python integer."""
    return as_tensor(x).ndim  # type: ignore[no-any-return]


# Choices between several.


@function
def largest(*xs: Any) -> Tensor:
    """The largest of several arrays, elementwise; they broadcast.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.largest([1, 5], [2, 0], 1).eval(mode="NUMPY").tolist()
        [2, 5]
    """
    return _of_several("largest", maximum, xs)


@function
def smallest(*xs: Any) -> Tensor:
    """The smallest of several arrays, elementwise; they broadcast.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.smallest([1, 5], [2, 0], 1).eval(mode="NUMPY").tolist()
        [1, 0]
    """
    return _of_several("smallest", minimum, xs)


def _of_several(op: str, of_two: Any, xs: tuple[Any, ...]) -> Tensor:
    if not xs:
        raise ArgumentError(f"{op}: there are no arrays.", "Give it one at least.")
    return reduce(of_two, xs[1:], as_tensor(xs[0]))  # type: ignore[no-any-return]
