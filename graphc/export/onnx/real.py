"""Elementwise functions of real numbers; ONNX broadcasts the operands itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from graphc.export.onnx import bits, transcendental as t
from graphc.export.onnx.bits import Function, copysign, isinf, like, magnitude, nan, never, trunc
from graphc.export.onnx.builder import Value, emit, full_like, where

PRECISE = {"nextafter"}
"""Rows that have to know how wide half-width floats are."""
HALVES = ("float16", "bfloat16")


def in_wide(f: Function) -> Function:
    """The function of half-width floats in float32, as several steps would round several times."""

    def compute(*xs: Value) -> Value:
        own = xs[0].dtype
        if own not in HALVES:
            return f(*xs)
        y = f(*[x.cast("float32") for x in xs])
        return y.cast(own) if y.dtype == "float32" else y

    return compute


def in_doubles(f: Function, native: str | None = None) -> Function:
    """The function of float32 computed in float64, which rounds once; or by an ONNX operation."""

    def compute(*xs: Value) -> Value:
        if xs[0].dtype != "float32":
            return f(*xs)
        if native is not None:
            return emit(native, *xs)
        y = f(*[x.cast("float64") for x in xs])
        return y.cast("float32")

    return compute


def sign(x: Value) -> Value:
    """-1, 0 or 1; NaN stays."""
    y = emit("Sign", x)
    return where(nan(x), x, y) if x.is_float else y


# Quotients. No integer is divided by 0, and the lowest one not by -1: it ends the process.


def is_small(b: Value) -> Value:
    """Where an integer is -1, 0 or 1."""
    return (b <= 1) & (b >= -1) if not b.dtype.startswith("u") else b <= 1


def floor_divide(a: Value, b: Value) -> Value:
    """NumPy's: an integer divided by zero gives 0."""
    if a.is_float:
        return _float_floor_divide(a, b)
    small = is_small(b)
    # a * b is the quotient by 1, and by -1, and what is wanted of one by 0.
    divisor = where(small, 1, b)
    rest = emit("Mod", a, divisor, fmod=1)
    below = ~rest.equals(0) & ((rest < 0) ^ (divisor < 0))
    return where(small, a * b, a / divisor - below.cast(a.dtype))


def _float_floor_divide(a: Value, b: Value) -> Value:
    """From the exact remainder, as a / b may round up to a whole number."""
    rest = emit("Mod", a, b, fmod=1)
    below = ~rest.equals(0) & ((rest < 0) ^ (b < 0))
    whole = emit("Round", (a - rest) / b)
    whole = where(below, whole - 1, whole)
    quotient = a / b
    # The sign of a zero is that of the quotient.
    whole = where(whole.equals(0), copysign(whole, quotient), whole)
    return where(b.equals(0), quotient, whole)


def remainder(a: Value, b: Value) -> Value:
    """NumPy's: an integer modulo zero gives 0."""
    if not a.is_float:
        return emit("Mod", a, where(is_small(b), 1, b), fmod=0)
    rest = emit("Mod", a, b, fmod=1)
    rest = where(~rest.equals(0) & ((rest < 0) ^ (b < 0)), rest + b, rest)
    return where(rest.equals(0), copysign(rest, b), rest)


def fmod(a: Value, b: Value) -> Value:
    """The remainder with the sign of a."""
    if a.is_float:
        return emit("Mod", a, b, fmod=1)
    return emit("Mod", a, where(is_small(b), 1, b), fmod=1)


# Extremes.


def maximum(a: Value, b: Value) -> Value:
    """The larger one; NaN goes before."""
    return a | b if a.dtype == "bool" else _with_nan(emit("Max", a, b), a, b)


def minimum(a: Value, b: Value) -> Value:
    """The smaller one; NaN goes before."""
    return a & b if a.dtype == "bool" else _with_nan(emit("Min", a, b), a, b)


def _with_nan(y: Value, a: Value, b: Value) -> Value:
    return where(nan(a), a, where(nan(b), b, y)) if a.is_float else y


def without_nan(extreme: Function) -> Function:
    """The extreme of two numbers, or the one that is a number."""

    def compute(a: Value, b: Value) -> Value:
        if not a.is_float:
            return extreme(a, b)
        return where(nan(a), b, where(nan(b), a, extreme(a, b)))

    return compute


def compared(op: str) -> Function:
    """A comparison; False is below True."""

    def compute(a: Value, b: Value) -> Value:
        a, b = (x.cast("uint8") if x.dtype == "bool" else x for x in (a, b))
        return emit(op, a, b, dtype="bool")

    return compute


def heaviside(x: Value, h: Value) -> Value:
    """0 below 0, h there, and 1 above."""
    step = where(x < 0, like(x, 0), where(x > 0, like(x, 1), h))
    return where(nan(x), x, step)


def invert(x: Value) -> Value:
    """The other bits."""
    return ~x


def either(of_bool: Function, of_numbers: Function) -> Function:
    """One function of bool, and another of numbers."""
    return lambda a, b: of_bool(a, b) if a.dtype == "bool" else of_numbers(a, b)


def whole(op: str) -> Function:
    """An operation that integers are unchanged by."""
    return lambda x: emit(op, x) if x.is_float else x


def plainly(op: str) -> Function:
    """An ONNX operation."""
    return lambda *xs: emit(op, *xs)


def negative(x: Value) -> Value:
    """The number of the other sign; unsigned ones wrap around."""
    return 0 - x if x.dtype.startswith("u") else -x


TABLE: Mapping[str, Function] = {
    "add": either(lambda a, b: a | b, lambda a, b: a + b),
    "subtract": lambda a, b: a - b,
    "multiply": either(lambda a, b: a & b, lambda a, b: a * b),
    "divide": lambda a, b: a / b,
    "floor_divide": floor_divide,
    "remainder": remainder,
    "negative": negative,
    "abs": magnitude,
    "sign": sign,
    "square": lambda x: x if x.dtype == "bool" else x * x,
    "sqrt": plainly("Sqrt"),
    "reciprocal": lambda x: 1.0 / x,
    "floor": whole("Floor"),
    "ceil": whole("Ceil"),
    "trunc": trunc,
    "round": whole("Round"),
    "maximum": maximum,
    "minimum": minimum,
    "equal": lambda a, b: a.equals(b),
    "not_equal": lambda a, b: ~a.equals(b),
    "less": compared("Less"),
    "less_equal": compared("LessOrEqual"),
    "greater": compared("Greater"),
    "greater_equal": compared("GreaterOrEqual"),
    "isnan": lambda x: nan(x) if x.is_float else never(x),
    "isinf": isinf,
    "isfinite": lambda x: ~(nan(x) | isinf(x)) if x.is_float else ~never(x),
    "logical_not": invert,
    "logical_and": lambda a, b: a & b,
    "logical_or": lambda a, b: a | b,
    "logical_xor": lambda a, b: a ^ b,
    "invert": invert,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": bits.shifted("LEFT"),
    "right_shift": bits.shifted("RIGHT"),
    "real": lambda x: x,
    "imag": lambda x: full_like(x, 0),
    "conj": lambda x: x,
    "angle": t.angle,
    "clip": lambda x, low, high: minimum(maximum(x, low), high),
    "exp": plainly("Exp"),
    "exp2": lambda x: emit("Pow", like(x, 2.0), x),
    "expm1": in_doubles(t.expm1),
    "log": plainly("Log"),
    "log2": in_doubles(lambda x: emit("Log", x) / t.LN2),
    "log10": in_doubles(lambda x: emit("Log", x) / math.log(10)),
    "log1p": in_doubles(t.log1p),
    "logaddexp": in_doubles(t.logaddexp),
    "logaddexp2": in_doubles(lambda a, b: t.logaddexp(a, b, t.LN2)),
    "sigmoid": t.sigmoid,
    "softplus": in_doubles(t.softplus),
    "log1mexp": in_doubles(t.log1mexp),
    "sin": plainly("Sin"),
    "cos": plainly("Cos"),
    "tan": in_doubles(lambda x: emit("Sin", x) / emit("Cos", x)),
    "arcsin": in_doubles(t.arcsin),
    "arccos": in_doubles(t.arccos),
    "arctan": in_doubles(t.arctan, "Atan"),
    "arctan2": in_doubles(t.arctan2),
    "sinh": in_doubles(t.sinh),
    "cosh": in_doubles(lambda x: t.hyperbolic(x, 1.0)),
    "tanh": plainly("Tanh"),
    "arcsinh": in_doubles(t.arcsinh),
    "arccosh": in_doubles(t.arccosh),
    "arctanh": in_doubles(t.arctanh),
    "deg2rad": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi),
    "hypot": t.hypot,
    "cbrt": in_doubles(t.cbrt),
    "signbit": bits.signbit,
    "copysign": copysign,
    "fmax": without_nan(maximum),
    "fmin": without_nan(minimum),
    "fmod": fmod,
    "heaviside": heaviside,
    "nextafter": bits.nextafter,
    "ldexp": in_doubles(bits.ldexp),
    "exponent": bits.exponent,
    "bitwise_count": bits.bitwise_count,
}
"""What computes a row of real numbers."""
