"""Elementwise rows in ``mlx.core``, which broadcasts the operands itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import mlx.core as mx

from graphc.grad.barriers import Barrier
from graphc.link.mlx.arrays import dtype_of
from graphc.link.mlx.backend import backend
from graphc.tensor.core.elementwise import ROWS, Cast, Where

HALVES = (mx.float16, mx.bfloat16)
SIGNED = {1: mx.int8, 2: mx.int16, 4: mx.int32, 8: mx.int64}
UNSIGNED = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint64}
"""Unsigned integer dtypes by their number of bytes."""


def is_integer(x: Any) -> bool:
    return not mx.issubdtype(x.dtype, mx.inexact)


def is_signed(x: Any) -> bool:
    return bool(mx.issubdtype(x.dtype, mx.signedinteger))


def is_complex(x: Any) -> bool:
    return bool(x.dtype == mx.complex64)


def in_float32(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that computes half-width floats in float32, to round only once."""

    @wraps(f)
    def compute(*xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype not in HALVES:
            return f(*xs)
        return f(*[x.astype(mx.float32) for x in xs]).astype(dtype)

    return compute


def enter(*functions: Callable[..., Any], **renamed: Callable[..., Any]) -> None:
    """Enter functions of operands as lowerings of the rows with their names, or of other rows."""
    rows = {**{f.__name__: f for f in functions}, **renamed}
    for name, compute in rows.items():
        backend.lower(ROWS[name])(lambda op, *xs, compute=compute: compute(*xs))


# Bits and signs.


def bits(x: Any) -> Any:
    """Return the bits of floats, as signed integers."""
    return mx.view(x, SIGNED[x.dtype.size])


def signbit(x: Any) -> Any:
    return mx.less(x if is_integer(x) else bits(x), 0)


def copysign(a: Any, b: Any) -> Any:
    return mx.where(mx.less(mx.bitwise_xor(bits(a), bits(b)), 0), mx.negative(a), a)


def from_parts(a: Any, b: Any) -> Any:
    """Return ``a + 1j * b`` as pairs of float32: the product would make infinities NaN."""
    pairs = mx.stack([*mx.broadcast_arrays(a, b)], -1)
    return mx.view(pairs, mx.complex64).squeeze(-1)


# Quotients: a division of integers by 0, or of the lowest one by -1, would end the process.


def _is_small(b: Any) -> Any:
    small = mx.less_equal(b, 1)
    return mx.logical_and(small, mx.greater_equal(b, -1)) if is_signed(b) else small


def floor_divide(a: Any, b: Any) -> Any:
    """Return the floored quotient; as in NumPy, an integer divided by zero gives 0."""
    if not is_integer(a):
        return _float_floor_divide(a, b)
    # a * b is the quotient for b in (1, -1), and NumPy's result for b == 0.
    small = _is_small(b)
    return mx.where(small, mx.multiply(a, b), mx.floor_divide(a, mx.where(small, 1, b)))


@in_float32
def _float_floor_divide(a: Any, b: Any) -> Any:
    """Return the floored quotient from the exact remainder, as ``a / b`` may round up."""
    rest = fmod(a, b)
    needs_floor = mx.logical_and(
        mx.not_equal(rest, 0), mx.not_equal(mx.less(rest, 0), mx.less(b, 0))
    )
    floored = mx.round((a - rest) / b)
    floored = mx.where(needs_floor, floored - 1, floored)
    quotient = a / b
    # A zero has the sign of the quotient.
    floored = mx.where(mx.equal(floored, 0), copysign(floored, quotient), floored)
    return mx.where(mx.equal(b, 0), quotient, floored)


def remainder(a: Any, b: Any) -> Any:
    """Return the remainder; as in NumPy, an integer modulo zero gives 0."""
    if is_integer(a):
        # The remainder modulo 1 and -1 is 0 too.
        return mx.remainder(a, mx.where(_is_small(b), 1, b))
    return _float_remainder(a, b)


@in_float32
def _float_remainder(a: Any, b: Any) -> Any:
    rest = mx.remainder(a, b)
    # Not literals -0.0 and 0.0: mx.compile merges constants that compare equal.
    zero = mx.abs(rest)
    return mx.where(mx.equal(rest, 0), mx.where(mx.less(b, 0), -zero, zero), rest)


@in_float32
def fmod(a: Any, b: Any) -> Any:
    """Return the remainder of the magnitudes, with the sign of a."""
    return copysign(mx.remainder(mx.abs(a), mx.abs(b)), a)


# Shifts by at least the number of bits, or by negative numbers, are undefined in C++.


def left_shift(a: Any, b: Any) -> Any:
    """Return ``a << b``, or 0 if all bits are shifted out."""
    return mx.where(_is_in_width(b), mx.left_shift(a, b), 0)


def right_shift(a: Any, b: Any) -> Any:
    """Return ``a >> b``; if all bits are shifted out, the sign bit stays."""
    if is_signed(a):
        return mx.right_shift(a, mx.where(_is_in_width(b), b, 8 * b.dtype.size - 1))
    return mx.where(_is_in_width(b), mx.right_shift(a, b), 0)


def _is_in_width(b: Any) -> Any:
    fits = mx.less(b, 8 * b.dtype.size)
    return mx.logical_and(fits, mx.greater_equal(b, 0)) if is_signed(b) else fits


def bitwise_xor(a: Any, b: Any) -> Any:
    """Return ``a ^ b``; MLX 0.32.3 fails for bools if it overwrites an operand."""
    return mx.not_equal(a, b) if a.dtype == mx.bool_ else mx.bitwise_xor(a, b)


# Signs, choices, complex numbers.


def sign(x: Any) -> Any:
    """Return MLX's sign, but NaN for NaN, which is 0 on some devices."""
    y = mx.sign(x)
    return y if is_integer(x) or is_complex(x) else mx.where(mx.not_equal(x, x), x, y)


def clip(x: Any, low: Any, high: Any) -> Any:
    """Return x limited to [low, high]; ``high`` wins if it is below ``low``."""
    return mx.minimum(mx.maximum(x, low), high)


def angle(x: Any) -> Any:
    if is_complex(x):
        return mx.arctan2(mx.imag(x), mx.real(x))
    return mx.arctan2(mx.array(0, x.dtype), x)


def imag(x: Any) -> Any:
    return mx.imag(x) if is_complex(x) else mx.zeros_like(x)


SAME_NAMES = (
    *("add", "subtract", "multiply", "divide", "negative", "reciprocal", "abs", "square", "sqrt"),
    *("floor", "ceil", "trunc", "round", "maximum", "minimum"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("isnan", "isinf", "isfinite", "logical_not", "logical_and", "logical_or"),
    *("bitwise_and", "bitwise_or", "real", "conj"),
)
"""Rows that are functions of ``mlx.core`` of the same name."""

enter(
    *(floor_divide, remainder, sign, bitwise_xor, left_shift, right_shift, imag, angle, clip),
    **{name: getattr(mx, name) for name in SAME_NAMES},
    logical_xor=mx.not_equal,
    invert=mx.bitwise_invert,
    complex=from_parts,
)


@backend.lower(Cast)
def cast(op: Cast, x: Any) -> Any:
    return mx.not_equal(x, 0) if op.dtype == "bool" else x.astype(dtype_of(op.dtype))


@backend.lower(Where)
def where(op: Where, condition: Any, a: Any, b: Any) -> Any:
    return mx.where(condition, a, b)


@backend.lower(Barrier)
def barrier(op: Barrier, x: Any) -> Any:
    """Return the array itself: derivatives have been computed."""
    return x
