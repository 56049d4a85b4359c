"""Numbers of a dtype, their signs and their bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphc.export.onnx.builder import Value, constant, emit, full_like, where
from graphc.export.onnx.protos import CODES
from graphc.ir import numpy_dtype

Function = Callable[..., Value]


def like(x: Value, value: Any) -> Value:
    """Return a constant of x's dtype."""
    return constant(value, x.dtype)


def isnan(x: Value) -> Value:
    return emit("IsNaN", x, dtype="bool")


def magnitude(x: Value) -> Value:
    return x if x.dtype == "bool" or x.dtype.startswith("u") else emit("Abs", x)


def isinf(x: Value) -> Value:
    return emit("IsInf", x, dtype="bool") if x.is_float else false_like(x)


def false_like(x: Value) -> Value:
    return full_like(x, False, "bool")


BITS = {"float16": "int16", "bfloat16": "int16", "float32": "int32", "float64": "int64"}
"""Signed integers as wide as floats."""


def bits(x: Value, dtype: str | None = None) -> Value:
    """Reinterpret the bits of elements as another dtype, by default signed integers."""
    dtype = BITS[x.dtype] if dtype is None else dtype
    return x if dtype == x.dtype else emit("BitCast", x, dtype=dtype, to=CODES[dtype])


def signbit(x: Value) -> Value:
    """Return whether the sign bit is set, also for -0.0 and NaN."""
    return (bits(x) if x.is_float else x) < 0


def copysign(a: Value, b: Value) -> Value:
    return where(signbit(a) ^ signbit(b), -a, a)


def trunc(x: Value) -> Value:
    return where(x < 0, emit("Ceil", x), emit("Floor", x)) if x.is_float else x


# Shifts, which NumPy defines for counts up to the width and above.


def shift_towards(direction: str) -> Function:
    """Return the shift function for a direction; right shifts extend the sign."""

    def compute(a: Value, b: Value) -> Value:
        width = 8 * numpy_dtype(a.dtype).itemsize
        signed = not a.dtype.startswith("u")
        fits = (b < width) & (b >= 0) if signed else b < width
        few = where(fits, b, like(b, 0))
        if direction == "LEFT":
            return where(fits, _shift(a, few, direction), like(a, 0))
        if not signed:
            return where(fits, _shift(a, few, direction), like(a, 0))
        # For a < 0, ~(~a >> b) extends the sign.
        plain = where(a < 0, ~a, a)
        moved = where(fits, _shift(plain, few, direction), like(a, 0))
        return where(a < 0, ~moved, moved)

    return compute


def _shift(a: Value, b: Value, direction: str) -> Value:
    """Shift as unsigned integers: ONNX does not define the sign of others."""
    unsigned = a.dtype if a.dtype.startswith("u") else f"u{a.dtype}"
    moved = emit("BitShift", bits(a, unsigned), bits(b, unsigned), direction=direction)
    return bits(moved, a.dtype)


def bitwise_count(x: Value) -> Value:
    """Return the number of ones in the magnitude, by adding neighbouring groups of bits."""
    y = magnitude(x).cast("uint64") if x.dtype == "bool" else _as_uint64(magnitude(x))
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        by = like(y, shift)
        y = (y & like(y, mask)) + (emit("BitShift", y, by, direction="RIGHT") & like(y, mask))
    y = y * like(y, 0x0101010101010101)
    return emit("BitShift", y, like(y, 56), direction="RIGHT").cast("uint8")


def _as_uint64(x: Value) -> Value:
    """Return magnitudes as uint64; right for the lowest integer, whose magnitude wraps."""
    return (x if x.dtype.startswith("u") else bits(x, f"u{x.dtype}")).cast("uint64")


def nextafter(a: Value, b: Value) -> Value:
    own = bits(a)
    least = numpy_dtype(own.dtype).type(1)
    up = (b > a) ^ (a < 0)
    moved = bits(where(up, own + least, own - least), a.dtype)
    tiny = copysign(bits(constant(1, own.dtype), a.dtype), b)
    moved = where(a.equals(0), tiny, moved)
    return where(a.equals(b), b, where(isnan(a), a, where(isnan(b), b, moved)))


def ldexp(a: Value, b: Value) -> Value:
    """Return ``a * 2**b``, in four steps of which none overflows before the result does."""
    n = emit("Min", emit("Max", trunc(b), like(b, -4400.0)), like(b, 4400.0))
    part = emit("Floor", n / 4.0)
    y = a
    for power in (part, part, part, n - part * 3.0):
        y = y * emit("Pow", like(b, 2.0), power)
    return where(isnan(b), b, where(a.equals(0) | isinf(a), a, y))


def exponent(x: Value) -> Value:
    """Return e of ``x = m * 2**e`` with ``0.5 <= |m| < 1``; 0 for 0, infinities and NaN."""
    wide = x.cast("float64")
    small = emit("Abs", wide) < 2.0**-1022
    scaled = where(small, wide * 2.0**54, wide)
    high = emit("BitShift", bits(scaled, "uint64"), constant(52, "uint64"), direction="RIGHT")
    e = (high & constant(0x7FF, "uint64")).cast("float64") - where(
        small, constant(1076.0, "float64"), constant(1022.0, "float64")
    )
    has_none = isinf(wide) | isnan(wide) | wide.equals(0)
    return where(has_none, constant(0.0, "float64"), e).cast(x.dtype)
