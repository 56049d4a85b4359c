"""Rows of arithmetic in MLX that take several operations, some of them on bits."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.link.mlx.arrays import end_of_kernel, from_numpy
from graphc.link.mlx.lower import elementwise
from graphc.link.mlx.lower.exponential import exp2

FRACTION = {mx.float16: 10, mx.bfloat16: 7, mx.float32: 23, mx.float64: 52}
"""Number of bits in a float's fraction, which are the lowest ones."""

GOLDEN_RATIO = (1 + math.sqrt(5)) / 2


@elementwise.in_float32
def hypot(a: Any, b: Any) -> Any:
    """Return ``high * sqrt(1 + (low / high)**2)``: no square overflows. Infinite if a or b is."""
    a, b = mx.abs(a), mx.abs(b)
    high, low = mx.maximum(a, b), mx.minimum(a, b)
    ratio = low / mx.where(mx.equal(high, 0), 1, high)
    y = high * mx.sqrt(ratio * ratio + 1)
    infinite = mx.logical_or(mx.equal(a, math.inf), mx.equal(b, math.inf))
    return mx.where(infinite, math.inf, y)


@elementwise.in_float32
def cbrt(x: Any) -> Any:
    """Return a power, corrected by a step of Newton's method, as 1/3 is rounded."""
    size = mx.abs(x)
    near = mx.power(size, 1 / 3)
    # Zeros, infinities and NaN are exact.
    steady = mx.logical_and(mx.greater(near, 0), mx.less(near, math.inf))
    divisor = mx.where(steady, near * near, 1)
    closer = near - (near - size / divisor) / 3
    return elementwise.copysign(mx.where(steady, closer, near), x)


def fmax(a: Any, b: Any) -> Any:
    """Return the larger operand that is not NaN."""
    if elementwise.is_integer(a):
        return mx.maximum(a, b)
    return mx.where(mx.logical_or(mx.greater_equal(a, b), mx.not_equal(b, b)), a, b)


def fmin(a: Any, b: Any) -> Any:
    """Return the smaller operand that is not NaN."""
    if elementwise.is_integer(a):
        return mx.minimum(a, b)
    return mx.where(mx.logical_or(mx.less_equal(a, b), mx.not_equal(b, b)), a, b)


def fmod(a: Any, b: Any) -> Any:
    """Return the remainder with the sign of a; as in NumPy, an integer modulo zero gives 0."""
    if not elementwise.is_integer(a):
        return elementwise.fmod(a, b)
    rest = elementwise.remainder(magnitude(a), magnitude(b)).astype(a.dtype)
    return mx.where(mx.less(a, 0), mx.negative(rest), rest) if elementwise.is_signed(a) else rest


def heaviside(a: Any, b: Any) -> Any:
    """Return 0, b or 1 for a negative, zero or positive a; NaN for NaN."""
    side = mx.where(mx.less(a, 0), 0, mx.where(mx.greater(a, 0), 1, a))
    return mx.where(mx.equal(a, 0), b, side)


@elementwise.in_float32
def logaddexp2(a: Any, b: Any) -> Any:
    """Return ``log2(2**a + 2**b)``.

    For near operands, ``high + 1 + c`` keeps the digits of a result near 0.
    """
    high = mx.maximum(a, b)
    # Avoid inf - inf.
    gap = mx.where(mx.equal(a, b), 0, -mx.abs(a - b))
    near = high + 1 + mx.log1p(mx.expm1(gap * math.log(2)) / 2) / math.log(2)
    far = high + mx.log1p(exp2(gap)) / math.log(2)
    return mx.where(mx.greater(gap, -1), near, far)


# The bits of floats.


def nextafter(a: Any, b: Any) -> Any:
    """Return the next number: the next integer of the bits is the next number away from 0."""
    integers = elementwise.bits(a)
    step = mx.where(mx.equal(mx.greater(b, a), mx.greater(a, 0)), 1, -1).astype(integers.dtype)
    smallest = elementwise.copysign(mx.view(mx.ones_like(integers), a.dtype), b)
    y = mx.where(mx.equal(a, 0), smallest, mx.view(integers + step, a.dtype))
    is_end = mx.logical_or(mx.equal(a, b), mx.not_equal(b, b))
    return mx.where(is_end, b, mx.where(mx.not_equal(a, a), a, y))


@elementwise.in_float32
def ldexp(a: Any, b: Any) -> Any:
    """Return ``a * 2**b``.

    The product has three representable powers, the largest one last, so that only one product
    rounds.
    """
    most = _bias(a)
    first = mx.clip(b, 1 - most, most)
    second = mx.clip(b - first, 1 - most, most)
    third = mx.clip(b - first - second, 1 - most, most)
    y = a * _power_of_two(third) * _power_of_two(second) * _power_of_two(first)
    return mx.where(mx.not_equal(b, b), b, y)


def _power_of_two(n: Any) -> Any:
    exponent = mx.where(mx.not_equal(n, n), 0, n).astype(elementwise.SIGNED[n.dtype.size])
    return mx.view(mx.left_shift(exponent + _bias(n), FRACTION[n.dtype]), n.dtype)


def _bias(x: Any) -> int:
    return int(2 ** (8 * x.dtype.size - FRACTION[x.dtype] - 2) - 1)


@elementwise.in_float32
def exponent(x: Any) -> Any:
    """Return the exponent from the bits; subnormal numbers are scaled first."""
    fraction, bias = FRACTION[x.dtype], _bias(x)
    small = mx.less(mx.abs(x), 2.0 ** (1 - bias))
    normal = mx.abs(mx.where(small, x * 2.0**fraction, x))
    y = mx.right_shift(elementwise.bits(normal), fraction) + (1 - bias)
    y = mx.where(small, y - fraction, y).astype(x.dtype)
    return mx.where(mx.logical_and(mx.not_equal(x, 0), mx.isfinite(x)), y, 0)


# The bits of integers.


def magnitude(x: Any) -> Any:
    """Return the magnitude in the unsigned dtype, which also holds the lowest integer's."""
    if not elementwise.is_signed(x):
        return x
    y = x.astype(elementwise.UNSIGNED[x.dtype.size])
    return mx.where(mx.less(x, 0), 0 - y, y)


def gcd(a: Any, b: Any) -> Any:
    """Return the greatest common divisor by Euclid's algorithm.

    The number of steps is the maximum, which two neighbouring Fibonacci numbers need.
    """
    high, low = mx.broadcast_arrays(magnitude(a), magnitude(b))
    y, rest = high, low
    for _ in range(math.ceil(8 * high.dtype.size / math.log2(GOLDEN_RATIO) / 2)):
        y = _modulo(y, rest)
        rest = _modulo(rest, y)
    # Now y or rest is 0. The largest integer occurs only if high == low or low == 0.
    is_high = mx.logical_or(mx.equal(high, low), mx.equal(low, 0))
    divisor = mx.where(is_high, high, mx.where(mx.equal(high, 0), low, mx.bitwise_or(y, rest)))
    return divisor.astype(a.dtype)


def _modulo(a: Any, b: Any) -> Any:
    """Return ``a % b`` by a separate kernel: all steps fused would take the C++ compiler a minute.

    For ``b == 0``, return a, except for the largest integer.
    """
    size = a.dtype.size
    largest = from_numpy(np.array(2 ** (8 * size) - 1, f"u{size}"))
    return end_of_kernel(mx.remainder(a, mx.where(mx.equal(b, 0), largest, b)))


def lcm(a: Any, b: Any) -> Any:
    """Return ``|a| / gcd(a, b) * |b|``, or 0 if either is 0."""
    common = magnitude(gcd(a, b))
    over = mx.floor_divide(magnitude(a), mx.where(mx.equal(common, 0), 1, common))
    return (over * magnitude(b)).astype(a.dtype)


def bitwise_count(x: Any) -> Any:
    """Return the number of set bits of the magnitude, added up in pairs, fours and eights."""
    x = magnitude(x.astype(mx.uint8) if x.dtype == mx.bool_ else x)
    size = x.dtype.size
    mask1, mask2, mask4 = (_repeat_byte(byte, size) for byte in (0x55, 0x33, 0x0F))
    x = x - mx.bitwise_and(mx.right_shift(x, 1), mask1)
    x = mx.bitwise_and(x, mask2) + mx.bitwise_and(mx.right_shift(x, 2), mask2)
    x = mx.bitwise_and(x + mx.right_shift(x, 4), mask4)
    # The highest byte of the product is the sum of all of them.
    return mx.right_shift(x * _repeat_byte(1, size), 8 * (size - 1)).astype(mx.uint8)


def _repeat_byte(byte: int, size: int) -> int:
    return int.from_bytes(bytes([byte] * size), "big")


elementwise.enter(
    *(hypot, cbrt, fmax, fmin, fmod, heaviside, logaddexp2, nextafter, ldexp, exponent),
    *(elementwise.signbit, elementwise.copysign, gcd, lcm, bitwise_count),
)
