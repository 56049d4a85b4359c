"""Arithmetic that takes several steps of ``jax.lax``, or differs from ``jax.numpy``."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.lower.elementwise import enter, in_float32, is_integer
from graphc.tensor.core.elementwise import ROWS


def fmod(a: Any, b: Any) -> Any:
    """Return NumPy's fmod, where an integer modulo zero is 0."""
    if not is_integer(a):
        return lax.rem(a, b)
    zero = b == 0
    return jnp.where(zero, lax.full_like(b, 0), lax.rem(a, jnp.where(zero, lax.full_like(b, 1), b)))


@in_float32
def logaddexp2(a: Any, b: Any) -> Any:
    """Add in the log2 domain; near operands keep their digits if the result is near 0."""
    larger, smaller = lax.max(a, b), lax.min(a, b)
    # Without inf - inf.
    gap = jnp.where(larger == smaller, lax.full_like(larger, 0), smaller - larger)
    near = larger + 1 + lax.log1p(lax.expm1(gap * math.log(2)) / 2) / math.log(2)
    return jnp.where(gap > -1, near, larger + lax.log1p(lax.exp2(gap)) / math.log(2))


def magnitude(x: Any) -> Any:
    """Return the absolute value in the unsigned dtype, which the lowest integer needs."""
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return lax.convert_element_type(lax.abs(x) if x.dtype.kind == "i" else x, unsigned)


def gcd(a: Any, b: Any) -> Any:
    """Compute the greatest common divisor by Euclid's algorithm."""
    a, b = jnp.broadcast_arrays(a, b)

    def is_running(state: Any) -> Any:
        return jnp.any(state[1] != 0)

    def step(state: Any) -> Any:
        dividend, divisor = state
        is_done = divisor == 0
        remainder = lax.rem(dividend, jnp.where(is_done, lax.full_like(divisor, 1), divisor))
        return jnp.where(is_done, dividend, divisor), jnp.where(is_done, divisor, remainder)

    y = lax.while_loop(is_running, step, (magnitude(a), magnitude(b)))[0]
    return lax.convert_element_type(y, a.dtype)


def lcm(a: Any, b: Any) -> Any:
    """Return the product over the greatest common divisor; 0 where either operand is 0."""
    divisor = magnitude(gcd(a, b))
    quotient = lax.div(magnitude(a), jnp.where(divisor == 0, lax.full_like(divisor, 1), divisor))
    return lax.convert_element_type(quotient * magnitude(b), a.dtype)


@in_float32
def ldexp(a: Any, b: Any) -> Any:
    """Build powers of two from bits; 5000 exceeds the exponent range of every dtype."""
    exponents = lax.convert_element_type(jnp.clip(b, -5000, 5000), np.int32)
    return jnp.where(jnp.isnan(b), b, jnp.ldexp(a, exponents))


@in_float32
def exponent(x: Any) -> Any:
    return lax.convert_element_type(jnp.frexp(x)[1], x.dtype)


COMPOSED = (
    *(in_float32(jnp.hypot), in_float32(lax.cbrt), fmod, logaddexp2),
    *(gcd, lcm, ldexp, exponent),
)
"""Functions with the names of their rows."""

for _compute in COMPOSED:
    enter(ROWS[_compute.__name__], _compute)
