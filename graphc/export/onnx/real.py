"""Elementwise functions of real numbers; ONNX broadcasts the operands itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from graphc.export.onnx.builder import Value, constant, emit, full_like, where
from graphc.export.onnx.protos import CODES
from graphc.ir import numpy_dtype

Function = Callable[..., Value]

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


def like(x: Value, value: Any) -> Value:
    """A number in x's dtype."""
    return constant(value, x.dtype)


def nan(x: Value) -> Value:
    """Where elements are not numbers."""
    return emit("IsNaN", x, dtype="bool")


def magnitude(x: Value) -> Value:
    """Without a sign."""
    return x if x.dtype == "bool" or x.dtype.startswith("u") else emit("Abs", x)


# Bits and signs.

BITS = {"float16": "int16", "bfloat16": "int16", "float32": "int32", "float64": "int64"}
"""Signed integers as wide as floats."""


def bits(x: Value, dtype: str | None = None) -> Value:
    """The bits of elements, as elements of another dtype as wide; of floats, signed integers."""
    dtype = BITS[x.dtype] if dtype is None else dtype
    return x if dtype == x.dtype else emit("BitCast", x, dtype=dtype, to=CODES[dtype])


def signbit(x: Value) -> Value:
    """The sign of a zero counts, and that of NaN."""
    return (bits(x) if x.is_float else x) < 0


def copysign(a: Value, b: Value) -> Value:
    """a with the sign of b."""
    return where(signbit(a) ^ signbit(b), -a, a)


def sign(x: Value) -> Value:
    """-1, 0 or 1; NaN stays."""
    y = emit("Sign", x)
    return where(nan(x), x, y) if x.is_float else y


def trunc(x: Value) -> Value:
    """The whole number next to x on the side of zero."""
    return where(x < 0, emit("Ceil", x), emit("Floor", x)) if x.is_float else x


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


def isinf(x: Value) -> Value:
    """Where elements are infinite."""
    return emit("IsInf", x, dtype="bool") if x.is_float else never(x)


def never(x: Value) -> Value:
    """False in x's shape."""
    return full_like(x, False, "bool")


# Shifts by so many bits as there are or more.


def shifted(direction: str) -> Function:
    """A shift; the sign of a signed integer stays."""

    def compute(a: Value, b: Value) -> Value:
        width = 8 * numpy_dtype(a.dtype).itemsize
        signed = not a.dtype.startswith("u")
        fits = (b < width) & (b >= 0) if signed else b < width
        few = where(fits, b, like(b, 0))
        if direction == "LEFT":
            return where(fits, _shift(a, few, direction), like(a, 0))
        if not signed:
            return where(fits, _shift(a, few, direction), like(a, 0))
        # Of a negative number, what stays of its complement.
        plain = where(a < 0, ~a, a)
        moved = where(fits, _shift(plain, few, direction), like(a, 0))
        return where(a < 0, ~moved, moved)

    return compute


def _shift(a: Value, b: Value, direction: str) -> Value:
    """Of unsigned integers, as of no others ONNX says what becomes of the sign."""
    unsigned = a.dtype if a.dtype.startswith("u") else f"u{a.dtype}"
    moved = emit("BitShift", bits(a, unsigned), bits(b, unsigned), direction=direction)
    return bits(moved, a.dtype)


def invert(x: Value) -> Value:
    """The other bits."""
    return ~x


def bitwise_count(x: Value) -> Value:
    """The number of ones in the magnitude, by sums of neighbouring groups of bits."""
    y = magnitude(x).cast("uint64") if x.dtype == "bool" else _unsigned(magnitude(x))
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        by = like(y, shift)
        y = (y & like(y, mask)) + (emit("BitShift", y, by, direction="RIGHT") & like(y, mask))
    y = y * like(y, 0x0101010101010101)
    return emit("BitShift", y, like(y, 56), direction="RIGHT").cast("uint8")


def _unsigned(x: Value) -> Value:
    """Numbers without a sign in 64 bits: of the lowest one, whose magnitude wraps, too."""
    return (x if x.dtype.startswith("u") else bits(x, f"u{x.dtype}")).cast("uint64")


def nextafter(a: Value, b: Value) -> Value:
    """The next float in the direction of another, one step in the bits."""
    own = bits(a)
    least = numpy_dtype(own.dtype).type(1)
    up = (b > a) ^ (a < 0)
    moved = bits(where(up, own + least, own - least), a.dtype)
    tiny = copysign(bits(constant(1, own.dtype), a.dtype), b)
    moved = where(a.equals(0), tiny, moved)
    return where(a.equals(b), b, where(nan(a), a, where(nan(b), b, moved)))


def ldexp(a: Value, b: Value) -> Value:
    """a * 2**b in four steps, of which none overflows before the result does."""
    n = emit("Min", emit("Max", trunc(b), like(b, -4400.0)), like(b, 4400.0))
    part = emit("Floor", n / 4.0)
    y = a
    for power in (part, part, part, n - part * 3.0):
        y = y * emit("Pow", like(b, 2.0), power)
    return where(nan(b), b, where(a.equals(0) | isinf(a), a, y))


def exponent(x: Value) -> Value:
    """The e of a number m * 2**e, with m from a half on and below 1; 0 where there is none."""
    wide = x.cast("float64")
    small = emit("Abs", wide) < 2.0**-1022
    scaled = where(small, wide * 2.0**54, wide)
    high = emit("BitShift", bits(scaled, "uint64"), constant(52, "uint64"), direction="RIGHT")
    e = (high & constant(0x7FF, "uint64")).cast("float64") - where(
        small, constant(1076.0, "float64"), constant(1022.0, "float64")
    )
    none = isinf(wide) | nan(wide) | wide.equals(0)
    return where(none, constant(0.0, "float64"), e).cast(x.dtype)


# Exponentials and logarithms. What ONNX lacks follows from what rounding did to 1 + x.

LN2 = math.log(2)


def expm1(x: Value) -> Value:
    """exp(x) - 1 by (u - 1) * x / log(u) with u = exp(x), whose errors cancel."""
    u = emit("Exp", x)
    less = u - 1.0
    y = less * x / emit("Log", u)
    # Where nothing of x is left, and where all of it is.
    plain = u.equals(1.0) | less.equals(-1.0) | isinf(u) | nan(u)
    return where(plain, where(u.equals(1.0), x, less), y)


def log1p(x: Value) -> Value:
    """log(1 + x) by log(u) * x / (u - 1) with u = 1 + x, whose errors cancel."""
    u = 1.0 + x
    plain = u.equals(1.0) | u.equals(math.inf)
    return where(plain, x, emit("Log", u) * (x / (u - 1.0)))


def logaddexp(a: Value, b: Value, unit: float = 1.0) -> Value:
    """log(exp(a) + exp(b)) without overflow, in units of a logarithm."""
    far = emit("Abs", a - b) * unit
    y = emit("Max", a, b) + log1p(emit("Exp", -far)) / unit
    return where(a.equals(b), a + LN2 / unit, where(nan(a), a, where(nan(b), b, y)))


def softplus(x: Value) -> Value:
    """log(1 + exp(x)) without overflow."""
    return emit("Max", x, like(x, 0.0)) + log1p(emit("Exp", -emit("Abs", x)))


def log1mexp(x: Value) -> Value:
    """log(1 - exp(x)) for x < 0."""
    near = emit("Log", -expm1(x))
    far = log1p(-emit("Exp", x))
    return where(x > -LN2, near, far)


def sigmoid(x: Value) -> Value:
    """1 / (1 + exp(-x)); onnxruntime's own has four digits of a small result in float32."""
    return 1.0 / (1.0 + emit("Exp", -x))


# Trigonometry. ONNX's inverse functions are in float32; one step of Newton's gives all digits.


def arctan(x: Value) -> Value:
    """By an angle in float32 and the rest, so small that it is its own tangent."""
    inverted = emit("Abs", x) > 1.0
    t = where(inverted, 1.0 / x, x)
    rough = emit("Atan", t.cast("float32")).cast(x.dtype)
    s, c = emit("Sin", rough), emit("Cos", rough)
    y = rough + (t * c - s) / (c + t * s)
    return where(inverted, copysign(like(x, math.pi / 2), x) - y, y)


def arcsin(x: Value) -> Value:
    """By an angle in float32 and the rest, so small that it is its own sine."""
    rough = emit("Asin", x.cast("float32")).cast(x.dtype)
    cosine = emit("Sqrt", (1.0 - x) * (1.0 + x))
    return rough + (x * emit("Cos", rough) - cosine * emit("Sin", rough))


def arccos(x: Value) -> Value:
    """From the sine of half of it, where it is small."""
    half = emit("Sqrt", (1.0 - x) * 0.5)
    return where(x > 0.5, arcsin(half) * 2.0, math.pi / 2 - arcsin(x))


def arctan2(y: Value, x: Value) -> Value:
    """The angle of a point, by that of the point in the first eighth of the circle."""
    a, b = emit("Abs", y), emit("Abs", x)
    large, small = emit("Max", a, b), emit("Min", a, b)
    ratio = where(large.equals(0), like(x, 0.0), small / large)
    ratio = where(isinf(large), isinf(small).cast(x.dtype), ratio)
    angle = arctan(ratio)
    angle = where(a > b, math.pi / 2 - angle, angle)
    angle = copysign(where(signbit(x), math.pi - angle, angle), y)
    return where(nan(x), x, where(nan(y), y, angle))


def hyperbolic(x: Value, sign: float) -> Value:
    """exp(x) and exp(-x), added or subtracted, by exp(x / 2), as they may be large."""
    half = emit("Exp", emit("Abs", x) * 0.5)
    return (half * 0.5) * half + sign * 0.5 / half / half


def sinh(x: Value) -> Value:
    """By expm1, where x is small."""
    rise = expm1(emit("Abs", x))
    near = (rise + rise / (rise + 1.0)) * 0.5
    return copysign(where(emit("Abs", x) < 1.0, near, hyperbolic(x, -1.0)), x)


def arcsinh(x: Value) -> Value:
    """By log1p, where x is small."""
    a = emit("Abs", x)
    square = a * a
    near = log1p(a + square / (1.0 + emit("Sqrt", square + 1.0)))
    return copysign(where(a > 1e9, emit("Log", a) + LN2, near), x)


def arccosh(x: Value) -> Value:
    """By log1p, where x is next to 1."""
    rest = x - 1.0
    near = log1p(rest + emit("Sqrt", rest * 2.0 + rest * rest))
    y = where(x > 1e9, emit("Log", x) + LN2, near)
    return where(x < 1.0, like(x, math.nan), y)


def arctanh(x: Value) -> Value:
    """By log1p."""
    a = emit("Abs", x)
    y = where(a > 1.0, like(x, math.nan), log1p(a * 2.0 / (1.0 - a)) * 0.5)
    return copysign(y, x)


def hypot(a: Value, b: Value) -> Value:
    """The length of a vector; an infinite part makes it infinite."""
    a, b = emit("Abs", a), emit("Abs", b)
    large, small = emit("Max", a, b), emit("Min", a, b)
    ratio = where(large.equals(0), like(a, 0.0), small / large)
    y = large * emit("Sqrt", ratio * ratio + 1.0)
    y = where(nan(a) | nan(b), like(a, math.nan), y)
    return where(isinf(a) | isinf(b), like(a, math.inf), y)


def cbrt(x: Value) -> Value:
    """The cube root, of negative numbers too."""
    return copysign(emit("Pow", emit("Abs", x), like(x, 1 / 3)), x)


def angle(x: Value) -> Value:
    """0 or pi; the sign of a zero counts."""
    y = where(signbit(x), like(x, math.pi), like(x, 0.0))
    return where(nan(x), x, y)


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
    "left_shift": shifted("LEFT"),
    "right_shift": shifted("RIGHT"),
    "real": lambda x: x,
    "imag": lambda x: full_like(x, 0),
    "conj": lambda x: x,
    "angle": angle,
    "clip": lambda x, low, high: minimum(maximum(x, low), high),
    "exp": plainly("Exp"),
    "exp2": lambda x: emit("Pow", like(x, 2.0), x),
    "expm1": in_doubles(expm1),
    "log": plainly("Log"),
    "log2": in_doubles(lambda x: emit("Log", x) / LN2),
    "log10": in_doubles(lambda x: emit("Log", x) / math.log(10)),
    "log1p": in_doubles(log1p),
    "logaddexp": in_doubles(logaddexp),
    "logaddexp2": in_doubles(lambda a, b: logaddexp(a, b, LN2)),
    "sigmoid": sigmoid,
    "softplus": in_doubles(softplus),
    "log1mexp": in_doubles(log1mexp),
    "sin": plainly("Sin"),
    "cos": plainly("Cos"),
    "tan": in_doubles(lambda x: emit("Sin", x) / emit("Cos", x)),
    "arcsin": in_doubles(arcsin),
    "arccos": in_doubles(arccos),
    "arctan": in_doubles(arctan, "Atan"),
    "arctan2": in_doubles(arctan2),
    "sinh": in_doubles(sinh),
    "cosh": in_doubles(lambda x: hyperbolic(x, 1.0)),
    "tanh": plainly("Tanh"),
    "arcsinh": in_doubles(arcsinh),
    "arccosh": in_doubles(arccosh),
    "arctanh": in_doubles(arctanh),
    "deg2rad": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi),
    "hypot": hypot,
    "cbrt": in_doubles(cbrt),
    "signbit": signbit,
    "copysign": copysign,
    "fmax": without_nan(maximum),
    "fmin": without_nan(minimum),
    "fmod": fmod,
    "heaviside": heaviside,
    "nextafter": nextafter,
    "ldexp": in_doubles(ldexp),
    "exponent": exponent,
    "bitwise_count": bitwise_count,
}
"""What computes a row of real numbers."""
