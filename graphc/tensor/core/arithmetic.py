"""Arithmetic on numbers and their digits: elementwise rows, and functions made of them."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError
from graphc.ir import is_complex, is_inexact, is_integer
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.exponential import power, sigmoid
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function, operands
from graphc.tensor.core.trigonometric import cos, sin

__all__ = [
    "angle", "bitwise_count", "cbrt", "ceil_intdiv", "complex_from_polar", "copysign", "divmod",
    "fabs", "float_power", "fmax", "fmin", "fmod", "frexp", "gcd", "heaviside", "hypot",
    "iscomplex", "iscomplexobj", "isreal", "isrealobj", "largest", "lcm", "ldexp", "logaddexp2",
    "modf", "ndim", "nextafter", "positive", "signbit", "smallest", "spacing",
]  # fmt: skip

# Dtype rules.


def whole(dtype: str) -> tuple[str, str] | None:
    """Accept integers, unchanged; refuse bool, as NumPy does."""
    return (dtype, dtype) if is_integer(dtype) else None


def bits(dtype: str) -> tuple[str, str] | None:
    """Accept integers and bool; the result is uint8."""
    return None if is_inexact(dtype) else (dtype, "uint8")


def in_float32(f: Any) -> Any:
    """Wrap a reference so that it computes half-width floats in float32 and rounds once."""

    def reference(*xs: Any) -> Any:
        wide = [np.asarray(x, ew.wide_dtype(x.dtype)) for x in xs]
        return f(*wide).astype(xs[0].dtype, copy=False)

    return reference


# Operands of the functions below.


def in_floats(op: str, x: Any) -> Tensor:
    """Return real numbers in floating point; integers as NumPy converts them."""
    x = as_tensor(x)
    rule = ew.real_inexact(x.dtype)
    if rule is None:
        raise DTypeError(f"{op}({x!r}): expected real numbers.")
    return ew.cast(x, rule[0])


# Rows.

hypot = ew.binary(
    "hypot",
    "sqrt(a**2 + b**2) without overflow; its gradient at (0, 0) is 0",
    ew.real_inexact,
    lambda g, y, a, b: (g * _share(y, a), g * _share(y, b)),
    in_float32(np.hypot),
    commutes=True,
    facts=ew.Facts(range=ew.NONNEGATIVE),
)


def _share(y: Any, x: Any) -> Any:
    still = ew.equal(y, 0)
    return ew.where(ew.isinf(x), ew.sign(x), ew.where(still, 0, x / ew.where(still, 1, y)))


cbrt = ew.unary(
    "cbrt",
    "The cube root",
    ew.real_inexact,
    lambda g, y, x: g / (3 * ew.square(y)),
    in_float32(np.cbrt),
    facts=ew.Facts(trend=ew.RISING, fixed=(0, 1), parity=-1),
)
signbit = ew.unary("signbit", "Whether the sign bit is set; true for -0.0", ew.order_predicate)
copysign = ew.binary(
    "copysign",
    "|a| with the sign of b, also of a zero b",
    ew.real_inexact,
    lambda g, y, a, b: (ew.where(ew.equal(signbit(a), signbit(b)), g, -g), None),
    facts=ew.Facts(exact=True),
)
fmax = ew.binary(
    "fmax",
    "The larger of a and b, ignoring NaN",
    ew.real_or_bool,
    lambda g, y, a, b: _by_chosen(g, ew.greater_equal(a, b) | ew.isnan(b)),
    facts=ew.Facts(trend=(1, 1), exact=True),
)
fmin = ew.binary(
    "fmin",
    "The smaller of a and b, ignoring NaN",
    ew.real_or_bool,
    lambda g, y, a, b: _by_chosen(g, ew.less_equal(a, b) | ew.isnan(b)),
    facts=ew.Facts(trend=(1, 1), exact=True),
)


def _by_chosen(g: Any, first: Any) -> tuple[Any, Any]:
    return ew.where(first, g, 0), ew.where(first, 0, g)


fmod = ew.binary(
    "fmod",
    "a - b * trunc(a / b), with the sign of a; an integer modulo zero gives 0",
    ew.real_numeric,
    lambda g, y, a, b: (g, -g * ew.trunc(a / b)),
)
heaviside = ew.binary(
    "heaviside",
    "0 for a negative a, 1 for a positive one, b where a is 0",
    ew.real_inexact,
    lambda g, y, a, b: (None, ew.where(ew.equal(a, 0), g, 0)),
)


def _logaddexp2(a: Any, b: Any) -> Any:
    """Compute ``log2(2**a + 2**b)``; NumPy's function loses digits of results close to 0."""
    high, low = np.maximum(a, b), np.minimum(a, b)
    gap = np.where(high == low, 0, low - high).astype(a.dtype)
    near = high + 1 + np.log1p(np.expm1(gap * np.log(2).item()) / 2) / np.log(2).item()
    return np.where(gap > -1, near, high + np.log1p(np.exp2(gap)) / np.log(2).item())


logaddexp2 = ew.binary(
    "logaddexp2",
    "log2(2**a + 2**b) without overflow",
    ew.real_inexact,
    lambda g, y, a, b: (g * _weight(a, b), g * _weight(b, a)),
    in_float32(_logaddexp2),
    commutes=True,
    facts=ew.Facts(trend=(1, 1)),
)


def _weight(a: Any, b: Any) -> Any:
    # Two equal infinities share evenly, and inf - inf is never formed.
    return sigmoid(math.log(2) * ew.where(ew.equal(a, b) & ew.isinf(a), 0, a - b))


nextafter = ew.binary(
    "nextafter",
    "The next representable number after a towards b",
    ew.real_inexact,
    lambda g, y, a, b: (g, None),
)


def _scale_by_power(a: Any, b: Any) -> Any:
    # Scaling by 2**5000 takes any number of these dtypes out of range.
    exponent = np.clip(np.where(np.isnan(b), 0, b), -5000, 5000).astype(np.int32)
    return np.where(np.isnan(b), b, np.ldexp(a, exponent)).astype(a.dtype, copy=False)


_ldexp: Any = ew.binary(
    "ldexp",
    "a * 2**b, exact, for a whole number b",
    ew.real_inexact,
    lambda g, y, a, b: (_ldexp(g, b), None),
    in_float32(_scale_by_power),
)
_exponent = ew.unary(
    "exponent",
    "The binary exponent e: x is m * 2**e with 0.5 <= |m| < 1; 0 for 0",
    ew.real_inexact,
    lambda g, y, x: None,
    in_float32(lambda x: np.frexp(x)[1].astype(x.dtype)),
    facts=ew.Facts(fixed=(0, 1), parity=1, integral=True, exact=True),
)
gcd = ew.binary("gcd", "The greatest common divisor", whole, commutes=True)
lcm = ew.binary("lcm", "The least common multiple", whole, commutes=True)
bitwise_count = ew.unary("bitwise_count", "The number of set bits of |x|", bits)


# Quotients.


@function
def divmod(a: TensorLike, b: TensorLike) -> tuple[Tensor, Tensor]:
    """Return ``a // b`` and ``a % b``.

    Args:
        a: Real numbers of any shape.
        b: An array that broadcasts with a.

    Example:
        >>> import graphc.tensor as gt
        >>> [y.eval(mode="NUMPY").tolist() for y in gt.divmod([7, -7], 2)]
        [[3, -4], [1, 1]]
    """
    return ew.floor_divide(a, b), ew.remainder(a, b)


@function
def ceil_intdiv(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the smallest integer not below ``a / b``, for integers.

    Example:
        >>> import graphc.tensor as gt
        >>> [int(gt.ceil_intdiv(n, 4).eval(mode="NUMPY")) for n in (7, 8, -7)]
        [2, 2, -1]
    """
    quotient, rest = divmod(a, b)
    return quotient + ew.cast(ew.not_equal(rest, 0), quotient.dtype)


# Signs and parts.


@function
def positive(x: TensorLike) -> Tensor:
    """Return x itself; bool is refused, as in NumPy.

    Raises:
        DTypeError: x is bool.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.positive([-1.0, 2.0]).eval(mode="NUMPY").tolist()
        [-1.0, 2.0]
    """
    x = as_tensor(x)
    if x.dtype == "bool":
        raise DTypeError("positive: bool has no sign.", "Cast it with astype.")
    return x


@function
def fabs(x: TensorLike) -> Tensor:
    """Return the absolute value of real numbers, in floating point.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fabs([-1.5, 2.0]).eval(mode="NUMPY").tolist()
        [1.5, 2.0]
    """
    return ew.abs(in_floats("fabs", x))


@function
def modf(x: TensorLike) -> tuple[Tensor, Tensor]:
    """Return the fractional and the integral part of x, both with the sign of x.

    Args:
        x: Real numbers of any shape.

    Returns:
        The fraction and the integral part, floating.

    Example:
        >>> import graphc.tensor as gt
        >>> [y.eval(mode="NUMPY").tolist() for y in gt.modf([2.5, -1.25])]
        [[0.5, -0.25], [2.0, -1.0]]
    """
    x = in_floats("modf", x)
    before = ew.trunc(x)
    return copysign(ew.where(ew.isinf(x), 0, x - before), x), before


@function
def frexp(x: TensorLike) -> tuple[Tensor, Tensor]:
    """Return mantissa and exponent: x = ``mantissa * 2**exponent``, ``0.5 <= abs(mantissa) < 1``.

    Args:
        x: Real numbers of any shape.

    Returns:
        The mantissa, and the exponent as int32; of 0, an infinity and NaN, x itself and 0.

    Example:
        >>> import graphc.tensor as gt
        >>> [y.eval(mode="NUMPY").tolist() for y in gt.frexp([8.0, 0.75])]
        [[0.5, 0.75], [4, 0]]
    """
    x = in_floats("frexp", x)
    exponent = _exponent(x)
    return _ldexp(x, -exponent), ew.cast(exponent, "int32")


@function
def ldexp(x: TensorLike, exponent: TensorLike) -> Tensor:
    """Return ``x * 2**exponent``, exactly.

    Args:
        x: Real numbers of any shape.
        exponent: Integers of a shape that broadcasts with x's.

    Raises:
        DTypeError: The exponents are no integers.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.ldexp([0.5, 0.75], [4, 0]).eval(mode="NUMPY").tolist()
        [8.0, 0.75]
    """
    x, exponent = in_floats("ldexp", x), as_tensor(exponent)
    if is_inexact(exponent.dtype):
        raise DTypeError(f"ldexp: expected integer exponents, got {exponent!r}.")
    # Beyond 5000 every number is 0 or infinite; float16 can't hold much more.
    limited = ew.minimum(ew.maximum(ew.cast(exponent, "int64"), -5000), 5000)
    return _ldexp(x, ew.cast(limited, x.dtype))  # type: ignore[no-any-return]


@function
def spacing(x: TensorLike) -> Tensor:
    """Return the distance to the next number away from 0, with x's sign; NaN for an infinity.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.spacing(1.0).eval(mode="NUMPY").tolist()
        2.220446049250313e-16
    """
    x = in_floats("spacing", x)
    return nextafter(x, copysign(ew.cast(np.inf, x.dtype), x)) - x


@function
def float_power(a: TensorLike, b: TensorLike) -> Tensor:
    """Return ``a ** b`` in float64, or complex128 where one of them is complex.

    Args:
        a: Any dtype and shape.
        b: An array that broadcasts with a.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.float_power([2, 3], 2).eval(mode="NUMPY").tolist()
        [4.0, 9.0]
    """
    (a, b), dtype = operands("float_power", (a, b))
    wide = "complex128" if is_complex(dtype) else "float64"
    return power(ew.cast(a, wide), ew.cast(b, wide))


# Complex numbers.

_angle = ew.ROWS["angle"]


@function
def angle(x: TensorLike, deg: bool = False) -> Tensor:
    """Return the angle of a complex number, in radians.

    Args:
        x: Any dtype and shape.
        deg: Return degrees.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.angle(1j, deg=True).eval(mode="NUMPY").tolist()
        90.0
    """
    y = _angle(x)
    return y * (180 / math.pi) if deg else y


@function
def complex_from_polar(abs: TensorLike, angle: TensorLike) -> Tensor:
    """Return the complex number of a magnitude and an angle in radians.

    Args:
        abs: Real numbers of any shape.
        angle: An array that broadcasts with ``abs``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.complex_from_polar([1.0, 2.0], 0.0).eval(mode="NUMPY").tolist()
        [(1+0j), (2+0j)]
    """
    return ew.complex(abs * cos(angle), abs * sin(angle))


@function
def isreal(x: TensorLike) -> Tensor:
    """Return whether the imaginary part is 0, elementwise.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.isreal([1 + 2j, 3 + 0j]).eval(mode="NUMPY").tolist()
        [False, True]
    """
    return ew.equal(ew.imag(x), 0)


@function
def iscomplex(x: TensorLike) -> Tensor:
    """Return whether the imaginary part is not 0, elementwise.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.iscomplex([1 + 2j, 3 + 0j]).eval(mode="NUMPY").tolist()
        [True, False]
    """
    return ew.not_equal(ew.imag(x), 0)


@function
def isrealobj(x: TensorLike) -> bool:
    """Return whether the dtype is real, as a Python bool.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.isrealobj(gt.zvector("z"))
        False
    """
    return not iscomplexobj(x)


@function
def iscomplexobj(x: TensorLike) -> bool:
    """Return whether the dtype is complex, as a Python bool.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.iscomplexobj(gt.zvector("z"))
        True
    """
    return is_complex(as_tensor(x).dtype)


@function
def ndim(x: TensorLike) -> int:
    """Return the number of axes, a Python integer.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.ndim(gt.matrix("a"))
        2
    """
    return as_tensor(x).ndim


def squared_magnitude(x: Tensor) -> Any:
    """Return ``abs(x)**2``, written so that it has its second derivative at 0."""
    return ew.square(ew.real(x)) + ew.square(ew.imag(x)) if is_complex(x.dtype) else ew.square(x)


# Choices between several.


@function
def largest(*xs: TensorLike) -> Tensor:
    """Return the largest of several arrays, elementwise; they broadcast.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.largest([1, 5], [2, 0], 1).eval(mode="NUMPY").tolist()
        [2, 5]
    """
    return _of_several("largest", ew.maximum, xs)


@function
def smallest(*xs: TensorLike) -> Tensor:
    """Return the smallest of several arrays, elementwise; they broadcast.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.smallest([1, 5], [2, 0], 1).eval(mode="NUMPY").tolist()
        [1, 0]
    """
    return _of_several("smallest", ew.minimum, xs)


def _of_several(op: str, of_two: Any, xs: tuple[Any, ...]) -> Tensor:
    if not xs:
        raise ArgumentError(f"{op}: expected at least one array, got none.", "Pass one or more.")
    return reduce(of_two, xs[1:], as_tensor(xs[0]))
