"""Exponential and trigonometric functions that onnxruntime lacks, or has in float32 only."""

from __future__ import annotations

import math

from graphc.export.onnx.bits import copysign, isinf, isnan, like, signbit
from graphc.export.onnx.builder import Value, emit, where

# Exponentials and logarithms. expm1 and log1p correct for the rounding of 1 + x.

LN2 = math.log(2)


def expm1(x: Value) -> Value:
    """Return ``exp(x) - 1`` as ``(u - 1) x / log(u)`` with ``u = exp(x)``, whose errors cancel."""
    u = emit("Exp", x)
    less = u - 1.0
    y = less * x / emit("Log", u)
    # The formula is 0 / 0 or infinite for tiny and large x.
    plain = u.equals(1.0) | less.equals(-1.0) | isinf(u) | isnan(u)
    return where(plain, where(u.equals(1.0), x, less), y)


def log1p(x: Value) -> Value:
    """Return ``log(1 + x)`` as ``log(u) x / (u - 1)`` with ``u = 1 + x``, whose errors cancel."""
    u = 1.0 + x
    plain = u.equals(1.0) | u.equals(math.inf)
    return where(plain, x, emit("Log", u) * (x / (u - 1.0)))


def logaddexp(a: Value, b: Value, unit: float = 1.0) -> Value:
    """Return ``log(exp(a unit) + exp(b unit)) / unit`` without overflow."""
    far = emit("Abs", a - b) * unit
    y = emit("Max", a, b) + log1p(emit("Exp", -far)) / unit
    return where(a.equals(b), a + LN2 / unit, where(isnan(a), a, where(isnan(b), b, y)))


def softplus(x: Value) -> Value:
    """Return ``log(1 + exp(x))`` without overflow."""
    return emit("Max", x, like(x, 0.0)) + log1p(emit("Exp", -emit("Abs", x)))


def log1mexp(x: Value) -> Value:
    """Return ``log(1 - exp(x))`` for ``x < 0``."""
    near = emit("Log", -expm1(x))
    far = log1p(-emit("Exp", x))
    return where(x > -LN2, near, far)


def sigmoid(x: Value) -> Value:
    """Return ``1 / (1 + exp(-x))``; onnxruntime's has four digits of small float32 results."""
    return 1.0 / (1.0 + emit("Exp", -x))


# Trigonometry. ONNX's inverse functions are in float32; one Newton step gives all digits.


def arctan(x: Value) -> Value:
    """Refine the angle of float32 by a remainder so small that it is its own tangent."""
    inverted = emit("Abs", x) > 1.0
    t = where(inverted, 1.0 / x, x)
    rough = emit("Atan", t.cast("float32")).cast(x.dtype)
    s, c = emit("Sin", rough), emit("Cos", rough)
    y = rough + (t * c - s) / (c + t * s)
    return where(inverted, copysign(like(x, math.pi / 2), x) - y, y)


def arcsin(x: Value) -> Value:
    """Refine the angle of float32 by a remainder so small that it is its own sine."""
    rough = emit("Asin", x.cast("float32")).cast(x.dtype)
    cosine = emit("Sqrt", (1.0 - x) * (1.0 + x))
    return rough + (x * emit("Cos", rough) - cosine * emit("Sin", rough))


def arccos(x: Value) -> Value:
    """Return arccos, near ``x = 1`` from ``2 arcsin(sqrt((1 - x) / 2))``."""
    half = emit("Sqrt", (1.0 - x) * 0.5)
    return where(x > 0.5, arcsin(half) * 2.0, math.pi / 2 - arcsin(x))


def arctan2(y: Value, x: Value) -> Value:
    """Return the angle of a point, from its mirror image in the first octant."""
    a, b = emit("Abs", y), emit("Abs", x)
    large, small = emit("Max", a, b), emit("Min", a, b)
    ratio = where(large.equals(0), like(x, 0.0), small / large)
    ratio = where(isinf(large), isinf(small).cast(x.dtype), ratio)
    angle = arctan(ratio)
    angle = where(a > b, math.pi / 2 - angle, angle)
    angle = copysign(where(signbit(x), math.pi - angle, angle), y)
    return where(isnan(x), x, where(isnan(y), y, angle))


def hyperbolic(x: Value, sign: float) -> Value:
    """Return ``(exp(|x|) + sign exp(-|x|)) / 2`` from ``exp(|x| / 2)``, without overflow."""
    half = emit("Exp", emit("Abs", x) * 0.5)
    return (half * 0.5) * half + sign * 0.5 / half / half


def sinh(x: Value) -> Value:
    """Return sinh, for small x from expm1."""
    rise = expm1(emit("Abs", x))
    near = (rise + rise / (rise + 1.0)) * 0.5
    return copysign(where(emit("Abs", x) < 1.0, near, hyperbolic(x, -1.0)), x)


def arcsinh(x: Value) -> Value:
    """Return arcsinh, from log1p unless x is large."""
    a = emit("Abs", x)
    square = a * a
    near = log1p(a + square / (1.0 + emit("Sqrt", square + 1.0)))
    return copysign(where(a > 1e9, emit("Log", a) + LN2, near), x)


def arccosh(x: Value) -> Value:
    """Return arccosh, from log1p unless x is large."""
    rest = x - 1.0
    near = log1p(rest + emit("Sqrt", rest * 2.0 + rest * rest))
    y = where(x > 1e9, emit("Log", x) + LN2, near)
    return where(x < 1.0, like(x, math.nan), y)


def arctanh(x: Value) -> Value:
    a = emit("Abs", x)
    y = where(a > 1.0, like(x, math.nan), log1p(a * 2.0 / (1.0 - a)) * 0.5)
    return copysign(y, x)


def hypot(a: Value, b: Value) -> Value:
    """Return ``sqrt(a**2 + b**2)`` without overflow; an infinite part makes it infinite."""
    a, b = emit("Abs", a), emit("Abs", b)
    large, small = emit("Max", a, b), emit("Min", a, b)
    ratio = where(large.equals(0), like(a, 0.0), small / large)
    y = large * emit("Sqrt", ratio * ratio + 1.0)
    y = where(isnan(a) | isnan(b), like(a, math.nan), y)
    return where(isinf(a) | isinf(b), like(a, math.inf), y)


def cbrt(x: Value) -> Value:
    """Return the cube root, also of negative numbers."""
    return copysign(emit("Pow", emit("Abs", x), like(x, 1 / 3)), x)


def angle(x: Value) -> Value:
    """Return 0 or pi by the sign bit, so that -0.0 gives pi."""
    y = where(signbit(x), like(x, math.pi), like(x, 0.0))
    return where(isnan(x), x, y)
