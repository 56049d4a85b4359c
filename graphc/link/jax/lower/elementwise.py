"""Elementwise rows in ``jax.lax``; dtypes are known, and only static lengths of 1 broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax

from graphc.grad.barriers import GradClip, GradScale, GradStop, GradZero
from graphc.ir import numpy_dtype
from graphc.link.jax.backend import backend
from graphc.tensor.core.elementwise import ROWS, Cast, Elementwise, Where
from graphc.tensor.core.print import Print


def broadcast_operands(*xs: Any) -> tuple[Any, ...]:
    """Return the operands in their common shape; jax.lax broadcasts scalars itself."""
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
    return x.dtype.kind in "iub"


def floor_divide(a: Any, b: Any) -> Any:
    """Return the quotient: 0 for an integer over 0; 0.0 has the sign of ``a / b``, as in NumPy."""
    if not is_integer(a):
        return _copy_sign_of_zero(lax.div(a, b), jnp.floor_divide(a, b))
    zero = lax.eq(b, _constant(b, 0))
    quotient = jnp.floor_divide(a, jnp.where(zero, _constant(b, 1), b))
    return jnp.where(zero, _constant(quotient, 0), quotient)


def remainder(a: Any, b: Any) -> Any:
    """Return the remainder: 0 for an integer modulo 0; 0.0 has the sign of b, as in NumPy."""
    if not is_integer(a):
        return _copy_sign_of_zero(b, jnp.remainder(a, b))
    zero = lax.eq(b, _constant(b, 0))
    rest = jnp.remainder(a, jnp.where(zero, _constant(b, 1), b))
    return jnp.where(zero, _constant(rest, 0), rest)


def _copy_sign_of_zero(signed: Any, x: Any) -> Any:
    """Return x, in which zeros have the signs of other numbers."""
    return jnp.where(lax.eq(x, _constant(x, 0)), jnp.copysign(x, signed), x)


def _constant(x: Any, value: Any) -> Any:
    return np.array(value, x.dtype)


def power(a: Any, b: Any) -> Any:
    """Return ``a ** b``; integers by repeated squaring, which overflows as in NumPy."""
    if is_integer(a) and isinstance(b, np.ndarray) and not b.ndim and b >= 0:
        return lax.integer_pow(a, int(b))
    a, b = _broadcast(a, b)
    if is_integer(a):
        return _integer_power(a, b)
    y = lax.pow(a, b)
    if a.dtype.kind != "c":
        return y
    # XLA computes exp(b * log(a)), which is NaN for a = 0.
    is_zero = lax.bitwise_and(
        lax.eq(a, _constant(a, 0)), lax.gt(lax.real(b), _constant(lax.real(b), 0))
    )
    return jnp.where(is_zero, _constant(y, 0), y)


def _integer_power(a: Any, b: Any) -> Any:
    one = _constant(a, 1)

    def is_running(state: Any) -> Any:
        return jnp.any(lax.gt(state[1], _constant(b, 0)))

    def step(state: Any) -> Any:
        y, b, square = state
        odd = lax.eq(lax.bitwise_and(b, one), one)
        return lax.select(odd, y * square, y), lax.shift_right_logical(b, one), square * square

    y = lax.while_loop(is_running, step, (lax.full_like(a, 1), b, a))[0]
    if b.dtype.kind == "u":
        return y
    # A negative power truncates to 0, except those of 1 and -1.
    odd = lax.eq(lax.bitwise_and(b, one), one)
    unit = jnp.where(lax.eq(lax.abs(a), one), jnp.where(odd, a, one), _constant(a, 0))
    return jnp.where(lax.lt(b, _constant(b, 0)), unit, y)


def _broadcast(*xs: Any) -> Any:
    return jnp.broadcast_arrays(*xs) if len({x.shape for x in xs}) > 1 else xs


def in_float32(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes half-width floats in float32, and rounds once."""

    @wraps(f)
    def compute(*xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype.itemsize != 2 or is_integer(xs[0]):
            return f(*xs)
        wide = [lax.convert_element_type(x, np.float32) for x in xs]
        return lax.convert_element_type(f(*wide), dtype)

    return compute


def with_branch_of_signed_zero(
    f: Callable[[Any], Any], part: str, of: str, sign: int = 1
) -> Callable[[Any], Any]:
    """Return the function with its branch cut as in NumPy: the sign of a zero selects the side.

    Args:
        f: The function of real or complex numbers.
        part: The part of f(x), ``"real"`` or ``"imag"``, whose sign differs across the cut.
        of: The part of x that determines this sign.
        sign: 1 for equal signs, -1 for opposite ones.
    """
    take = {"real": lax.real, "imag": lax.imag}

    def compute(x: Any) -> Any:
        y = f(x)
        if x.dtype.kind != "c":
            return y
        signed = jnp.copysign(take[part](y), sign * take[of](x))
        pair = (signed, lax.imag(y)) if part == "real" else (lax.real(y), signed)
        return lax.complex(*pair)

    return compute


@in_float32
def softplus(x: Any) -> Any:
    """Return ``log(1 + exp(x))`` without overflow."""
    return lax.add(lax.max(x, _constant(x, 0)), lax.log1p(lax.exp(lax.neg(lax.abs(x)))))


@in_float32
def log1mexp(x: Any) -> Any:
    """Return ``log(1 - exp(x))`` for x < 0."""
    near = lax.log(lax.neg(lax.expm1(x)))
    far = lax.log1p(lax.neg(lax.exp(x)))
    return jnp.where(lax.gt(x, _constant(x, -math.log(2))), near, far)


LAX: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: lax.bitwise_or(a, b) if a.dtype == bool else lax.add(a, b),
    "subtract": lax.sub,
    "multiply": lambda a, b: lax.bitwise_and(a, b) if a.dtype == bool else lax.mul(a, b),
    "divide": lax.div,
    "floor_divide": floor_divide,
    "remainder": remainder,
    "power": power,
    "negative": lax.neg,
    "abs": jnp.abs,
    "sign": lax.sign,
    "sqrt": with_branch_of_signed_zero(lax.sqrt, "imag", "imag"),
    "exp2": in_float32(lax.exp2),
    "logaddexp": in_float32(jnp.logaddexp),
    "arcsin": with_branch_of_signed_zero(lax.asin, "imag", "imag"),
    "arccos": with_branch_of_signed_zero(lax.acos, "imag", "imag", -1),
    "arctan": lax.atan,
    "arctan2": lax.atan2,
    "arcsinh": with_branch_of_signed_zero(lax.asinh, "real", "real"),
    "arccosh": with_branch_of_signed_zero(lax.acosh, "imag", "imag"),
    "arctanh": lax.atanh,
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
    "logical_not": lax.bitwise_not,
    "logical_and": lax.bitwise_and,
    "logical_or": lax.bitwise_or,
    "logical_xor": lax.bitwise_xor,
    "imag": jnp.imag,
    "real": jnp.real,
    "conj": jnp.conj,
}
"""The functions that compute rows, given operands of one dtype in their common shape.

Other rows are expanded to their definitions, or are the functions of their names in jax.lax,
jax.numpy or jax.scipy.special.
"""


def _function_of(row: Elementwise) -> Callable[..., Any] | None:
    compute = LAX.get(row.row)
    if row.expand is None:
        for library in (lax, jnp, jax.scipy.special):
            compute = compute or getattr(library, row.row, None)
    return compute


def enter(row: Elementwise, compute: Callable[..., Any] | None) -> None:
    """Register a function of operands in their common shape as the lowering of a row."""
    if compute is None:
        return
    if row.arity == 1:
        backend.lower(row)(lambda op, x: compute(x))
    else:
        backend.lower(row)(lambda op, *xs: compute(*broadcast_operands(*xs)))


for _row in ROWS.values():
    enter(_row, _function_of(_row))


@backend.lower(Cast)
def cast(op: Cast, x: Any) -> Any:
    """Convert; to bool, whether a value is not zero."""
    if op.dtype == "bool":
        return lax.ne(x, _constant(x, 0))
    return lax.convert_element_type(x, numpy_dtype(op.dtype))


@backend.lower(Where)
def where(op: Where, condition: Any, a: Any, b: Any) -> Any:
    """Select; a scalar condition chooses between full arrays."""
    shape = lax.broadcast_shapes(condition.shape, a.shape, b.shape)
    a, b = (x if x.shape == shape else jnp.broadcast_to(x, shape) for x in (a, b))
    if condition.shape not in {(), shape}:
        condition = jnp.broadcast_to(condition, shape)
    return lax.select(condition, a, b)


# JAX differentiates the scores of attention, and takes the derivatives of barriers from here.


@backend.lower(GradStop, GradZero)
def stop_gradient(op: GradStop | GradZero, x: Any) -> Any:
    return lax.stop_gradient(x)


@backend.lower(GradClip)
def clip_gradient(op: GradClip, x: Any) -> Any:
    return _clip_gradient(op.low, op.high, x)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _clip_gradient(low: float, high: float, x: Any) -> Any:
    return x


_clip_gradient.defvjp(
    lambda low, high, x: (x, None),
    lambda low, high, _, g: (jnp.clip(g, low, high),),
)


@backend.lower(GradScale)
def scale_gradient(op: GradScale, x: Any) -> Any:
    return _scale_gradient(op.multiplier, x)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _scale_gradient(multiplier: float, x: Any) -> Any:
    return x


@_scale_gradient.defjvp
def _scale_tangent(multiplier: float, primals: Any, tangents: Any) -> Any:
    return primals[0], tangents[0] * multiplier


@backend.lower(Print)
def show(op: Print, x: Any) -> Any:
    """Print by a callback, which the program does not wait for."""
    jax.debug.callback(lambda value: op.show(np.asarray(value)), x)
    return x
