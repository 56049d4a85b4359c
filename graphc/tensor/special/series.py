"""Parts of special functions: polynomials, small remainders, sums that approximate integrals.

Expansions are computed in float64, whatever the dtype of their operands: a sum of terms would
lose the last digits of a narrow one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from math import factorial
from typing import Any

import numpy as np

from graphc.ir import Node, TensorType, dtype_name, toposort
from graphc.tensor.arrays.reduce import sum
from graphc.tensor.core.elementwise import abs, cast, less, where
from graphc.tensor.core.exponential import expm1, log1p
from graphc.tensor.core.tensor import TABLE, Tensor, constant

WIDE: set[Any] = set()
"""The expansions that are computed in float64."""


def wide(expand: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Wrap an expansion so that it computes in float64 and rounds to its operands' dtype."""

    @wraps(expand)
    def compute_and_round(*xs: Tensor) -> Tensor:
        return cast(expand(*[cast(x, "float64") for x in xs]), xs[0].dtype)

    WIDE.add(compute_and_round)
    return compute_and_round


def single(expand: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Wrap an expansion so that it computes half-width floats in float32; others unchanged."""

    @wraps(expand)
    def compute_and_round(*xs: Tensor) -> Tensor:
        dtype = xs[0].dtype
        if dtype not in {"float16", "bfloat16"}:
            return expand(*xs)
        return cast(expand(*[cast(x, "float32") for x in xs]), dtype)

    return compute_and_round


def from_definition(expand: Callable[..., Tensor]) -> Callable[..., Any]:
    """Return the NumPy reference of a row that no library has, by evaluating its definition."""

    @lru_cache(maxsize=4)
    def build(types: tuple[TensorType, ...]) -> tuple[list[Tensor], Tensor, list[Node]]:
        inputs = [type() for type in types]
        y = expand(*inputs)
        return inputs, y, toposort([y], inputs)

    def reference(*xs: np.ndarray[Any, Any]) -> Any:
        arrays = [np.asarray(x) for x in xs]
        inputs, y, nodes = build(tuple([TensorType(dtype_name(x.dtype), x.shape) for x in arrays]))
        values: dict[Any, Any] = dict(zip(inputs, arrays, strict=True))
        for node in nodes:
            if node not in values:
                values[node] = node.op.perform(*[values[x] for x in node.inputs])
        return values[y]

    return reference


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Return the sum of ``coefficients[k] * x**k``, by Horner's rule."""
    *rest, y = coefficients
    for c in reversed(rest):
        y = y * x + c
    return y


# Remainders whose leading terms cancel.

EXP_TERMS = [1 / factorial(k + 2) for k in range(14)]
LOG_TERMS = [1 / (2 * k + 3) for k in range(15)]


def excess_of_exp(s: Tensor) -> Any:
    """Return ``expm1(s) - s``, close to ``s * s / 2`` for a small s."""
    small = less(abs(s), 0.5)
    near = where(small, s, 0)
    return where(small, near * near * polynomial(near, EXP_TERMS), expm1(s) - s)


def shortfall_of_log1p(x: Tensor) -> Any:
    """Return ``x - log1p(x)``, close to ``x * x / 2`` for a small x.

    With r = x / (2 + x) the logarithm is 2 * (r + r**3 / 3 + r**5 / 5 + ...).
    """
    small = less(abs(x), 0.5)
    near = where(small, x, 0)
    r = near / (2 + near)
    series = r * (near - 2 * r * r * polynomial(r * r, LOG_TERMS))
    return where(small, series, x - log1p(x))


# Integrals.


def _half_line(step: float, low: float, high: float) -> tuple[Any, Any]:
    # Takahasi & Mori, Publ. RIMS 9 (1974): s = exp(t - exp(-t)) suits functions that fall like
    # exp(-s).
    t = np.arange(low, high, step)
    s = np.exp(t - np.exp(-t))
    return s, step * (1 + np.exp(-t)) * s


POINTS, WEIGHTS = _half_line(0.065, -3.8, 4.6)


def integral(f: Callable[..., Any], scale: Tensor, *parameters: Tensor) -> list[Tensor]:
    """Return integrals over s from 0 to infinity of functions that decay like ``exp(-s / scale)``.

    Args:
        f: Function of s and the parameters, with one more axis, that returns a list of integrands.
        scale: The s at which the integrands have fallen to about a third; floating, any shape.
        parameters: Arrays that broadcast with it.

    Returns:
        An array for each integrand, relative error about 1e-14 where it falls at that rate.
    """
    length, *arguments = (TABLE["expand_dims"](x, x.ndim) for x in (scale, *parameters))
    s = length * constant(POINTS, bake=True)
    weights = constant(WEIGHTS, bake=True)
    return [scale * sum(weights * y, -1) for y in f(s, *arguments)]


def around_peak(
    f: Callable[..., Any], width: Tensor, *parameters: Tensor, points: tuple[float, float, float]
) -> list[Tensor]:
    """Return integrals over all s of functions that decay like ``exp(-(s / width)**2 / 2)``.

    The method is the trapezoidal rule, whose error falls exponentially (Trefethen & Weideman, SIAM
    Rev. 56(3), 2014).

    Args:
        f: Function of s and the parameters, with one more axis, that returns a list of integrands.
        width: The peak's width; floating, any shape.
        parameters: Arrays that broadcast with it.
        points: The first and the last point and the step between, in widths.

    Returns:
        An array for each integrand.
    """
    first, last, step = points
    length, *arguments = (TABLE["expand_dims"](x, x.ndim) for x in (width, *parameters))
    s = length * constant(np.arange(first, last, step), bake=True)
    return [width * step * sum(y, -1) for y in f(s, *arguments)]
