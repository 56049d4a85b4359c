"""Elementwise functions of real numbers; ONNX broadcasts the operands itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from graphc.export.onnx import bits, transcendental as t
from graphc.export.onnx.builder import Value, emit, full_like, where

PRECISE = {"nextafter"}
"""Rows whose results depend on the width of half-width floats."""
HALVES = ("float16", "bfloat16")


def in_float32(f: bits.Function) -> bits.Function:
    """Compute half-width floats in float32, as several steps would round several times."""

    def compute(*xs: Value) -> Value:
        own = xs[0].dtype
        if own not in HALVES:
            return f(*xs)
        y = f(*[x.cast("float32") for x in xs])
        return y.cast(own) if y.dtype == "float32" else y

    return compute


def in_float64(f: bits.Function, native: str | None = None) -> bits.Function:
    """Compute float32 in float64, which rounds once, or by a native ONNX operation."""

    def compute(*xs: Value) -> Value:
        if xs[0].dtype != "float32":
            return f(*xs)
        if native is not None:
            return emit(native, *xs)
        y = f(*[x.cast("float64") for x in xs])
        return y.cast("float32")

    return compute


def sign(x: Value) -> Value:
    """Return -1, 0 or 1; NaN stays."""
    y = emit("Sign", x)
    return where(bits.isnan(x), x, y) if x.is_float else y


# Quotients. An integer division by 0, or of the lowest integer by -1, ends the process.


def is_small(b: Value) -> Value:
    """Return whether an integer is -1, 0 or 1."""
    return (b <= 1) & (b >= -1) if not b.dtype.startswith("u") else b <= 1


def floor_divide(a: Value, b: Value) -> Value:
    """Return NumPy's floor quotient: an integer divided by zero gives 0."""
    if a.is_float:
        return _float_floor_divide(a, b)
    small = is_small(b)
    # a * b is the quotient for b = 1 and b = -1, and 0 for b = 0.
    divisor = where(small, 1, b)
    rest = emit("Mod", a, divisor, fmod=1)
    below = ~rest.equals(0) & ((rest < 0) ^ (divisor < 0))
    return where(small, a * b, a / divisor - below.cast(a.dtype))


def _float_floor_divide(a: Value, b: Value) -> Value:
    """Return ``(a - a % b) / b``, from the exact remainder: a / b may round up to an integer."""
    rest = emit("Mod", a, b, fmod=1)
    below = ~rest.equals(0) & ((rest < 0) ^ (b < 0))
    integral = emit("Round", (a - rest) / b)
    integral = where(below, integral - 1, integral)
    quotient = a / b
    # A zero has the sign of the quotient.
    integral = where(integral.equals(0), bits.copysign(integral, quotient), integral)
    return where(b.equals(0), quotient, integral)


def remainder(a: Value, b: Value) -> Value:
    """Return NumPy's remainder: an integer modulo zero gives 0."""
    if not a.is_float:
        return emit("Mod", a, where(is_small(b), 1, b), fmod=0)
    rest = emit("Mod", a, b, fmod=1)
    rest = where(~rest.equals(0) & ((rest < 0) ^ (b < 0)), rest + b, rest)
    return where(rest.equals(0), bits.copysign(rest, b), rest)


def fmod(a: Value, b: Value) -> Value:
    """Return the remainder with the sign of a."""
    if a.is_float:
        return emit("Mod", a, b, fmod=1)
    return emit("Mod", a, where(is_small(b), 1, b), fmod=1)


# Extremes.


def maximum(a: Value, b: Value) -> Value:
    """Return the larger number, or NaN."""
    return a | b if a.dtype == "bool" else _with_nan(emit("Max", a, b), a, b)


def minimum(a: Value, b: Value) -> Value:
    """Return the smaller number, or NaN."""
    return a & b if a.dtype == "bool" else _with_nan(emit("Min", a, b), a, b)


def _with_nan(y: Value, a: Value, b: Value) -> Value:
    return where(bits.isnan(a), a, where(bits.isnan(b), b, y)) if a.is_float else y


def ignoring_nan(extreme: bits.Function) -> bits.Function:
    """Return an extreme of two numbers, or the other number if one is NaN."""

    def compute(a: Value, b: Value) -> Value:
        if not a.is_float:
            return extreme(a, b)
        return where(bits.isnan(a), b, where(bits.isnan(b), a, extreme(a, b)))

    return compute


def comparison(op: str) -> bits.Function:
    """Return a comparison; False is less than True."""

    def compute(a: Value, b: Value) -> Value:
        a, b = (x.cast("uint8") if x.dtype == "bool" else x for x in (a, b))
        return emit(op, a, b, dtype="bool")

    return compute


def heaviside(x: Value, h: Value) -> Value:
    """Return 0 below 0, h at 0, and 1 above."""
    step = where(x < 0, bits.like(x, 0), where(x > 0, bits.like(x, 1), h))
    return where(bits.isnan(x), x, step)


def invert(x: Value) -> Value:
    return ~x


def by_kind(of_bool: bits.Function, of_numbers: bits.Function) -> bits.Function:
    """Return a function that treats bool by one function and numbers by another."""
    return lambda a, b: of_bool(a, b) if a.dtype == "bool" else of_numbers(a, b)


def rounding(op: str) -> bits.Function:
    """Return a rounding operation, which leaves integers unchanged."""
    return lambda x: emit(op, x) if x.is_float else x


def operation(op: str) -> bits.Function:
    """Return an ONNX operation as a function."""
    return lambda *xs: emit(op, *xs)


def negative(x: Value) -> Value:
    """Return -x; unsigned integers wrap around."""
    return 0 - x if x.dtype.startswith("u") else -x


TABLE: Mapping[str, bits.Function] = {
    "add": by_kind(lambda a, b: a | b, lambda a, b: a + b),
    "subtract": lambda a, b: a - b,
    "multiply": by_kind(lambda a, b: a & b, lambda a, b: a * b),
    "divide": lambda a, b: a / b,
    "floor_divide": floor_divide,
    "remainder": remainder,
    "negative": negative,
    "abs": bits.magnitude,
    "sign": sign,
    "square": lambda x: x if x.dtype == "bool" else x * x,
    "sqrt": operation("Sqrt"),
    "reciprocal": lambda x: 1.0 / x,
    "floor": rounding("Floor"),
    "ceil": rounding("Ceil"),
    "trunc": bits.trunc,
    "round": rounding("Round"),
    "maximum": maximum,
    "minimum": minimum,
    "equal": lambda a, b: a.equals(b),
    "not_equal": lambda a, b: ~a.equals(b),
    "less": comparison("Less"),
    "less_equal": comparison("LessOrEqual"),
    "greater": comparison("Greater"),
    "greater_equal": comparison("GreaterOrEqual"),
    "isnan": lambda x: bits.isnan(x) if x.is_float else bits.false_like(x),
    "isinf": bits.isinf,
    "isfinite": lambda x: ~(bits.isnan(x) | bits.isinf(x)) if x.is_float else ~bits.false_like(x),
    "logical_not": invert,
    "logical_and": lambda a, b: a & b,
    "logical_or": lambda a, b: a | b,
    "logical_xor": lambda a, b: a ^ b,
    "invert": invert,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": bits.shift_towards("LEFT"),
    "right_shift": bits.shift_towards("RIGHT"),
    "real": lambda x: x,
    "imag": lambda x: full_like(x, 0),
    "conj": lambda x: x,
    "angle": t.angle,
    "clip": lambda x, low, high: minimum(maximum(x, low), high),
    "exp": operation("Exp"),
    "exp2": lambda x: emit("Pow", bits.like(x, 2.0), x),
    "expm1": in_float64(t.expm1),
    "log": operation("Log"),
    "log2": in_float64(lambda x: emit("Log", x) / t.LN2),
    "log10": in_float64(lambda x: emit("Log", x) / math.log(10)),
    "log1p": in_float64(t.log1p),
    "logaddexp": in_float64(t.logaddexp),
    "logaddexp2": in_float64(lambda a, b: t.logaddexp(a, b, t.LN2)),
    "sigmoid": t.sigmoid,
    "softplus": in_float64(t.softplus),
    "log1mexp": in_float64(t.log1mexp),
    "sin": operation("Sin"),
    "cos": operation("Cos"),
    "tan": in_float64(lambda x: emit("Sin", x) / emit("Cos", x)),
    "arcsin": in_float64(t.arcsin),
    "arccos": in_float64(t.arccos),
    "arctan": in_float64(t.arctan, "Atan"),
    "arctan2": in_float64(t.arctan2),
    "sinh": in_float64(t.sinh),
    "cosh": in_float64(lambda x: t.hyperbolic(x, 1.0)),
    "tanh": operation("Tanh"),
    "arcsinh": in_float64(t.arcsinh),
    "arccosh": in_float64(t.arccosh),
    "arctanh": in_float64(t.arctanh),
    "deg2rad": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi),
    "hypot": t.hypot,
    "cbrt": in_float64(t.cbrt),
    "signbit": bits.signbit,
    "copysign": bits.copysign,
    "fmax": ignoring_nan(maximum),
    "fmin": ignoring_nan(minimum),
    "fmod": fmod,
    "heaviside": heaviside,
    "nextafter": bits.nextafter,
    "ldexp": in_float64(bits.ldexp),
    "exponent": bits.exponent,
    "bitwise_count": bits.bitwise_count,
}
"""Functions of real numbers by row."""
