"""Exponential and trigonometric functions, where onnxruntime has them in float32 or not at all."""

from __future__ import annotations

import math

from graphc.export.onnx.bits import copysign, isinf, like, nan, signbit
from graphc.export.onnx.builder import Value, emit, where

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
