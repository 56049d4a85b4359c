"""Rules of magnitudes, signs, extremes, rounding, and of the parts of complex numbers."""

from __future__ import annotations

import math

from graphc.ir import Node, is_complex, is_float, is_inexact
from graphc.rewrite.algebra.sums import real_number
from graphc.rewrite.facts.bounds import bounds_of
from graphc.rewrite.facts.dtypes import is_ordered, is_real, is_whole
from graphc.rewrite.facts.lengths import fitted
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
    """The magnitude does not see the sign."""
    return Equation(abs(-x), abs(x))


@equation("canonicalize")
def abs_of_abs(x: Tensor) -> Equation:
    """A magnitude is its own magnitude."""
    return Equation(abs(abs(x)), abs(x))


@rewrite("canonicalize", abs)
def abs_of_nonnegative(node: Node, op: Elementwise) -> Node | None:
    """A nonnegative number, as an exponential or a length, is its own magnitude."""
    (x,) = node.inputs
    return x if not is_complex(x.type.dtype) and bounds_of(x).low >= 0 else None


@equation("canonicalize", dtypes=is_float)
def square_of_abs(x: Tensor) -> Equation:
    """A real square does not see the sign."""
    return Equation(square(abs(x)), square(x))


@equation("canonicalize", dtypes=is_float)
def product_of_magnitudes(a: Tensor, b: Tensor) -> Equation:
    """The magnitude is taken once, of the product."""
    return Equation(abs(a) * abs(b), abs(a * b))


@equation("canonicalize", dtypes=is_float)
def quotient_of_magnitudes(a: Tensor, b: Tensor) -> Equation:
    """The magnitude is taken once, of the quotient."""
    return Equation(abs(a) / abs(b), abs(a / b))


@equation("canonicalize", dtypes=is_real)
def sign_times_magnitude(x: Tensor) -> Equation:
    """Sign and magnitude make up the number."""
    return Equation(sign(x) * abs(x), x)


@equation("canonicalize", dtypes=is_real)
def number_times_sign(x: Tensor) -> Equation:
    """A number that takes its own sign is not negative."""
    return Equation(x * sign(x), abs(x))


@equation("canonicalize", dtypes=is_float, domain=lambda x: isfinite(x) * not_equal(x, 0))
def number_over_magnitude(x: Tensor) -> Equation:
    """Without its magnitude, a number is its sign."""
    return Equation(x / abs(x), sign(x))


@equation("canonicalize", dtypes=is_float, domain=lambda x: isfinite(x) * not_equal(x, 0))
def magnitude_over_number(x: Tensor) -> Equation:
    """Without its number, a magnitude is the sign."""
    return Equation(abs(x) / x, sign(x))


@equation("canonicalize", dtypes=is_float)
def sign_of_negative(x: Tensor) -> Equation:
    """The sign is changed last."""
    return Equation(sign(-x), -sign(x))


@equation("canonicalize", dtypes=is_real)
def sign_of_sign(x: Tensor) -> Equation:
    """A sign is its own sign."""
    return Equation(sign(sign(x)), sign(x))


@rewrite("canonicalize", sign)
def sign_of_positive_integer(node: Node, op: Elementwise) -> Node | None:
    """An integer known to be positive has the sign 1; of floats, NaN might be lost."""
    (x,) = node.inputs
    return ones_like(x) if is_whole(x.type.dtype) and bounds_of(x).low > 0 else None


# Extremes.


@equation("canonicalize", dtypes=is_ordered)
def maximum_with_itself(x: Tensor) -> Equation:
    """The larger of two equal numbers is that number."""
    return Equation(maximum(x, x), x)


@equation("canonicalize", dtypes=is_ordered)
def minimum_with_itself(x: Tensor) -> Equation:
    """The smaller of two equal numbers is that number."""
    return Equation(minimum(x, x), x)


@equation("canonicalize", dtypes=is_float)
def maximum_of_opposites(x: Tensor) -> Equation:
    """The larger of a number and its opposite is the magnitude."""
    return Equation(maximum(x, -x), abs(x))


@equation("canonicalize", dtypes=is_float)
def maximum_of_opposites_reversed(x: Tensor) -> Equation:
    """The larger of a number and its opposite is the magnitude."""
    return Equation(maximum(-x, x), abs(x))


@equation("canonicalize", dtypes=is_float)
def minimum_of_opposites(x: Tensor) -> Equation:
    """The smaller of a number and its opposite has the magnitude, and is not positive."""
    return Equation(minimum(x, -x), -abs(x))


@equation("canonicalize", dtypes=is_float)
def minimum_of_opposites_reversed(x: Tensor) -> Equation:
    """The smaller of a number and its opposite has the magnitude, and is not positive."""
    return Equation(minimum(-x, x), -abs(x))


@equation("canonicalize", dtypes=is_float)
def maximum_of_negatives(a: Tensor, b: Tensor) -> Equation:
    """The sign is changed once, of the other extreme."""
    return Equation(maximum(-a, -b), -minimum(a, b))


@equation("canonicalize", dtypes=is_float)
def minimum_of_negatives(a: Tensor, b: Tensor) -> Equation:
    """The sign is changed once, of the other extreme."""
    return Equation(minimum(-a, -b), -maximum(a, b))


@rewrite("canonicalize", maximum, minimum)
def extreme_known_by_bounds(node: Node, op: Elementwise) -> Node | None:
    """An operand that is known never to be the other side of the other: ``maximum(exp(x), 0)``."""
    a, b = node.inputs
    for x, other in ((a, b), (b, a)):
        mine, theirs = bounds_of(x), bounds_of(other)
        wins = mine.low >= theirs.high if op is maximum else mine.high <= theirs.low
        if wins and _is_never_nan(other):
            return fitted(x, node)
    return None


def _is_never_nan(x: Node) -> bool:
    value = number_of(x)
    return is_whole(x.type.dtype) or (value is not None and not math.isnan(value))


@rewrite("canonicalize", maximum, minimum, beside=[maximum, minimum])
def extreme_of_extreme(node: Node, op: Elementwise) -> Node | None:
    """Of the same extremes twice, an operand is looked at once, and two numbers are one."""
    a, b = node.inputs
    for inner, other in ((a, b), (b, a)):
        if inner.op is not op:
            continue
        if other in inner.inputs:
            return fitted(inner, node)
        number = real_number(other)
        for x, constant in (inner.inputs, inner.inputs[::-1]):
            value = real_number(constant)
            if number is None or value is None:
                continue
            chosen = max(number, value) if op is maximum else min(number, value)
            return fitted(op(x, as_tensor(chosen, dtype=node.type.dtype)), node)
    return None


clip = ROWS["clip"]


@rewrite("canonicalize", clip, beside=[clip])
def clip_of_clip(node: Node, op: Elementwise) -> Node | None:
    """Two intervals of numbers that overlap are one interval."""
    inner, *outer = node.inputs
    if inner.op is not op:
        return None
    x, *limits = inner.inputs
    if limits == outer:
        return fitted(inner, node)
    (a, b), (c, d) = map(number_of, limits), map(number_of, outer)
    if any(y is None or math.isnan(y) for y in (a, b, c, d)) or not max(a, c) <= min(b, d):
        return None
    low, high = (as_tensor(y, dtype=node.type.dtype) for y in (max(a, c), min(b, d)))
    return fitted(op(x, low, high), node)


@rewrite("canonicalize", clip)
def clip_known_by_bounds(node: Node, op: Elementwise) -> Node | None:
    """A limit that is never reached is none."""
    x, low, high = node.inputs
    if not (_is_never_nan(low) and _is_never_nan(high)):
        return None
    inside, least, most = bounds_of(x), bounds_of(low), bounds_of(high)
    if inside.high <= most.low and least.high <= most.low:
        return fitted(x if inside.low >= least.high else maximum(x, low), node)
    return fitted(minimum(x, high), node) if inside.low >= least.high else None


# Rounding.


@rewrite("canonicalize", floor, ceil, trunc, round)
def rounding_of_whole_number(node: Node, op: Elementwise) -> Node | None:
    """A whole number is rounded to itself."""
    (x,) = node.inputs
    whole = isinstance(x.op, Elementwise) and x.op.facts.whole
    if not whole and not (isinstance(x.op, Cast) and is_whole(x.inputs[0].type.dtype)):
        return None
    return x


@equation("canonicalize", dtypes=is_float)
def negative_of_floor_of_negative(x: Tensor) -> Equation:
    """Rounding down seen from the other side is rounding up."""
    return Equation(-floor(-x), ceil(x))


@equation("canonicalize", dtypes=is_float)
def negative_of_ceil_of_negative(x: Tensor) -> Equation:
    """Rounding up seen from the other side is rounding down."""
    return Equation(-ceil(-x), floor(x))


# Complex numbers.


def has_parts(dtype: str) -> bool:
    """Whether complex numbers are made of these."""
    return dtype in {"float32", "float64"}


@equation("canonicalize", dtypes=is_complex)
def conj_of_conj(x: Tensor) -> Equation:
    """Two conjugations are none."""
    return Equation(conj(conj(x)), x)


@equation("canonicalize", dtypes=is_complex)
def sum_of_conjugates(a: Tensor, b: Tensor) -> Equation:
    """The conjugate is taken once, of the sum."""
    return Equation(conj(a) + conj(b), conj(a + b))


@equation("canonicalize", dtypes=is_complex)
def difference_of_conjugates(a: Tensor, b: Tensor) -> Equation:
    """The conjugate is taken once, of the difference."""
    return Equation(conj(a) - conj(b), conj(a - b))


@equation("canonicalize", dtypes=is_complex)
def conj_of_negative(x: Tensor) -> Equation:
    """The sign is changed last."""
    return Equation(conj(-x), -conj(x))


@equation("canonicalize", dtypes=is_complex)
def abs_of_conj(x: Tensor) -> Equation:
    """A conjugate is as large as the number."""
    return Equation(abs(conj(x)), abs(x))


@equation("canonicalize", dtypes=is_complex)
def real_of_conj(x: Tensor) -> Equation:
    """A conjugate has the same real part."""
    return Equation(real(conj(x)), real(x))


@equation("canonicalize", dtypes=is_complex)
def imag_of_conj(x: Tensor) -> Equation:
    """A conjugate has the opposite imaginary part."""
    return Equation(imag(conj(x)), -imag(x))


@equation("canonicalize", dtypes=is_complex)
def complex_of_parts(x: Tensor) -> Equation:
    """Taken apart and put together, a number is as it was."""
    return Equation(complex(real(x), imag(x)), x)


@equation("canonicalize", dtypes=has_parts)
def real_of_complex(a: Tensor, b: Tensor) -> Equation:
    """The part that a complex number was made of."""
    return Equation(real(complex(a, b)), a)


@equation("canonicalize", dtypes=has_parts)
def imag_of_complex(a: Tensor, b: Tensor) -> Equation:
    """The part that a complex number was made of."""
    return Equation(imag(complex(a, b)), b)


@equation("canonicalize", dtypes=has_parts)
def conj_of_complex(a: Tensor, b: Tensor) -> Equation:
    """The sign is changed of the imaginary part alone."""
    return Equation(conj(complex(a, b)), complex(a, -b))


@rewrite("canonicalize", real, imag, conj, beside=[Cast])
def parts_of_real_number(node: Node, op: Elementwise) -> Node | None:
    """A real number made complex has itself as its real part, and no imaginary one."""
    (between,) = node.inputs
    if not isinstance(between.op, Cast):
        return None
    (x,) = between.inputs
    if is_complex(x.type.dtype):
        return None
    if op is conj:
        return between
    return cast(x, node.type.dtype) if op is real else zeros_like(cast(x, node.type.dtype))
