"""Elementwise primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.grad import zero_grad
from graphc.ir import is_complex, is_inexact, is_integer
from graphc.link.jax.from_jaxpr.equation import Converter, JaxprEquation, UnsupportedEquationError
from graphc.link.jax.primitives import rows_of_primitives
from graphc.tensor import Tensor


def elementwise(function: Callable[..., Any]) -> Converter:
    """Return the converter of a primitive that is a function of graphc and has no parameters."""
    return lambda _, *operands: function(*operands)


def _power(_: JaxprEquation, x: Tensor, y: Tensor) -> Tensor:
    return gt.power(x, gt.cast(y, x.dtype) if is_integer(y.dtype) else y)


def _divide(_: JaxprEquation, a: Tensor, b: Tensor) -> Tensor:
    """Return the quotient; integers round towards zero, and n / 0 has all bits set, as in XLA."""
    if not is_integer(a.dtype):
        return a / b
    floor = gt.floor_divide(a, b)
    if not a.dtype.startswith("u"):
        floor += gt.cast(gt.not_equal(gt.remainder(a, b), 0) & ((a < 0) ^ (b < 0)), a.dtype)
    return gt.where(gt.eq(b, 0), gt.constant(~np.zeros((), a.dtype)), floor)


def _remainder(_: JaxprEquation, a: Tensor, b: Tensor) -> Tensor:
    """Return the remainder with the sign of ``a``; for an integer b = 0 it is ``a``, as in XLA."""
    y = gt.fmod(a, b)
    return gt.where(gt.eq(b, 0), a, y) if is_integer(a.dtype) else y


def _round(eqn: JaxprEquation, x: Tensor) -> Tensor:
    to_even = int(eqn["rounding_method"]) == 1
    return gt.round(x) if to_even else gt.round_half_away_from_zero(x)


def _select(_: JaxprEquation, index: Tensor, *cases: Tensor) -> Tensor:
    if index.dtype == "bool":
        return gt.where(index, cases[1], cases[0])
    y = cases[0]
    for i, case in enumerate(cases[1:], 1):
        y = gt.where(gt.eq(index, i), case, y)
    return y


def _cast(eqn: JaxprEquation, x: Tensor) -> Tensor:
    if is_complex(x.dtype) and not is_complex(eqn.dtype):
        x = gt.real(x)
    return x.astype(eqn.dtype)


def _shift(function: Callable[..., Any], kind: str = "") -> Converter:
    """Return the converter of a shift; one by the dtype's width or more removes all bits."""

    def convert(_: JaxprEquation, x: Tensor, n: Tensor) -> Tensor:
        bits = np.dtype(x.dtype).itemsize * 8
        unsigned = f"uint{bits}"
        a = gt.cast(x, unsigned) if kind == "logical" else x
        count = gt.cast(n, unsigned)
        overflow = count >= np.array(bits, unsigned)
        clipped = gt.cast(gt.where(overflow, np.array(bits - 1, unsigned), count), a.dtype)
        y = function(a, clipped)
        y = y if kind == "arithmetic" else gt.where(overflow, gt.zeros_like(y), y)
        return gt.cast(y, x.dtype)

    return convert


def _reduce_precision(eqn: JaxprEquation, x: Tensor) -> Tensor:
    info = np.finfo(x.dtype)
    if (eqn["exponent_bits"], eqn["mantissa_bits"]) != (info.nexp, info.nmant):
        raise UnsupportedEquationError
    return x


def _real_only(function: Callable[..., Any]) -> Converter:
    def convert(_: JaxprEquation, a: Tensor, b: Tensor) -> Tensor:
        if is_complex(a.dtype):
            raise UnsupportedEquationError
        return function(a, b)  # type: ignore[no-any-return]

    return convert


def _logical_or_bitwise(logical: Callable[..., Any], bitwise: Callable[..., Any]) -> Converter:
    return lambda _, a, b: logical(a, b) if a.dtype == "bool" else bitwise(a, b)


def _population_count(eqn: JaxprEquation, x: Tensor) -> Tensor:
    bits = np.dtype(x.dtype).itemsize * 8  # bitwise_count ignores the sign
    return gt.bitwise_count(gt.cast(x, f"uint{bits}")).astype(eqn.dtype)


def _polynomial(_: JaxprEquation, x: Tensor, *coefficients: Tensor) -> Tensor:
    """Evaluate a polynomial by Horner's scheme; the coefficients are of rising powers."""
    *lower, y = coefficients
    for coefficient in reversed(lower):
        y = y * x + coefficient
    return y


def _less_in_total_order(_: JaxprEquation, a: Tensor, b: Tensor) -> Tensor:
    """Return ``a < b`` in the order of sorted arrays: -0.0 before 0.0, NaN last."""
    less = a < b
    if not is_inexact(a.dtype):
        return less
    zeros = gt.eq(a, b) & gt.signbit(a) & ~gt.signbit(b)
    return less | zeros | (gt.isnan(b) & ~gt.isnan(a))


def _bitcast(eqn: JaxprEquation, bits: Tensor) -> Tensor:
    """Reinterpret integers as floating numbers, composed of their sign, exponent and mantissa."""
    dtype, width = eqn.dtype, np.dtype(bits.dtype).itemsize * 8
    if dtype == bits.dtype:
        return bits
    if dtype != f"float{width}" or width not in (32, 64):
        raise UnsupportedEquationError
    info, unsigned = np.finfo(dtype), f"uint{width}"
    word = gt.cast(bits, unsigned)

    def field(shift: int, size: int) -> Tensor:
        y = gt.right_shift(word, np.array(shift, unsigned))
        return gt.bitwise_and(y, np.array((1 << size) - 1, unsigned))

    exponent = gt.cast(field(info.nmant, info.nexp), "int32")
    mantissa = gt.cast(field(0, info.nmant), dtype)
    normal = gt.ldexp(mantissa + 2.0**info.nmant, exponent - (info.maxexp - 1 + info.nmant))
    subnormal = mantissa * info.smallest_subnormal
    nonfinite = gt.where(gt.eq(mantissa, 0), np.array(np.inf, dtype), np.array(np.nan, dtype))
    y = gt.where(gt.eq(exponent, 0), subnormal, normal)
    y = gt.where(gt.eq(exponent, 2 * info.maxexp - 1), nonfinite, y)
    return gt.where(gt.eq(field(width - 1, 1), 0), y, -y)


ELEMENTWISE: dict[str, Converter] = {
    **{name: elementwise(row) for name, row in rows_of_primitives().items()},
    "add_any": elementwise(gt.add),
    "div": _divide,
    "rem": _remainder,
    "pow": _power,
    "integer_pow": lambda eqn, x: x ** int(eqn["y"]),
    "max": _real_only(gt.maximum),
    "min": _real_only(gt.minimum),
    "abs": lambda eqn, x: gt.abs(x).astype(eqn.dtype),
    "rsqrt": elementwise(lambda x: 1 / gt.sqrt(x)),
    "one_minus_square": elementwise(lambda x: 1 - x * x),
    "polynomial": _polynomial,
    "log2": elementwise(gt.log2),
    "round": _round,
    "igamma": elementwise(gt.gammainc),
    "igammac": elementwise(gt.gammaincc),
    "regularized_incomplete_beta": elementwise(gt.betainc),
    "and": _logical_or_bitwise(gt.logical_and, gt.bitwise_and),
    "or": _logical_or_bitwise(gt.logical_or, gt.bitwise_or),
    "xor": _logical_or_bitwise(gt.logical_xor, gt.bitwise_xor),
    "not": lambda _, x: gt.logical_not(x) if x.dtype == "bool" else gt.invert(x),
    "shift_left": _shift(gt.left_shift),
    "shift_right_arithmetic": _shift(gt.right_shift, "arithmetic"),
    "shift_right_logical": _shift(gt.right_shift, "logical"),
    "population_count": _population_count,
    "select_n": _select,
    "clamp": lambda _, low, x, high: gt.minimum(gt.maximum(x, low), high),
    "convert_element_type": _cast,
    "lt_to": _less_in_total_order,
    "le_to": lambda eqn, a, b: ~_less_in_total_order(eqn, b, a),
    "bitcast_convert_type": _bitcast,
    "reduce_precision": _reduce_precision,
    "stop_gradient": lambda _, x: zero_grad(x) if is_inexact(x.dtype) else x,
}
"""Converters of elementwise primitives."""
