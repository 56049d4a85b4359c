"""Elementwise functions of complex numbers, computed on their real and imaginary parts."""

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


def unsupported_error(op: Op) -> ExportError:
    """Return the error of a function that ONNX has for real numbers only."""
    return ExportError(
        f"ONNX has nothing for {op.name} of complex numbers.",
        "Write it by its real and imaginary parts.",
    )


def from_parts(a: Value, b: Value) -> Complex:
    """Return complex numbers from parts, which are broadcast to one shape."""
    if a.type is None or b.type is None or a.type.shape != b.type.shape:
        a, b = (where(full_like(other, True, "bool"), x, x) for x, other in ((a, b), (b, a)))
    return Complex(a, b)


def cast(x: Complex, dtype: str) -> Any:
    """Cast to any dtype; a real one drops the imaginary part, and bool tests for nonzero."""
    if dtype == "bool":
        return ~x.re.equals(0) | ~x.im.equals(0)
    if dtype.startswith("complex"):
        part = real_dtype(dtype)
        return Complex(x.re.cast(part), x.im.cast(part))
    return x.re.cast(dtype)


def add(a: Complex, b: Complex) -> Complex:
    return Complex(a.re + b.re, a.im + b.im)


def subtract(a: Complex, b: Complex) -> Complex:
    return Complex(a.re - b.re, a.im - b.im)


def multiply(a: Complex, b: Complex) -> Complex:
    return Complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def divide(a: Complex, b: Complex) -> Complex:
    """Divide by Smith's method, which scales by the divisor's larger part: no square overflows.

    Source: Smith, Algorithm 116: complex division, Commun. ACM 5(8), 1962.
    """
    wide = emit("Abs", b.re) >= emit("Abs", b.im)
    large, small = where(wide, b.re, b.im), where(wide, b.im, b.re)
    ratio = where(large.equals(0), large, small / large)
    scale = 1.0 / (large + small * ratio)
    # If |b.im| is larger, divide -i a by -i b, whose real part is b.im.
    re, im = where(wide, a.re, a.im), where(wide, a.im, -a.re)
    sign = where(wide, full_like(ratio, 1), full_like(ratio, -1))
    ratio = ratio * sign
    return Complex((re + im * ratio) * scale, (im - re * ratio) * scale)


def negative(x: Complex) -> Complex:
    return Complex(-x.re, -x.im)


def absolute(x: Complex) -> Value:
    """Return the modulus, without overflow."""
    return hypot(x.re, x.im)


def angle(x: Complex) -> Value:
    y: Value = REAL["arctan2"](x.im, x.re)
    return y


def sign(x: Complex) -> Complex:
    """Return ``x / |x|``, and 0 for 0."""
    size = absolute(x)
    size = where(size.equals(0), full_like(size, 1), size)
    return Complex(x.re / size, x.im / size)


def sqrt(x: Complex) -> Complex:
    """Return the principal square root, from the modulus and the real part."""
    size = absolute(x)
    large = emit("Sqrt", (size + emit("Abs", x.re)) * 0.5)
    small = where(large.equals(0), large, emit("Abs", x.im) * 0.5 / large)
    right = x.re >= 0
    return Complex(where(right, large, small), copysign(where(right, small, large), x.im))


def exp(x: Complex) -> Complex:
    size = emit("Exp", x.re)
    return Complex(size * emit("Cos", x.im), size * emit("Sin", x.im))


def log(x: Complex) -> Complex:
    """Return the logarithm; the modulus next to 1 goes through log1p, which keeps its digits."""
    a, b = emit("Abs", x.re), emit("Abs", x.im)
    large, small = emit("Max", a, b), emit("Min", a, b)
    near: Value = REAL["log1p"]((large - 1.0) * (large + 1.0) + small * small)
    is_near = (large > 0.5) & (large < 2.0)
    return Complex(where(is_near, near * 0.5, emit("Log", absolute(x))), angle(x))


def log_to_base(base: float) -> Function:
    def compute(x: Complex) -> Complex:
        y = log(x)
        return Complex(y.re / math.log(base), y.im / math.log(base))

    return compute


def _sinh_cosh(x: Value) -> tuple[Value, Value]:
    return REAL["sinh"](x), REAL["cosh"](x)


def sin(x: Complex) -> Complex:
    """Return ``sin(a) cosh(b) + i cos(a) sinh(b)`` for ``x = a + i b``."""
    s, c = _sinh_cosh(x.im)
    return Complex(emit("Sin", x.re) * c, emit("Cos", x.re) * s)


def cos(x: Complex) -> Complex:
    """Return ``cos(a) cosh(b) - i sin(a) sinh(b)`` for ``x = a + i b``."""
    s, c = _sinh_cosh(x.im)
    return Complex(emit("Cos", x.re) * c, -(emit("Sin", x.re) * s))


def times_i(x: Complex) -> Complex:
    return Complex(-x.im, x.re)


def over_i(x: Complex) -> Complex:
    return Complex(x.im, -x.re)


def sinh(x: Complex) -> Complex:
    """Return ``sin(i x) / i``."""
    return over_i(sin(times_i(x)))


def cosh(x: Complex) -> Complex:
    """Return ``cos(i x)``."""
    return cos(times_i(x))


def tanh(x: Complex) -> Complex:
    """Return tanh from functions of ``2 x``, so that nothing cancels; far out it is 1 or -1."""
    far = emit("Abs", x.re) > 20.0
    re = where(far, full_like(x.re, 0), x.re) * 2.0
    s, c = _sinh_cosh(re)
    below = c + emit("Cos", x.im * 2.0)
    return Complex(
        where(far, copysign(full_like(x.re, 1), x.re), s / below),
        where(far, full_like(x.re, 0), emit("Sin", x.im * 2.0) / below),
    )


def tan(x: Complex) -> Complex:
    """Return ``tanh(i x) / i``."""
    return over_i(tanh(times_i(x)))


def expm1(x: Complex) -> Complex:
    """Return ``exp(x) - 1``, from expm1 of the real part and the sine of half the imaginary one."""
    rise: Value = REAL["expm1"](x.re)
    half = emit("Sin", x.im * 0.5)
    re = rise * emit("Cos", x.im) - half * half * 2.0
    return Complex(re, emit("Exp", x.re) * emit("Sin", x.im))


def log1p(x: Complex) -> Complex:
    """Return ``log(1 + x)``, from log1p of ``|1 + x|**2 - 1``."""
    rise = x.re * (x.re + 2.0) + x.im * x.im
    one = Complex(x.re + 1.0, x.im)
    near: Value = REAL["log1p"](rise)
    return Complex(where(emit("Abs", rise) < 1.0, near * 0.5, log(one).re), angle(one))


def power(a: Complex, b: Complex) -> Complex:
    """Return ``exp(b log(a))``; for ``a = 0``, 0 if b's real part is positive, 1 if ``b = 0``."""
    y = exp(multiply(b, log(a)))
    a_is_zero = a.re.equals(0) & a.im.equals(0)
    b_is_zero = b.re.equals(0) & b.im.equals(0)
    limit = where(b_is_zero | (b.re > 0), full_like(y.re, 0), full_like(y.re, math.nan))
    re = where(b_is_zero, full_like(y.re, 1), where(a_is_zero, limit, y.re))
    return Complex(re, where(b_is_zero, full_like(re, 0), where(a_is_zero, limit, y.im)))


def root_of_one_plus(x: Complex, sign: float) -> Complex:
    """Return ``sqrt(1 + sign * x)``."""
    return sqrt(Complex(1.0 + sign * x.re, sign * x.im))


# Inverse functions, from the roots of 1 + x and 1 - x, which have their branch cuts.
# Source: Kahan, Branch cuts for complex elementary functions, in: The state of the art in
# numerical analysis, 1987.


def arccos(x: Complex) -> Complex:
    minus_root, plus_root = root_of_one_plus(x, -1.0), root_of_one_plus(x, 1.0)
    re = REAL["arctan2"](minus_root.re, plus_root.re) * 2.0
    return Complex(re, REAL["arcsinh"](plus_root.re * minus_root.im - plus_root.im * minus_root.re))


def arcsin(x: Complex) -> Complex:
    minus_root, plus_root = root_of_one_plus(x, -1.0), root_of_one_plus(x, 1.0)
    re = REAL["arctan2"](x.re, minus_root.re * plus_root.re - minus_root.im * plus_root.im)
    return Complex(re, REAL["arcsinh"](minus_root.re * plus_root.im - minus_root.im * plus_root.re))


def arcsinh(x: Complex) -> Complex:
    """Return ``arcsin(i x) / i``."""
    return over_i(arcsin(times_i(x)))


def arccosh(x: Complex) -> Complex:
    """Return arccosh from the roots of ``x - 1`` and ``x + 1``."""
    minus_root, plus_root = sqrt(Complex(x.re - 1.0, x.im)), root_of_one_plus(x, 1.0)
    re = REAL["arcsinh"](minus_root.re * plus_root.re + minus_root.im * plus_root.im)
    return Complex(re, REAL["arctan2"](minus_root.im, plus_root.re) * 2.0)


def arctanh(x: Complex) -> Complex:
    """Return arctanh from the squared distances to 1 and -1."""
    a = emit("Abs", x.re)
    rest = 1.0 - a
    re = REAL["log1p"](a * 4.0 / (rest * rest + x.im * x.im)) * 0.25
    im = REAL["arctan2"](x.im * 2.0, rest * (1.0 + a) - x.im * x.im) * 0.5
    return Complex(copysign(re, x.re), im)


def arctan(x: Complex) -> Complex:
    """Return ``arctanh(i x) / i``."""
    return over_i(arctanh(times_i(x)))


def equal(a: Complex, b: Complex) -> Value:
    return a.re.equals(b.re) & a.im.equals(b.im)


def holds_for_parts(row: str, *, all: bool = False) -> Function:
    """Return whether a real test holds for either part, or for all parts."""

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
    "equal": equal,
    "not_equal": lambda a, b: ~equal(a, b),
    "isnan": holds_for_parts("isnan"),
    "isinf": holds_for_parts("isinf"),
    "isfinite": holds_for_parts("isfinite", all=True),
    "real": lambda x: x.re,
    "imag": lambda x: x.im,
    "conj": lambda x: Complex(x.re, -x.im),
    "exp": exp,
    "expm1": expm1,
    "log": log,
    "log2": log_to_base(2),
    "log10": log_to_base(10),
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
"""Functions of complex numbers by row."""
