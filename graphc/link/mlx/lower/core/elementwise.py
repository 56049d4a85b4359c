"""Elementwise rows in ``mlx.core``, which broadcasts the operands itself; dtypes are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx

from graphc.grad.barriers import Barrier
from graphc.link.mlx.arrays import dtype_of
from graphc.link.mlx.backend import backend
from graphc.tensor.core.elementwise import ROWS, Cast, Where

HALVES = (mx.float16, mx.bfloat16)
SIGNED = {1: mx.int8, 2: mx.int16, 4: mx.int32, 8: mx.int64}
UNSIGNED = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint64}
"""Integers by how many bytes they have."""


def is_integer(x: Any) -> bool:
    """Whether the values are integers or bool."""
    return not mx.issubdtype(x.dtype, mx.inexact)


def is_signed(x: Any) -> bool:
    """Whether the values are integers of either sign."""
    return bool(mx.issubdtype(x.dtype, mx.signedinteger))


def is_complex(x: Any) -> bool:
    """Whether the values are complex."""
    return bool(x.dtype == mx.complex64)


def in_float32(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function of half-width floats in float32, as several steps would round several times."""

    def compute(*xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype not in HALVES:
            return f(*xs)
        return f(*[x.astype(mx.float32) for x in xs]).astype(dtype)

    return compute


def enter(table: Mapping[str, Callable[..., Any]]) -> None:
    """Enter what computes each row, given operands of one dtype, as its lowering."""
    for name, compute in table.items():
        backend.lower(ROWS[name])(_without_operation(compute))


def _without_operation(compute: Callable[..., Any]) -> Callable[..., Any]:
    return lambda op, *xs: compute(*xs)


# Bits and signs.


def bits(x: Any) -> Any:
    """The bits of floats, as signed integers."""
    return mx.view(x, SIGNED[x.dtype.size])


def signbit(x: Any) -> Any:
    """The sign of a zero counts, and that of NaN."""
    return mx.less(x if is_integer(x) else bits(x), 0)


def copysign(a: Any, b: Any) -> Any:
    """The sign is the highest bit."""
    return mx.where(mx.less(mx.bitwise_xor(bits(a), bits(b)), 0), mx.negative(a), a)


def from_parts(a: Any, b: Any) -> Any:
    """Pairs of float32 seen as complex numbers: of a + 1j * b an infinite part would make NaN."""
    pairs = mx.stack([*mx.broadcast_arrays(a, b)], -1)
    return mx.view(pairs, mx.complex64).squeeze(-1)


# Quotients. No integer is divided by 0, and the lowest one not by -1: it ends the process.


def _is_small(b: Any) -> Any:
    small = mx.less_equal(b, 1)
    return mx.logical_and(small, mx.greater_equal(b, -1)) if is_signed(b) else small


def floor_divide(a: Any, b: Any) -> Any:
    """NumPy's: an integer divided by zero gives 0."""
    if not is_integer(a):
        return _float_floor_divide(a, b)
    # a * b is the quotient by 1, and by -1, and what is wanted of one by 0.
    small = _is_small(b)
    return mx.where(small, mx.multiply(a, b), mx.floor_divide(a, mx.where(small, 1, b)))


@in_float32
def _float_floor_divide(a: Any, b: Any) -> Any:
    """From the exact remainder, as a / b may round up to a whole number."""
    rest = fmod(a, b)
    below = mx.logical_and(mx.not_equal(rest, 0), mx.not_equal(mx.less(rest, 0), mx.less(b, 0)))
    whole = mx.round((a - rest) / b)
    whole = mx.where(below, whole - 1, whole)
    quotient = a / b
    # The sign of a zero is that of the quotient.
    whole = mx.where(mx.equal(whole, 0), copysign(whole, quotient), whole)
    return mx.where(mx.equal(b, 0), quotient, whole)


def remainder(a: Any, b: Any) -> Any:
    """NumPy's: an integer modulo zero gives 0."""
    if is_integer(a):
        # Modulo 1 and -1 it is 0 too.
        return mx.remainder(a, mx.where(_is_small(b), 1, b))
    return _float_remainder(a, b)


@in_float32
def _float_remainder(a: Any, b: Any) -> Any:
    rest = mx.remainder(a, b)
    # Not -0.0 and 0.0: mx.compile takes constants that compare equal for one.
    zero = mx.abs(rest)
    return mx.where(mx.equal(rest, 0), mx.where(mx.less(b, 0), -zero, zero), rest)


@in_float32
def fmod(a: Any, b: Any) -> Any:
    """The remainder of the magnitudes, with the sign of a."""
    return copysign(mx.remainder(mx.abs(a), mx.abs(b)), a)


# Shifts by so many bits as there are or more, which C++ leaves open; so are negative ones.


def left_shift(a: Any, b: Any) -> Any:
    """No bit is left of what is shifted by all of them."""
    return mx.where(_fits(b), mx.left_shift(a, b), 0)


def right_shift(a: Any, b: Any) -> Any:
    """The sign of a signed integer stays."""
    if is_signed(a):
        return mx.right_shift(a, mx.where(_fits(b), b, 8 * b.dtype.size - 1))
    return mx.where(_fits(b), mx.right_shift(a, b), 0)


def _fits(b: Any) -> Any:
    fits = mx.less(b, 8 * b.dtype.size)
    return mx.logical_and(fits, mx.greater_equal(b, 0)) if is_signed(b) else fits


def bitwise_xor(a: Any, b: Any) -> Any:
    """Of bool, whether they differ: MLX 0.32.3 is wrong where it writes over an operand."""
    return mx.not_equal(a, b) if a.dtype == mx.bool_ else mx.bitwise_xor(a, b)


# Signs, choices, complex numbers.


def sign(x: Any) -> Any:
    """MLX's, which has 0 for NaN on some devices."""
    y = mx.sign(x)
    return y if is_integer(x) or is_complex(x) else mx.where(mx.not_equal(x, x), x, y)


def clip(x: Any, low: Any, high: Any) -> Any:
    """x limited to between low and high, of which the upper one goes before."""
    return mx.minimum(mx.maximum(x, low), high)


def angle(x: Any) -> Any:
    """The angle of a complex number, or of a real one."""
    if is_complex(x):
        return mx.arctan2(mx.imag(x), mx.real(x))
    return mx.arctan2(mx.array(0, x.dtype), x)


def imag(x: Any) -> Any:
    """The imaginary part, 0 for a real x."""
    return mx.imag(x) if is_complex(x) else mx.zeros_like(x)


MLX: dict[str, Callable[..., Any]] = {
    "add": mx.add,
    "subtract": mx.subtract,
    "multiply": mx.multiply,
    "divide": mx.divide,
    "floor_divide": floor_divide,
    "remainder": remainder,
    "negative": mx.negative,
    "abs": mx.abs,
    "sign": sign,
    "square": mx.square,
    "sqrt": mx.sqrt,
    "reciprocal": mx.reciprocal,
    "floor": mx.floor,
    "ceil": mx.ceil,
    "trunc": mx.trunc,
    "round": mx.round,
    "maximum": mx.maximum,
    "minimum": mx.minimum,
    "equal": mx.equal,
    "not_equal": mx.not_equal,
    "less": mx.less,
    "less_equal": mx.less_equal,
    "greater": mx.greater,
    "greater_equal": mx.greater_equal,
    "isnan": mx.isnan,
    "isinf": mx.isinf,
    "isfinite": mx.isfinite,
    "logical_not": mx.logical_not,
    "logical_and": mx.logical_and,
    "logical_or": mx.logical_or,
    "logical_xor": mx.not_equal,
    "invert": mx.bitwise_invert,
    "bitwise_and": mx.bitwise_and,
    "bitwise_or": mx.bitwise_or,
    "bitwise_xor": bitwise_xor,
    "left_shift": left_shift,
    "right_shift": right_shift,
    "real": mx.real,
    "imag": imag,
    "conj": mx.conj,
    "angle": angle,
    "complex": from_parts,
    "clip": clip,
}
"""The function that computes a row of ``graphc.tensor.core.elementwise``."""

enter(MLX)


@backend.lower(Cast)
def cast(op: Cast, x: Any) -> Any:
    """Anything to bool asks whether it is not zero."""
    return mx.not_equal(x, 0) if op.dtype == "bool" else x.astype(dtype_of(op.dtype))


@backend.lower(Where)
def where(op: Where, condition: Any, a: Any, b: Any) -> Any:
    """A selection; the three broadcast."""
    return mx.where(condition, a, b)


@backend.lower(Barrier)
def barrier(op: Barrier, x: Any) -> Any:
    """Derivatives are taken before."""
    return x
