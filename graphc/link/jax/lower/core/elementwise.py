"""Elementwise rows in ``jax.lax``; dtypes are known, and only static lengths of 1 broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax

from graphc.grad.barriers import Barrier
from graphc.ir import Node, numpy_dtype
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Lowering,
    Ragged,
    aligned,
    arrays,
    inner,
    kept_fill,
    ragged,
    rule,
)
from graphc.link.jax.counts import (
    Count,
    as_count,
    compared,
    is_known,
    is_same,
    least,
    minus,
    most,
    over,
    plus,
    rest,
    settled,
    times,
)
from graphc.tensor.core.elementwise import ROWS, Cast, Elementwise, Where


def fitted(*xs: Any) -> tuple[Any, ...]:
    """The operands in their common shape; scalars stay, as jax.lax repeats them itself."""
    shapes = {x.shape for x in xs if x.shape}
    if len(shapes) < 2:
        return xs
    shape = lax.broadcast_shapes(*shapes)
    return tuple(
        x
        if x.shape == shape or not x.shape
        else lax.broadcast_in_dim(x, shape, range(len(shape) - len(x.shape), len(shape)))
        for x in xs
    )


def is_integer(x: Any) -> bool:
    """Whether the values are integers or bool."""
    return x.dtype.kind in "iub"


def false(x: Any) -> Any:
    """False in x's shape."""
    return lax.full(x.shape, False)


def floor_divide(a: Any, b: Any) -> Any:
    """NumPy's: an integer divided by zero gives 0, and a quotient of 0.0 has its sign."""
    if not is_integer(a):
        return _zero_like(lax.div(a, b), jnp.floor_divide(a, b))
    zero = lax.eq(b, _same(b, 0))
    quotient = jnp.floor_divide(a, jnp.where(zero, _same(b, 1), b))
    return jnp.where(zero, _same(quotient, 0), quotient)


def remainder(a: Any, b: Any) -> Any:
    """NumPy's: an integer modulo zero gives 0, and a rest of 0.0 has the divisor's sign."""
    if not is_integer(a):
        return _zero_like(b, jnp.remainder(a, b))
    zero = lax.eq(b, _same(b, 0))
    rest = jnp.remainder(a, jnp.where(zero, _same(b, 1), b))
    return jnp.where(zero, _same(rest, 0), rest)


def _zero_like(signed: Any, x: Any) -> Any:
    """Numbers whose zeros have the signs of others."""
    return jnp.where(lax.eq(x, _same(x, 0)), jnp.copysign(x, signed), x)


def _same(x: Any, value: Any) -> Any:
    return np.array(value, x.dtype)


def power(a: Any, b: Any) -> Any:
    """A power; integers by repeated squares, which wrap around as NumPy's do."""
    if is_integer(a) and isinstance(b, np.ndarray) and not b.ndim and b >= 0:
        return lax.integer_pow(a, int(b))
    a, b = _full(a, b)
    if is_integer(a):
        return _whole_power(a, b)
    y = lax.pow(a, b)
    if a.dtype.kind != "c":
        return y
    # XLA takes the logarithm of 0.
    still = lax.bitwise_and(lax.eq(a, _same(a, 0)), lax.gt(lax.real(b), _same(lax.real(b), 0)))
    return jnp.where(still, _same(y, 0), y)


def _whole_power(a: Any, b: Any) -> Any:
    one = _same(a, 1)

    def unfinished(state: Any) -> Any:
        return jnp.any(lax.gt(state[1], _same(b, 0)))

    def halved(state: Any) -> Any:
        y, b, square = state
        odd = lax.eq(lax.bitwise_and(b, one), one)
        return lax.select(odd, y * square, y), lax.shift_right_logical(b, one), square * square

    y = lax.while_loop(unfinished, halved, (lax.full_like(a, 1), b, a))[0]
    if b.dtype.kind == "u":
        return y
    # To a negative power only 1 and -1 leave anything.
    odd = lax.eq(lax.bitwise_and(b, one), one)
    unit = jnp.where(lax.eq(lax.abs(a), one), jnp.where(odd, a, one), _same(a, 0))
    return jnp.where(lax.lt(b, _same(b, 0)), unit, y)


def _full(*xs: Any) -> Any:
    return jnp.broadcast_arrays(*xs) if len({x.shape for x in xs}) > 1 else xs


def in_float32(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function of half-width floats in float32, as several steps would round several times."""

    def compute(*xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype.itemsize != 2 or is_integer(xs[0]):
            return f(*xs)
        wide = [lax.convert_element_type(x, np.float32) for x in xs]
        return lax.convert_element_type(f(*wide), dtype)

    return compute


def beside_the_cut(
    f: Callable[[Any], Any], part: str, of: str, sign: int = 1
) -> Callable[[Any], Any]:
    """The function on the side of its branch cut that the sign of a zero tells, as in NumPy.

    Args:
        f: Takes real or complex numbers.
        part: The part of its values that changes sign across the cut.
        of: The part of a complex argument that has the same sign.
        sign: -1: the opposite one.
    """
    parts = {"real": lax.real, "imag": lax.imag}

    def compute(x: Any) -> Any:
        y = f(x)
        if x.dtype.kind != "c":
            return y
        signed = jnp.copysign(parts[part](y), sign * parts[of](x))
        pair = (signed, lax.imag(y)) if part == "real" else (lax.real(y), signed)
        return lax.complex(*pair)

    return compute


@in_float32
def softplus(x: Any) -> Any:
    """log(1 + exp(x)) without overflow."""
    return lax.add(lax.max(x, _same(x, 0)), lax.log1p(lax.exp(lax.neg(lax.abs(x)))))


@in_float32
def log1mexp(x: Any) -> Any:
    """log(1 - exp(x)) for x < 0."""
    near = lax.log(lax.neg(lax.expm1(x)))
    far = lax.log1p(lax.neg(lax.exp(x)))
    return jnp.where(lax.gt(x, _same(x, -math.log(2))), near, far)


def isnan(x: Any) -> Any:
    """Whether x is not a number."""
    return false(x) if is_integer(x) else lax.ne(x, x)


def isinf(x: Any) -> Any:
    """Whether x, or a part of it, is infinite."""
    return false(x) if is_integer(x) else jnp.isinf(x)


def isfinite(x: Any) -> Any:
    """Whether x, or each part of it, is finite."""
    return lax.full(x.shape, True) if is_integer(x) else jnp.isfinite(x)


def right_shift(a: Any, b: Any) -> Any:
    """The sign of a signed integer stays."""
    shift = lax.shift_right_logical if a.dtype.kind == "u" else lax.shift_right_arithmetic
    return shift(a, b)


def sign(x: Any) -> Any:
    """-1, 0 or 1, or x / |x| for a complex x."""
    return lax.sign(x)


def absolute(x: Any) -> Any:
    """The magnitude."""
    return x if x.dtype.kind in "ub" else lax.abs(x)


def imag(x: Any) -> Any:
    """The imaginary part, 0 for a real x."""
    return lax.imag(x) if x.dtype.kind == "c" else lax.full_like(x, 0)


def clip(x: Any, low: Any, high: Any) -> Any:
    """x limited to between low and high."""
    return jnp.minimum(jnp.maximum(x, low), high)


LAX: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: lax.bitwise_or(a, b) if a.dtype == bool else lax.add(a, b),
    "subtract": lax.sub,
    "multiply": lambda a, b: lax.bitwise_and(a, b) if a.dtype == bool else lax.mul(a, b),
    "divide": lax.div,
    "floor_divide": floor_divide,
    "remainder": remainder,
    "power": power,
    "negative": lax.neg,
    "abs": absolute,
    "sign": sign,
    "sqrt": beside_the_cut(lax.sqrt, "imag", "imag"),
    "reciprocal": lambda x: lax.div(_same(x, 1), x),
    "exp2": in_float32(lax.exp2),
    "logaddexp": in_float32(jnp.logaddexp),
    "arcsin": beside_the_cut(lax.asin, "imag", "imag"),
    "arccos": beside_the_cut(lax.acos, "imag", "imag", -1),
    "arctan": lax.atan,
    "arctan2": lax.atan2,
    "arcsinh": beside_the_cut(lax.asinh, "real", "real"),
    "arccosh": beside_the_cut(lax.acosh, "imag", "imag"),
    "arctanh": lax.atanh,
    "deg2rad": lambda x: lax.mul(x, _same(x, math.pi / 180)),
    "rad2deg": lambda x: lax.mul(x, _same(x, 180 / math.pi)),
    "sigmoid": lax.logistic,
    "softplus": softplus,
    "log1mexp": log1mexp,
    "round": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "maximum": lax.max,
    "minimum": lax.min,
    "equal": lax.eq,
    "not_equal": lax.ne,
    "less": lax.lt,
    "less_equal": lax.le,
    "greater": lax.gt,
    "greater_equal": lax.ge,
    "isnan": isnan,
    "isinf": isinf,
    "isfinite": isfinite,
    "logical_not": lax.bitwise_not,
    "logical_and": lax.bitwise_and,
    "logical_or": lax.bitwise_or,
    "logical_xor": lax.bitwise_xor,
    "invert": lax.bitwise_not,
    "left_shift": lax.shift_left,
    "right_shift": right_shift,
    "imag": imag,
    "real": lambda x: lax.real(x) if x.dtype.kind == "c" else x,
    "conj": lambda x: lax.conj(x) if x.dtype.kind == "c" else x,
    "clip": clip,
}
"""The functions that compute rows, given operands of one dtype in their common shape. A row that is
not here is what it expands to, or else the function of its name in jax.lax, jax.numpy or
jax.scipy.special."""


def _enter(row: Elementwise) -> None:
    compute = LAX.get(row.row)
    if row.expand is None:
        for library in (lax, jnp, jax.scipy.special):
            compute = compute or getattr(library, row.row, None)
    if compute is None:
        return
    if row.arity == 1:
        backend.lower(row)(lambda op, x: compute(x))
    else:
        backend.lower(row)(lambda op, *xs: compute(*fitted(*xs)))


for _row in ROWS.values():
    _enter(_row)


@backend.lower(Cast)
def cast(op: Cast, x: Any) -> Any:
    """Anything to bool asks whether it is not zero."""
    if op.dtype == "bool":
        return lax.ne(x, _same(x, 0))
    return lax.convert_element_type(x, numpy_dtype(op.dtype))


@backend.lower(Where)
def where(op: Where, condition: Any, a: Any, b: Any) -> Any:
    """A selection; a scalar condition chooses between whole arrays."""
    shape = lax.broadcast_shapes(condition.shape, a.shape, b.shape)
    a, b = (x if x.shape == shape else jnp.broadcast_to(x, shape) for x in (a, b))
    if condition.shape not in {(), shape}:
        condition = jnp.broadcast_to(condition, shape)
    return lax.select(condition, a, b)


@backend.lower(Barrier)
def barrier(op: Barrier, x: Any) -> Any:
    """Derivatives are taken before."""
    return x


COUNTS: dict[str, Callable[[Any, Any], Any]] = {
    "add": plus,
    "subtract": minus,
    "minimum": least,
    "maximum": most,
    "multiply": times,
    "floor_divide": over,
    "remainder": rest,
}
"""Rows of two integers, one of them a count, that are a count again."""


@rule(Elementwise, Cast, Where, Barrier, of_counts=True)
def of_counts_or_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Lengths stay as they are."""
    if any(isinstance(x, Ragged) for x in values):
        return over_ragged(node, lowering, values)
    if isinstance(node.op, Where) and not node.type.ndim and _are_integers(values[1:]):
        return _either(node, lowering, values)
    if node.type.ndim or not _are_integers(values):
        return lowering(node.op, *arrays(node, values))
    return of_counts(node, lowering, values)


def _are_integers(values: Sequence[Any]) -> bool:
    return all(isinstance(x, Count) or x.dtype.kind in "iu" for x in values)


def of_counts(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """A count where it can be one, and what is known where the bounds tell it."""
    match node.op:
        case Elementwise(row=row) if row in COUNTS:
            return COUNTS[row](*values)
        case Elementwise(row=row) if node.type.dtype == "bool" and len(values) == 2:
            found = compared(row, *values)
            if found is not None:
                return np.asarray(found)
        case Elementwise(row="negative"):
            return minus(np.asarray(0, np.int64), values[0])
        case Elementwise(row="square"):
            return times(values[0], values[0])
        case Cast(dtype="int64") | Barrier() if isinstance(values[0], Count):
            return values[0]
    return lowering(node.op, *arrays(node, values))


def _either(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    condition, *others = values
    if is_known(condition):
        return others[0] if condition else others[1]
    a, b = map(as_count, others)
    if is_same(a, b):
        return others[0]
    chosen = lowering(node.op, condition, a.value, b.value)
    return settled(Count(chosen, min(a.low, b.low), max(a.high, b.high)))


def over_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Elements that mean nothing make others that do not."""
    found, shape = aligned(node, arrays(node, values), node.inputs)
    buffers = [inner(x) for x in found]
    return ragged(lowering(node.op, *buffers), shape, kept_fill(node.op, found, shape))
