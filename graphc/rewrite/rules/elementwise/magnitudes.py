"""Rules of magnitudes, signs, extremes, rounding, and real and imaginary parts."""

from __future__ import annotations

import math
from functools import partial

from graphc.ir import Node, is_complex, is_float, is_inexact, is_numeric
from graphc.ir.dtypes import is_ordered, is_real, is_whole
from graphc.rewrite.algebra.sums import real_number
from graphc.rewrite.facts.bounds import bounds_of
from graphc.rewrite.facts.lengths import fit_to
from graphc.rewrite.rule import enter_equation, number_of, rewrite
from graphc.tensor.arrays.create import ones_like, zeros_like
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.tensor import as_tensor


def has_parts(dtype: str) -> bool:
    """Return whether complex numbers with parts of this dtype exist."""
    return dtype in {"float32", "float64"}


floats = partial(enter_equation, "canonicalize", is_float)
reals = partial(enter_equation, "canonicalize", is_real)
ordered = partial(enter_equation, "canonicalize", is_ordered)
complexes = partial(enter_equation, "canonicalize", is_complex)
with_parts = partial(enter_equation, "canonicalize", has_parts)

# Magnitudes and signs.

enter_equation("canonicalize", is_inexact, "abs_of_negative", lambda x: (ew.abs(-x), ew.abs(x)))
enter_equation("canonicalize", is_numeric, "abs_of_abs", lambda x: (ew.abs(ew.abs(x)), ew.abs(x)))


@rewrite("canonicalize", ew.abs)
def abs_of_nonnegative(node: Node, op: ew.Elementwise) -> Node | None:
    """``abs(x)`` is ``x`` where bounds show that ``x`` is not negative: ``abs(exp(x))``."""
    (x,) = node.inputs
    return x if not is_complex(x.type.dtype) and bounds_of(x).low >= 0 else None


floats("square_of_abs", lambda x: (ew.square(ew.abs(x)), ew.square(x)), " for real ``x``")
floats("product_of_magnitudes", lambda a, b: (ew.abs(a) * ew.abs(b), ew.abs(a * b)))
floats("quotient_of_magnitudes", lambda a, b: (ew.abs(a) / ew.abs(b), ew.abs(a / b)))
reals("sign_times_magnitude", lambda x: (ew.sign(x) * ew.abs(x), x))
reals("number_times_sign", lambda x: (x * ew.sign(x), ew.abs(x)))
signs = partial(
    enter_equation, "canonicalize", is_float, domain=lambda x: ew.isfinite(x) * ew.not_equal(x, 0)
)
signs(
    "number_over_magnitude",
    lambda x: (x / ew.abs(x), ew.sign(x)),
    ", unless ``x`` is 0, infinite or NaN",
)
signs(
    "magnitude_over_number",
    lambda x: (ew.abs(x) / x, ew.sign(x)),
    ", unless ``x`` is 0, infinite or NaN",
)
floats("sign_of_negative", lambda x: (ew.sign(-x), -ew.sign(x)))
reals("sign_of_sign", lambda x: (ew.sign(ew.sign(x)), ew.sign(x)))


@rewrite("canonicalize", ew.sign)
def sign_of_positive_integer(node: Node, op: ew.Elementwise) -> Node | None:
    """``sign(x)`` is 1 for integers that bounds show to be positive; a float may be NaN."""
    (x,) = node.inputs
    return ones_like(x) if is_whole(x.type.dtype) and bounds_of(x).low > 0 else None


# Extremes.

ordered("maximum_with_itself", lambda x: (ew.maximum(x, x), x))
ordered("minimum_with_itself", lambda x: (ew.minimum(x, x), x))
floats("maximum_of_opposites", lambda x: (ew.maximum(x, -x), ew.abs(x)))
floats("maximum_of_opposites_reversed", lambda x: (ew.maximum(-x, x), ew.abs(x)))
floats("minimum_of_opposites", lambda x: (ew.minimum(x, -x), -ew.abs(x)))
floats("minimum_of_opposites_reversed", lambda x: (ew.minimum(-x, x), -ew.abs(x)))
floats("maximum_of_negatives", lambda a, b: (ew.maximum(-a, -b), -ew.minimum(a, b)))
floats("minimum_of_negatives", lambda a, b: (ew.minimum(-a, -b), -ew.maximum(a, b)))


@rewrite("canonicalize", ew.maximum, ew.minimum)
def extreme_known_by_bounds(node: Node, op: ew.Elementwise) -> Node | None:
    """``maximum(a, b)`` is ``a`` where bounds show that ``a >= b``: ``maximum(exp(x), 0)``."""
    a, b = node.inputs
    for x, other in ((a, b), (b, a)):
        ours, theirs = bounds_of(x), bounds_of(other)
        wins = ours.low >= theirs.high if op is ew.maximum else ours.high <= theirs.low
        if wins and _is_never_nan(other):
            return fit_to(x, node)
    return None


def _is_never_nan(x: Node) -> bool:
    value = number_of(x)
    return is_whole(x.type.dtype) or (value is not None and not math.isnan(value))


@rewrite("canonicalize", ew.maximum, ew.minimum, beside=[ew.maximum, ew.minimum])
def extreme_of_extreme(node: Node, op: ew.Elementwise) -> Node | None:
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
            chosen = max(number, value) if op is ew.maximum else min(number, value)
            return fit_to(op(x, as_tensor(chosen, dtype=node.type.dtype)), node)
    return None


clip = ew.ROWS["clip"]


@rewrite("canonicalize", clip, beside=[clip])
def clip_of_clip(node: Node, op: ew.Elementwise) -> Node | None:
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
def clip_known_by_bounds(node: Node, op: ew.Elementwise) -> Node | None:
    """``clip(x, low, high)`` loses a limit that bounds show is never reached."""
    x, low, high = node.inputs
    if not (_is_never_nan(low) and _is_never_nan(high)):
        return None
    bounds, lows, highs = bounds_of(x), bounds_of(low), bounds_of(high)
    if bounds.high <= highs.low and lows.high <= highs.low:
        return fit_to(x if bounds.low >= lows.high else ew.maximum(x, low), node)
    return fit_to(ew.minimum(x, high), node) if bounds.low >= lows.high else None


# Rounding.


@rewrite("canonicalize", ew.floor, ew.ceil, ew.trunc, ew.round)
def rounding_of_whole_number(node: Node, op: ew.Elementwise) -> Node | None:
    """``floor(x)`` is ``x`` for integer values, as are ``ceil``, ``trunc`` and ``round``."""
    (x,) = node.inputs
    is_rounded = isinstance(x.op, ew.Elementwise) and x.op.facts.integral
    if not is_rounded and not (isinstance(x.op, ew.Cast) and is_whole(x.inputs[0].type.dtype)):
        return None
    return x


floats("negative_of_floor_of_negative", lambda x: (-ew.floor(-x), ew.ceil(x)))
floats("negative_of_ceil_of_negative", lambda x: (-ew.ceil(-x), ew.floor(x)))


# Complex numbers.

complexes("conj_of_conj", lambda x: (ew.conj(ew.conj(x)), x))
complexes("sum_of_conjugates", lambda a, b: (ew.conj(a) + ew.conj(b), ew.conj(a + b)))
complexes("difference_of_conjugates", lambda a, b: (ew.conj(a) - ew.conj(b), ew.conj(a - b)))
complexes("conj_of_negative", lambda x: (ew.conj(-x), -ew.conj(x)))
complexes("abs_of_conj", lambda x: (ew.abs(ew.conj(x)), ew.abs(x)))
complexes("real_of_conj", lambda x: (ew.real(ew.conj(x)), ew.real(x)))
complexes("imag_of_conj", lambda x: (ew.imag(ew.conj(x)), -ew.imag(x)))
complexes("complex_of_parts", lambda x: (ew.complex(ew.real(x), ew.imag(x)), x))
with_parts("real_of_complex", lambda a, b: (ew.real(ew.complex(a, b)), a))
with_parts("imag_of_complex", lambda a, b: (ew.imag(ew.complex(a, b)), b))
with_parts("conj_of_complex", lambda a, b: (ew.conj(ew.complex(a, b)), ew.complex(a, -b)))


@rewrite("canonicalize", ew.real, ew.imag, ew.conj, beside=[ew.Cast])
def parts_of_real_number(node: Node, op: ew.Elementwise) -> Node | None:
    """``real(z)`` and ``conj(z)`` of a real array cast to complex are ``z``; ``imag(z)`` is 0."""
    (z,) = node.inputs
    if not isinstance(z.op, ew.Cast):
        return None
    (x,) = z.inputs
    if is_complex(x.type.dtype):
        return None
    if op is ew.conj:
        return z
    return ew.cast(x, node.type.dtype) if op is ew.real else zeros_like(ew.cast(x, node.type.dtype))
