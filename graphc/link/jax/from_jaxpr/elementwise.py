"""Primitives of single elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.grad import zero_grad
from graphc.ir import is_complex, is_inexact, is_integer
from graphc.link.jax.from_jaxpr.equation import Converter, Equation, Refusal
from graphc.tensor import Tensor


def plain(function: Callable[..., Any]) -> Converter:
    """A primitive that is a function of graphc, without parameters that matter."""
    return lambda _, *operands: function(*operands)


def _power(_: Equation, x: Tensor, y: Tensor) -> Tensor:
    return gt.power(x, gt.cast(y, x.dtype) if is_integer(y.dtype) else y)


def _integer_power(eqn: Equation, x: Tensor) -> Tensor:
    return x ** int(eqn["y"])


def _divide(_: Equation, a: Tensor, b: Tensor) -> Tensor:
    """Of integers towards zero; by zero it is all ones, as in XLA."""
    if not is_integer(a.dtype):
        return a / b
    floor = gt.floor_divide(a, b)
    if not a.dtype.startswith("u"):
        floor += gt.cast((gt.remainder(a, b) != 0) & ((a < 0) ^ (b < 0)), a.dtype)
    return gt.where(gt.eq(b, 0), gt.constant(~np.zeros((), a.dtype)), floor)


def _remainder(_: Equation, a: Tensor, b: Tensor) -> Tensor:
    """With the sign of the first; by zero it is the first, as in XLA."""
    found = gt.fmod(a, b)
    return gt.where(gt.eq(b, 0), a, found) if is_integer(a.dtype) else found


def _round(eqn: Equation, x: Tensor) -> Tensor:
    to_even = int(eqn["rounding_method"]) == 1
    return gt.round(x) if to_even else gt.round_half_away_from_zero(x)


def _select(_: Equation, which: Tensor, *cases: Tensor) -> Tensor:
    if which.dtype == "bool":
        return gt.where(which, cases[1], cases[0])
    found = cases[0]
    for i, case in enumerate(cases[1:], 1):
        found = gt.where(gt.eq(which, i), case, found)
    return found


def _cast(eqn: Equation, x: Tensor) -> Tensor:
    return _real_part_of(x, eqn.dtype).astype(eqn.dtype)


def _real_part_of(x: Tensor, dtype: str) -> Tensor:
    return gt.real(x) if is_complex(x.dtype) and not is_complex(dtype) else x


def _invert(_: Equation, x: Tensor) -> Tensor:
    return gt.logical_not(x) if x.dtype == "bool" else gt.invert(x)


def _shift(function: Callable[..., Any], kind: str = "") -> Converter:
    """A shift; by as many bits as there are or more, all go, as in XLA."""

    def convert(_: Equation, x: Tensor, n: Tensor) -> Tensor:
        bits = np.dtype(x.dtype).itemsize * 8
        unsigned = f"uint{bits}"
        a = gt.cast(x, unsigned) if kind == "logical" else x
        count = gt.cast(n, unsigned)
        far = count >= np.array(bits, unsigned)
        near = gt.cast(gt.where(far, np.array(bits - 1, unsigned), count), a.dtype)
        shifted = function(a, near)
        left = shifted if kind == "arithmetic" else gt.where(far, gt.zeros_like(shifted), shifted)
        return gt.cast(left, x.dtype)

    return convert


def _absolute(eqn: Equation, x: Tensor) -> Tensor:
    return gt.abs(x).astype(eqn.dtype)


def _reduce_precision(eqn: Equation, x: Tensor) -> Tensor:
    bits = np.finfo(x.dtype)
    if (eqn["exponent_bits"], eqn["mantissa_bits"]) != (bits.nexp, bits.nmant):
        raise Refusal
    return x


def _extreme(function: Callable[..., Any]) -> Converter:
    def convert(_: Equation, a: Tensor, b: Tensor) -> Tensor:
        if is_complex(a.dtype):
            raise Refusal
        return function(a, b)  # type: ignore[no-any-return]

    return convert


def _bits(logical: Callable[..., Any], bitwise: Callable[..., Any]) -> Converter:
    return lambda _, a, b: logical(a, b) if a.dtype == "bool" else bitwise(a, b)


def _count(eqn: Equation, x: Tensor) -> Tensor:
    bits = np.dtype(x.dtype).itemsize * 8  # NumPy counts the bits of the absolute value
    return gt.bitwise_count(gt.cast(x, f"uint{bits}")).astype(eqn.dtype)


def _clamp(_: Equation, low: Tensor, x: Tensor, high: Tensor) -> Tensor:
    return gt.minimum(gt.maximum(x, low), high)


def _reciprocal_root(_: Equation, x: Tensor) -> Tensor:
    return 1 / gt.sqrt(x)


def _square(_: Equation, x: Tensor) -> Tensor:
    return x * x


def _one_minus_square(_: Equation, x: Tensor) -> Tensor:
    return 1 - x * x


def _polynomial(_: Equation, x: Tensor, *coefficients: Tensor) -> Tensor:
    """Of coefficients of rising powers, by Horner's scheme."""
    *lower, total = coefficients
    for coefficient in reversed(lower):
        total = total * x + coefficient
    return total


def _is_before(_: Equation, a: Tensor, b: Tensor) -> Tensor:
    """Whether a number is before another in sorted order: -0.0 before 0.0, NaN last."""
    less = a < b
    if not is_inexact(a.dtype):
        return less
    zeros = gt.eq(a, b) & gt.signbit(a) & ~gt.signbit(b)
    return less | zeros | (gt.isnan(b) & ~gt.isnan(a))


def _is_not_behind(eqn: Equation, a: Tensor, b: Tensor) -> Tensor:
    return ~_is_before(eqn, b, a)


def _bitcast(eqn: Equation, bits: Tensor) -> Tensor:
    """The floating-point number of the same bits, from its sign, exponent and mantissa."""
    dtype, width = eqn.dtype, np.dtype(bits.dtype).itemsize * 8
    if dtype == bits.dtype:
        return bits
    if dtype != f"float{width}" or width not in (32, 64):
        raise Refusal
    info, unsigned = np.finfo(dtype), f"uint{width}"
    word = gt.cast(bits, unsigned)

    def field(shift: int, size: int) -> Tensor:
        part = gt.right_shift(word, np.array(shift, unsigned))
        return gt.bitwise_and(part, np.array((1 << size) - 1, unsigned))

    exponent = gt.cast(field(info.nmant, info.nexp), "int32")
    mantissa = gt.cast(field(0, info.nmant), dtype)
    normal = gt.ldexp(mantissa + 2.0**info.nmant, exponent - (info.maxexp - 1 + info.nmant))
    small = mantissa * info.smallest_subnormal
    huge = gt.where(gt.eq(mantissa, 0), np.array(np.inf, dtype), np.array(np.nan, dtype))
    size = gt.where(gt.eq(exponent, 0), small, normal)
    size = gt.where(gt.eq(exponent, 2 * info.maxexp - 1), huge, size)
    return gt.where(gt.eq(field(width - 1, 1), 0), size, -size)


def _stopped(_: Equation, x: Tensor) -> Tensor:
    return zero_grad(x) if is_inexact(x.dtype) else x


SAME = (
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "log1p", "expm1", "sqrt", "cbrt"),
    *("erf", "erfc", "digamma", "floor", "ceil", "real", "imag", "conj", "nextafter", "zeta"),
    "polygamma",
)
"""Primitives that have the name and the meaning of a function of graphc."""

ELEMENTWISE: dict[str, Converter] = {
    **{name: plain(getattr(gt, name)) for name in SAME},
    "add": plain(gt.add),
    "add_any": plain(gt.add),
    "sub": plain(gt.subtract),
    "mul": plain(gt.multiply),
    "neg": plain(gt.negative),
    "div": _divide,
    "rem": _remainder,
    "pow": _power,
    "integer_pow": _integer_power,
    "max": _extreme(gt.maximum),
    "min": _extreme(gt.minimum),
    "abs": _absolute,
    "sign": plain(gt.sign),
    "square": _square,
    "rsqrt": _reciprocal_root,
    "one_minus_square": _one_minus_square,
    "polynomial": _polynomial,
    "log2": plain(gt.log2),
    "exp2": plain(gt.exp2),
    "round": _round,
    "asin": plain(gt.arcsin),
    "acos": plain(gt.arccos),
    "atan": plain(gt.arctan),
    "atan2": plain(gt.arctan2),
    "asinh": plain(gt.arcsinh),
    "acosh": plain(gt.arccosh),
    "atanh": plain(gt.arctanh),
    "logistic": plain(gt.sigmoid),
    "erf_inv": plain(gt.erfinv),
    "lgamma": plain(gt.gammaln),
    "igamma": plain(gt.gammainc),
    "igammac": plain(gt.gammaincc),
    "regularized_incomplete_beta": plain(gt.betainc),
    "bessel_i0e": plain(gt.i0e),
    "bessel_i1e": plain(gt.i1e),
    "complex": plain(gt.complex),
    "is_finite": plain(gt.isfinite),
    "eq": plain(gt.eq),
    "ne": plain(gt.neq),
    "lt": plain(gt.less),
    "le": plain(gt.less_equal),
    "gt": plain(gt.greater),
    "ge": plain(gt.greater_equal),
    "and": _bits(gt.logical_and, gt.bitwise_and),
    "or": _bits(gt.logical_or, gt.bitwise_or),
    "xor": _bits(gt.logical_xor, gt.bitwise_xor),
    "not": _invert,
    "shift_left": _shift(gt.left_shift),
    "shift_right_arithmetic": _shift(gt.right_shift, "arithmetic"),
    "shift_right_logical": _shift(gt.right_shift, "logical"),
    "population_count": _count,
    "select_n": _select,
    "clamp": _clamp,
    "convert_element_type": _cast,
    "lt_to": _is_before,
    "le_to": _is_not_behind,
    "bitcast_convert_type": _bitcast,
    "reduce_precision": _reduce_precision,
    "stop_gradient": _stopped,
}
"""Converters of primitives that compute each element from those at its place."""
