"""Rules of magnitudes, signs, extremes, rounding, and real and imaginary parts."""

from __future__ import annotations

import math

from graphc.ir import Node, is_complex, is_float, is_inexact
from graphc.rewrite.algebra.sums import real_number
from graphc.rewrite.facts.bounds import bounds_of
from graphc.rewrite.facts.dtypes import is_ordered, is_real, is_whole
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import Equation, equation, number_of, rewrite
from graphc.tensor.arrays.create import ones_like, zeros_like
from graphc.tensor.core.elementwise import (
    ROWS,
    Cast,
    Elementwise,
    abs,
    cast,
    ceil,
    complex,
    conj,
    floor,
    imag,
    isfinite,
    maximum,
    minimum,
    not_equal,
    real,
    round,
    sign,
    square,
    trunc,
)
from graphc.tensor.core.tensor import Tensor, as_tensor

# Magnitudes and signs.


@equation("canonicalize", dtypes=is_inexact)
def abs_of_negative(x: Tensor) -> Equation:
    """``abs(-x)`` is ``abs(x)``."""
    return Equation(abs(-x), abs(x))


@equation("canonicalize")
def abs_of_abs(x: Tensor) -> Equation:
    """``abs(abs(x))`` is ``abs(x)``."""
    return Equation(abs(abs(x)), abs(x))


@rewrite("canonicalize", abs)
def abs_of_nonnegative(node: Node, op: Elementwise) -> Node | None:
    """``abs(x)`` is ``x`` where bounds show that ``x`` is not negative: ``abs(exp(x))``."""
    (x,) = node.inputs
    return x if not is_complex(x.type.dtype) and bounds_of(x).low >= 0 else None


@equation("canonicalize", dtypes=is_float)
def square_of_abs(x: Tensor) -> Equation:
    """``square(abs(x))`` is ``square(x)`` for real ``x``."""
    return Equation(square(abs(x)), square(x))


@equation("canonicalize", dtypes=is_float)
def product_of_magnitudes(a: Tensor, b: Tensor) -> Equation:
    """``abs(a) * abs(b)`` is ``abs(a * b)``."""
    return Equation(abs(a) * abs(b), abs(a * b))


@equation("canonicalize", dtypes=is_float)
def quotient_of_magnitudes(a: Tensor, b: Tensor) -> Equation:
    """``abs(a) / abs(b)`` is ``abs(a / b)``."""
    return Equation(abs(a) / abs(b), abs(a / b))


@equation("canonicalize", dtypes=is_real)
def sign_times_magnitude(x: Tensor) -> Equation:
    """``sign(x) * abs(x)`` is ``x``."""
    return Equation(sign(x) * abs(x), x)


@equation("canonicalize", dtypes=is_real)
def number_times_sign(x: Tensor) -> Equation:
    """``x * sign(x)`` is ``abs(x)``."""
    return Equation(x * sign(x), abs(x))


@equation("canonicalize", dtypes=is_float, domain=lambda x: isfinite(x) * not_equal(x, 0))
def number_over_magnitude(x: Tensor) -> Equation:
    """``x / abs(x)`` is ``sign(x)``, unless ``x`` is 0, infinite or NaN."""
    return Equation(x / abs(x), sign(x))


@equation("canonicalize", dtypes=is_float, domain=lambda x: isfinite(x) * not_equal(x, 0))
def magnitude_over_number(x: Tensor) -> Equation:
    """``abs(x) / x`` is ``sign(x)``, unless ``x`` is 0, infinite or NaN."""
    return Equation(abs(x) / x, sign(x))


@equation("canonicalize", dtypes=is_float)
def sign_of_negative(x: Tensor) -> Equation:
    """``sign(-x)`` is ``-sign(x)``."""
    return Equation(sign(-x), -sign(x))


@equation("canonicalize", dtypes=is_real)
def sign_of_sign(x: Tensor) -> Equation:
    """``sign(sign(x))`` is ``sign(x)``."""
    return Equation(sign(sign(x)), sign(x))


@rewrite("canonicalize", sign)
def sign_of_positive_integer(node: Node, op: Elementwise) -> Node | None:
    """``sign(x)`` is 1 for integers that bounds show to be positive; a float may be NaN."""
    (x,) = node.inputs
    return ones_like(x) if is_whole(x.type.dtype) and bounds_of(x).low > 0 else None


# Extremes.


@equation("canonicalize", dtypes=is_ordered)
def maximum_with_itself(x: Tensor) -> Equation:
    """``maximum(x, x)`` is ``x``."""
    return Equation(maximum(x, x), x)


@equation("canonicalize", dtypes=is_ordered)
def minimum_with_itself(x: Tensor) -> Equation:
    """``minimum(x, x)`` is ``x``."""
    return Equation(minimum(x, x), x)


@equation("canonicalize", dtypes=is_float)
def maximum_of_opposites(x: Tensor) -> Equation:
    """``maximum(x, -x)`` is ``abs(x)``."""
    return Equation(maximum(x, -x), abs(x))


@equation("canonicalize", dtypes=is_float)
def maximum_of_opposites_reversed(x: Tensor) -> Equation:
    """``maximum(-x, x)`` is ``abs(x)``."""
    return Equation(maximum(-x, x), abs(x))


@equation("canonicalize", dtypes=is_float)
def minimum_of_opposites(x: Tensor) -> Equation:
    """``minimum(x, -x)`` is ``-abs(x)``."""
    return Equation(minimum(x, -x), -abs(x))


@equation("canonicalize", dtypes=is_float)
def minimum_of_opposites_reversed(x: Tensor) -> Equation:
    """``minimum(-x, x)`` is ``-abs(x)``."""
    return Equation(minimum(-x, x), -abs(x))


@equation("canonicalize", dtypes=is_float)
def maximum_of_negatives(a: Tensor, b: Tensor) -> Equation:
    """``maximum(-a, -b)`` is ``-minimum(a, b)``."""
    return Equation(maximum(-a, -b), -minimum(a, b))


@equation("canonicalize", dtypes=is_float)
def minimum_of_negatives(a: Tensor, b: Tensor) -> Equation:
    """``minimum(-a, -b)`` is ``-maximum(a, b)``."""
    return Equation(minimum(-a, -b), -maximum(a, b))


@rewrite("canonicalize", maximum, minimum)
def extreme_known_by_bounds(node: Node, op: Elementwise) -> Node | None:
    """``maximum(a, b)`` is ``a`` where bounds show that ``a >= b``: ``maximum(exp(x), 0)``."""
    a, b = node.inputs
    for x, other in ((a, b), (b, a)):
        ours, theirs = bounds_of(x), bounds_of(other)
        wins = ours.low >= theirs.high if op is maximum else ours.high <= theirs.low
        if wins and _is_never_nan(other):
            return fit_to(x, node)
    return None


def _is_never_nan(x: Node) -> bool:
    value = number_of(x)
    return is_whole(x.type.dtype) or (value is not None and not math.isnan(value))


@rewrite("canonicalize", maximum, minimum, beside=[maximum, minimum])
def extreme_of_extreme(node: Node, op: Elementwise) -> Node | None:
    """``maximum(maximum(x, 1), 2)`` is ``maximum(x, 2)``; a repeated operand counts once."""
    a, b = node.inputs
    for inner, other in ((a, b), (b, a)):
        if inner.op is not op:
            continue
        if other in inner.inputs:
            return fit_to(inner, node)
        number = real_number(other)
        for x, constant in (inner.inputs, inner.inputs[::-1]):
            value = real_number(constant)
            if number is None or value is None:
                continue
            chosen = max(number, value) if op is maximum else min(number, value)
            return fit_to(op(x, as_tensor(chosen, dtype=node.type.dtype)), node)
    return None


clip = ROWS["clip"]


@rewrite("canonicalize", clip, beside=[clip])
def clip_of_clip(node: Node, op: Elementwise) -> Node | None:
    """``clip(clip(x, 0, 5), 3, 8)`` is ``clip(x, 3, 5)``, if the intervals overlap."""
    inner, *outer = node.inputs
    if inner.op is not op:
        return None
    x, *limits = inner.inputs
    if limits == outer:
        return fit_to(inner, node)
    (a, b), (c, d) = map(number_of, limits), map(number_of, outer)
    if any(y is None or math.isnan(y) for y in (a, b, c, d)) or not max(a, c) <= min(b, d):
        return None
    low, high = (as_tensor(y, dtype=node.type.dtype) for y in (max(a, c), min(b, d)))
    return fit_to(op(x, low, high), node)


@rewrite("canonicalize", clip)
def clip_known_by_bounds(node: Node, op: Elementwise) -> Node | None:
    """``clip(x, low, high)`` loses a limit that bounds show is never reached."""
    x, low, high = node.inputs
    if not (_is_never_nan(low) and _is_never_nan(high)):
        return None
    bounds, lows, highs = bounds_of(x), bounds_of(low), bounds_of(high)
    if bounds.high <= highs.low and lows.high <= highs.low:
        return fit_to(x if bounds.low >= lows.high else maximum(x, low), node)
    return fit_to(minimum(x, high), node) if bounds.low >= lows.high else None


# Rounding.


@rewrite("canonicalize", floor, ceil, trunc, round)
def rounding_of_whole_number(node: Node, op: Elementwise) -> Node | None:
    """``floor(x)`` is ``x`` for whole numbers, as are ``ceil``, ``trunc`` and ``round``."""
    (x,) = node.inputs
    is_rounded = isinstance(x.op, Elementwise) and x.op.facts.integral
    if not is_rounded and not (isinstance(x.op, Cast) and is_whole(x.inputs[0].type.dtype)):
        return None
    return x


@equation("canonicalize", dtypes=is_float)
def negative_of_floor_of_negative(x: Tensor) -> Equation:
    """``-floor(-x)`` is ``ceil(x)``."""
    return Equation(-floor(-x), ceil(x))


@equation("canonicalize", dtypes=is_float)
def negative_of_ceil_of_negative(x: Tensor) -> Equation:
    """``-ceil(-x)`` is ``floor(x)``."""
    return Equation(-ceil(-x), floor(x))


# Complex numbers.


def has_parts(dtype: str) -> bool:
    """Return whether complex numbers with parts of this dtype exist."""
    return dtype in {"float32", "float64"}


@equation("canonicalize", dtypes=is_complex)
def conj_of_conj(x: Tensor) -> Equation:
    """``conj(conj(x))`` is ``x``."""
    return Equation(conj(conj(x)), x)


@equation("canonicalize", dtypes=is_complex)
def sum_of_conjugates(a: Tensor, b: Tensor) -> Equation:
    """``conj(a) + conj(b)`` is ``conj(a + b)``."""
    return Equation(conj(a) + conj(b), conj(a + b))


@equation("canonicalize", dtypes=is_complex)
def difference_of_conjugates(a: Tensor, b: Tensor) -> Equation:
    """``conj(a) - conj(b)`` is ``conj(a - b)``."""
    return Equation(conj(a) - conj(b), conj(a - b))


@equation("canonicalize", dtypes=is_complex)
def conj_of_negative(x: Tensor) -> Equation:
    """``conj(-x)`` is ``-conj(x)``."""
    return Equation(conj(-x), -conj(x))


@equation("canonicalize", dtypes=is_complex)
def abs_of_conj(x: Tensor) -> Equation:
    """``abs(conj(x))`` is ``abs(x)``."""
    return Equation(abs(conj(x)), abs(x))


@equation("canonicalize", dtypes=is_complex)
def real_of_conj(x: Tensor) -> Equation:
    """``real(conj(x))`` is ``real(x)``."""
    return Equation(real(conj(x)), real(x))


@equation("canonicalize", dtypes=is_complex)
def imag_of_conj(x: Tensor) -> Equation:
    """``imag(conj(x))`` is ``-imag(x)``."""
    return Equation(imag(conj(x)), -imag(x))


@equation("canonicalize", dtypes=is_complex)
def complex_of_parts(x: Tensor) -> Equation:
    """``complex(real(x), imag(x))`` is ``x``."""
    return Equation(complex(real(x), imag(x)), x)


@equation("canonicalize", dtypes=has_parts)
def real_of_complex(a: Tensor, b: Tensor) -> Equation:
    """``real(complex(a, b))`` is ``a``."""
    return Equation(real(complex(a, b)), a)


@equation("canonicalize", dtypes=has_parts)
def imag_of_complex(a: Tensor, b: Tensor) -> Equation:
    """``imag(complex(a, b))`` is ``b``."""
    return Equation(imag(complex(a, b)), b)


@equation("canonicalize", dtypes=has_parts)
def conj_of_complex(a: Tensor, b: Tensor) -> Equation:
    """``conj(complex(a, b))`` is ``complex(a, -b)``."""
    return Equation(conj(complex(a, b)), complex(a, -b))


@rewrite("canonicalize", real, imag, conj, beside=[Cast])
def parts_of_real_number(node: Node, op: Elementwise) -> Node | None:
    """``real(z)`` and ``conj(z)`` of a real array cast to complex are ``z``; ``imag(z)`` is 0."""
    (z,) = node.inputs
    if not isinstance(z.op, Cast):
        return None
    (x,) = z.inputs
    if is_complex(x.type.dtype):
        return None
    if op is conj:
        return z
    return cast(x, node.type.dtype) if op is real else zeros_like(cast(x, node.type.dtype))
