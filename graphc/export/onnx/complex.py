"""Elementwise functions of complex numbers, in their parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from graphc.errors import ExportError
from graphc.export.onnx.bits import copysign
from graphc.export.onnx.builder import Complex, Value, emit, full_like, where
from graphc.export.onnx.real import TABLE as REAL
from graphc.export.onnx.transcendental import hypot
from graphc.ir import Op, real_dtype

Function = Callable[..., Any]


def lacking(op: Op) -> ExportError:
    """The error of a function that is there of real numbers alone."""
    return ExportError(
        f"ONNX has nothing for {op.name} of complex numbers.",
        "Write it by its real and imaginary parts.",
    )


def from_parts(a: Value, b: Value) -> Complex:
    """A complex number, of parts in one shape."""
    if a.type is None or b.type is None or a.type.shape != b.type.shape:
        a, b = (where(full_like(other, True, "bool"), x, x) for x, other in ((a, b), (b, a)))
    return Complex(a, b)


def cast(x: Complex, dtype: str) -> Any:
    """In other dtypes; a real one drops the imaginary part, and bool asks for either."""
    if dtype == "bool":
        return ~x.re.equals(0) | ~x.im.equals(0)
    if dtype.startswith("complex"):
        part = real_dtype(dtype)
        return Complex(x.re.cast(part), x.im.cast(part))
    return x.re.cast(dtype)


def add(a: Complex, b: Complex) -> Complex:
    """Part by part."""
    return Complex(a.re + b.re, a.im + b.im)


def subtract(a: Complex, b: Complex) -> Complex:
    """Part by part."""
    return Complex(a.re - b.re, a.im - b.im)


def multiply(a: Complex, b: Complex) -> Complex:
    """Four products."""
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def divide(a: Complex, b: Complex) -> Complex:
    """By Smith's method, which scales by the divisor's larger part, so that no square overflows.

    Source: Smith, Algorithm 116: complex division, Commun. ACM 5(8), 1962.
    """
    wide = emit("Abs", b.re) >= emit("Abs", b.im)
    large, small = where(wide, b.re, b.im), where(wide, b.im, b.re)
    ratio = where(large.equals(0), large, small / large)
    scale = 1.0 / (large + small * ratio)
    # For the quotient by i * b, where its imaginary part is the larger one.
    re, im = where(wide, a.re, a.im), where(wide, a.im, -a.re)
    sign = where(wide, full_like(ratio, 1), full_like(ratio, -1))
    ratio = ratio * sign
    return Complex((re + im * ratio) * scale, (im - re * ratio) * scale)


def negative(x: Complex) -> Complex:
    """Both parts of the other sign."""
    return Complex(-x.re, -x.im)


def absolute(x: Complex) -> Value:
    """The length, without overflow."""
    return hypot(x.re, x.im)


def angle(x: Complex) -> Value:
    """The angle."""
    y: Value = REAL["arctan2"](x.im, x.re)
    return y


def sign(x: Complex) -> Complex:
    """x / |x|, and 0 for 0."""
    size = absolute(x)
    size = where(size.equals(0), full_like(size, 1), size)
    return Complex(x.re / size, x.im / size)


def sqrt(x: Complex) -> Complex:
    """The root in the right half of the plane, by that of the length and the real part."""
    size = absolute(x)
    large = emit("Sqrt", (size + emit("Abs", x.re)) * 0.5)
    small = where(large.equals(0), large, emit("Abs", x.im) * 0.5 / large)
    right = x.re >= 0
    return Complex(where(right, large, small), copysign(where(right, small, large), x.im))


def exp(x: Complex) -> Complex:
    """A length and an angle."""
    size = emit("Exp", x.re)
    return Complex(size * emit("Cos", x.im), size * emit("Sin", x.im))


def log(x: Complex) -> Complex:
    """The logarithm of the length, which is exact where that is next to 1, and the angle."""
    a, b = emit("Abs", x.re), emit("Abs", x.im)
    large, small = emit("Max", a, b), emit("Min", a, b)
    near: Value = REAL["log1p"]((large - 1.0) * (large + 1.0) + small * small)
    is_near = (large > 0.5) & (large < 2.0)
    return Complex(where(is_near, near * 0.5, emit("Log", absolute(x))), angle(x))


def log_in(base: float) -> Function:
    """A logarithm to a base."""

    def compute(x: Complex) -> Complex:
        y = log(x)
        return Complex(y.re / math.log(base), y.im / math.log(base))

    return compute


def _plane(x: Value) -> tuple[Value, Value]:
    return REAL["sinh"](x), REAL["cosh"](x)


def sin(x: Complex) -> Complex:
    """Of a sum of a real and an imaginary number."""
    s, c = _plane(x.im)
    return Complex(emit("Sin", x.re) * c, emit("Cos", x.re) * s)


def cos(x: Complex) -> Complex:
    """Of a sum of a real and an imaginary number."""
    s, c = _plane(x.im)
    return Complex(emit("Cos", x.re) * c, -(emit("Sin", x.re) * s))


def turned(x: Complex) -> Complex:
    """i * x."""
    return Complex(-x.im, x.re)


def turned_back(x: Complex) -> Complex:
    """x / i."""
    return Complex(x.im, -x.re)


def sinh(x: Complex) -> Complex:
    """sin(i * x) / i."""
    return turned_back(sin(turned(x)))


def cosh(x: Complex) -> Complex:
    """cos(i * x)."""
    return cos(turned(x))


def tanh(x: Complex) -> Complex:
    """By functions of 2 * x, so that nothing cancels; far out it is 1 or -1."""
    far = emit("Abs", x.re) > 20.0
    re = where(far, full_like(x.re, 0), x.re) * 2.0
    s, c = _plane(re)
    below = c + emit("Cos", x.im * 2.0)
    return Complex(
        where(far, copysign(full_like(x.re, 1), x.re), s / below),
        where(far, full_like(x.re, 0), emit("Sin", x.im * 2.0) / below),
    )


def tan(x: Complex) -> Complex:
    """tanh(i * x) / i."""
    return turned_back(tanh(turned(x)))


def expm1(x: Complex) -> Complex:
    """exp(x) - 1, by expm1 of the real part and the sine of half of the imaginary one."""
    rise: Value = REAL["expm1"](x.re)
    half = emit("Sin", x.im * 0.5)
    re = rise * emit("Cos", x.im) - half * half * 2.0
    return Complex(re, emit("Exp", x.re) * emit("Sin", x.im))


def log1p(x: Complex) -> Complex:
    """log(1 + x), by log1p of what the square of the length is above 1."""
    rise = x.re * (x.re + 2.0) + x.im * x.im
    one = Complex(x.re + 1.0, x.im)
    near: Value = REAL["log1p"](rise)
    return Complex(where(emit("Abs", rise) < 1.0, near * 0.5, log(one).re), angle(one))


def power(a: Complex, b: Complex) -> Complex:
    """exp(b * log(a)), but for a = 0: 0 where b's real part is positive, and 1 for b = 0."""
    y = exp(multiply(b, log(a)))
    zero = a.re.equals(0) & a.im.equals(0)
    none = b.re.equals(0) & b.im.equals(0)
    known = where(none | (b.re > 0), full_like(y.re, 0), full_like(y.re, math.nan))
    re = where(none, full_like(y.re, 1), where(zero, known, y.re))
    return Complex(re, where(none, full_like(re, 0), where(zero, known, y.im)))


def root_beside(x: Complex, sign: float) -> Complex:
    """The square root of 1 + x or 1 - x."""
    return sqrt(Complex(1.0 + sign * x.re, sign * x.im))


# Inverse functions, by the roots of 1 + x and 1 - x, which have the branch cuts.
# Source: Kahan, Branch cuts for complex elementary functions, in: The state of the art in
# numerical analysis, 1987.


def arccos(x: Complex) -> Complex:
    """By both roots."""
    less, more = root_beside(x, -1.0), root_beside(x, 1.0)
    re = REAL["arctan2"](less.re, more.re) * 2.0
    return Complex(re, REAL["arcsinh"](more.re * less.im - more.im * less.re))


def arcsin(x: Complex) -> Complex:
    """By both roots."""
    less, more = root_beside(x, -1.0), root_beside(x, 1.0)
    re = REAL["arctan2"](x.re, less.re * more.re - less.im * more.im)
    return Complex(re, REAL["arcsinh"](less.re * more.im - less.im * more.re))


def arcsinh(x: Complex) -> Complex:
    """arcsin(i * x) / i."""
    return turned_back(arcsin(turned(x)))


def arccosh(x: Complex) -> Complex:
    """By the roots of x - 1 and x + 1."""
    less, more = sqrt(Complex(x.re - 1.0, x.im)), root_beside(x, 1.0)
    re = REAL["arcsinh"](less.re * more.re + less.im * more.im)
    return Complex(re, REAL["arctan2"](less.im, more.re) * 2.0)


def arctanh(x: Complex) -> Complex:
    """By the squares of the distances from 1 and -1."""
    a = emit("Abs", x.re)
    rest = 1.0 - a
    re = REAL["log1p"](a * 4.0 / (rest * rest + x.im * x.im)) * 0.25
    im = REAL["arctan2"](x.im * 2.0, rest * (1.0 + a) - x.im * x.im) * 0.5
    return Complex(copysign(re, x.re), im)


def arctan(x: Complex) -> Complex:
    """arctanh(i * x) / i."""
    return turned_back(arctanh(turned(x)))


def both(a: Complex, b: Complex) -> Value:
    """Where both parts are equal."""
    return a.re.equals(b.re) & a.im.equals(b.im)


def of_parts(row: str, *, all: bool = False) -> Function:
    """Whether something holds of a part, or of both."""

    def compute(x: Complex) -> Value:
        re, im = REAL[row](x.re), REAL[row](x.im)
        y: Value = re & im if all else re | im
        return y

    return compute


TABLE: Mapping[str, Function] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "negative": negative,
    "abs": absolute,
    "angle": angle,
    "sign": sign,
    "square": lambda x: multiply(x, x),
    "sqrt": sqrt,
    "reciprocal": lambda x: divide(Complex(full_like(x.re, 1), full_like(x.re, 0)), x),
    "equal": both,
    "not_equal": lambda a, b: ~both(a, b),
    "isnan": of_parts("isnan"),
    "isinf": of_parts("isinf"),
    "isfinite": of_parts("isfinite", all=True),
    "real": lambda x: x.re,
    "imag": lambda x: x.im,
    "conj": lambda x: Complex(x.re, -x.im),
    "exp": exp,
    "expm1": expm1,
    "log": log,
    "log2": log_in(2),
    "log10": log_in(10),
    "log1p": log1p,
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "arcsin": arcsin,
    "arccos": arccos,
    "arctan": arctan,
    "arcsinh": arcsinh,
    "arccosh": arccosh,
    "arctanh": arctanh,
    "exp2": lambda x: exp(Complex(x.re * math.log(2), x.im * math.log(2))),
}
"""What computes a row of complex numbers."""
