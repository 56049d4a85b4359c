"""Exponentials, logarithms and trigonometric functions in MLX.

Its ``exp`` and its sine are inaccurate in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import mlx.core as mx

from graphc.link.mlx.devices import device_choice
from graphc.link.mlx.lower import elementwise


def exp(x: Any) -> Any:
    """Return ``e**x``; in float64 by ``expm1``, which is accurate there: relative error 3e-16.

    If MLX's ``exp`` of float32 overflows early, a power is computed, with a relative error of 3e-6.
    """
    if x.dtype in {mx.float32, mx.bfloat16} and device_choice("exp overflows early"):
        return mx.power(math.e, x.astype(mx.float32)).astype(x.dtype)
    if x.dtype != mx.float64:
        return mx.exp(x)
    rise = mx.expm1(mx.abs(x)) + 1
    return mx.where(mx.less(x, 0), mx.reciprocal(rise), rise)


def exp2(x: Any) -> Any:
    return mx.power(mx.array(2, x.dtype), x)


def expm1(x: Any) -> Any:
    """Return ``exp(x) - 1``.

    For ``x = a + b i``, the real part is ``expm1(a) - 2 sin(b / 2)**2 exp(a)``, as
    ``cos(b) = 1 - 2 sin(b / 2)**2``: no digits of a small x are lost.
    """
    if not elementwise.is_complex(x):
        return mx.expm1(x)
    a, b = mx.real(x), mx.imag(x)
    half = mx.sin(b / 2)
    rise = mx.expm1(a)
    return elementwise.from_parts(rise - 2 * half * half * (rise + 1), (rise + 1) * mx.sin(b))


def power(a: Any, b: Any) -> Any:
    """Return ``a**b``; powers of integers wrap around, by MLX's repeated squares."""
    if elementwise.is_complex(a):
        return _complex_power(a, b)
    if not elementwise.is_integer(a):
        return mx.power(a, b)
    if not mx.issubdtype(b.dtype, mx.signedinteger):
        return mx.power(a, b)
    # Negative powers are 0 except of 1 and -1, whose powers depend on b's parity.
    negative = mx.less(b, 0)
    y = mx.power(a, mx.where(negative, mx.bitwise_and(b, 1), b))
    return mx.where(mx.logical_and(negative, mx.not_equal(mx.abs(a), 1)), 0, y)


def _complex_power(a: Any, b: Any) -> Any:
    # MLX computes log(0) for a == 0, where powers are 0, 1 for b == 0, and else NaN.
    # NaN is 0 / 0, as mx.compile cannot write a complex NaN in C++.
    other = mx.where(mx.greater(mx.real(b), 0), a, mx.divide(a, a))
    of_zero = mx.where(mx.equal(b, 0), 1, other)
    return mx.where(mx.equal(a, 0), of_zero, mx.power(a, b))


@elementwise.in_float32
def logaddexp(a: Any, b: Any) -> Any:
    """Return ``log(exp(a) + exp(b))``; in float64 MLX's ``exp`` is inaccurate."""
    if a.dtype != mx.float64:
        return mx.logaddexp(a, b)
    high = mx.maximum(a, b)
    # Avoid inf - inf.
    gap = mx.where(mx.equal(a, b), 0, -mx.abs(a - b))
    return high + mx.log1p(exp(gap))


def sigmoid(x: Any) -> Any:
    """Return ``1 / (1 + exp(-x))``; in float64 by ``expm1``, which is accurate there."""
    if x.dtype != mx.float64:
        return mx.sigmoid(x)
    y = mx.reciprocal(mx.expm1(mx.abs(x)) + 2)
    return mx.where(mx.less(x, 0), y, 1 - y)


def softplus(x: Any) -> Any:
    """Return ``log(1 + exp(x))`` without overflow."""
    return logaddexp(x, mx.array(0, x.dtype))


@elementwise.in_float32
def log1mexp(x: Any) -> Any:
    """Return ``log(1 - exp(x))`` for x < 0."""
    near = mx.log(-mx.expm1(x))
    far = mx.log1p(-exp(x))
    return mx.where(mx.greater(x, -math.log(2)), near, far)


def sin(x: Any) -> Any:
    """Return the sine; in float64 ``2 t / (1 + t**2)`` with ``t = tan(x / 2)``.

    The relative error is 5e-16.
    """
    if x.dtype != mx.float64:
        return mx.sin(x)
    t = mx.tan(x / 2)
    return 2 * t / (1 + t * t)


def cos(x: Any) -> Any:
    """Return the cosine; in float64 by tangents, which are accurate near its zeros too."""
    if x.dtype != mx.float64:
        return mx.cos(x)
    half, full = mx.tan(x / 2), mx.tan(x)
    square = half * half
    direct = (1 - half) * (1 + half) / (1 + square)
    return mx.where(mx.abs(full) < 1, direct, 2 * half / (1 + square) / full)


def complex_on_cpu(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that computes complex numbers on the CPU.

    Metal lacks some functions of complex numbers, and computes others inaccurately. The devices
    share memory, so nothing is copied.
    """

    @wraps(f)
    def compute(x: Any) -> Any:
        return f(x, stream=mx.cpu) if elementwise.is_complex(x) else f(x)

    return compute


elementwise.enter(
    *(power, exp, exp2, expm1, mx.log, mx.log2, mx.log10, mx.log1p, logaddexp),
    *(sigmoid, softplus, log1mexp, sin, cos, mx.tan, mx.arctan2, mx.sinh, mx.cosh, mx.tanh),
    *map(complex_on_cpu, (mx.arcsin, mx.arccos, mx.arctan, mx.arcsinh, mx.arccosh, mx.arctanh)),
    deg2rad=mx.radians,
    rad2deg=mx.degrees,
)
