"""Decoding of packed codes to numbers, in operations that XLA vectorizes."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from graphc.implicit.quantized.coding import (
    DIGITS,
    FLOATS,
    NONLINEAR,
    WORD,
    Coding,
    digit,
    first_and_step,
    table_of,
)
from graphc.link.jax.implicit.numpy_like import NAMESPACE


def codes_at(coding: Coding, words: Any, position: Any) -> Any:
    """Return the codes at a position in units of words, as signed integers (these convert fast)."""
    if coding.has_digits:
        shift = jnp.asarray(position // DIGITS * coding.bits, jnp.uint32)
        bytes_ = jnp.right_shift(words, shift) & jnp.uint32(2**coding.bits - 1)
        power = jnp.asarray(3, jnp.uint32) ** jnp.asarray(position % DIGITS, jnp.uint32)
        return digit(NAMESPACE, bytes_, power).astype(jnp.int32)
    start = jnp.asarray(position * coding.bits, jnp.uint32)
    mask = jnp.uint32(2**coding.bits - 1)
    if coding.unit_words == 1:
        return (jnp.right_shift(words, start) & mask).astype(jnp.int32)
    words = words.reshape(*words.shape[:-1], -1, coding.unit_words)
    word, shift = start // WORD, start % WORD
    low, high = (
        lax.dynamic_index_in_dim(words, jnp.minimum(i, coding.unit_words - 1), -1, False)
        for i in (word, word + 1)
    )
    # Shifted in two steps, as a shift by the word's width is undefined.
    rest = jnp.left_shift(jnp.left_shift(high, WORD - 1 - shift), jnp.uint32(1))
    return ((jnp.right_shift(low, shift) | rest) & mask).astype(jnp.int32)


def values_of(coding: Coding, codes: Any, dtype: Any) -> Any:
    """Decode codes; a table is read by selects, bit by bit, as XLA's gather is slower."""
    if coding.kind not in NONLINEAR:
        first, step = first_and_step(coding.kind, coding.bits)
        return (step * codes + first).astype(dtype)
    if coding.bits == 8:
        return _floats(coding, codes, dtype)
    table = table_of(coding.kind, coding.bits)
    values: list[Any] = [jnp.asarray(value, dtype) for value in table]
    for bit in range(coding.bits):
        is_set = (codes & (1 << bit)) != 0
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [jnp.where(is_set, high, low) for low, high in pairs]
    return values[0]


def _floats(coding: Coding, codes: Any, dtype: Any) -> Any:
    """Decode narrow floating numbers: an integer mantissa times a power of two from its bits.

    Subnormal numbers have an integer mantissa too, so no processor flushes them to zero.
    """
    exponents, mantissas, bias = FLOATS[coding.kind]
    sign = exponents + mantissas
    size, most = codes & (2**sign - 1), 2**mantissas
    exponent = lax.shift_right_logical(size, mantissas)
    units = (size & (most - 1)) + jnp.where(exponent > 0, most, 0)
    power = jnp.maximum(exponent, 1) + (127 - bias - mantissas)
    scale = lax.bitcast_convert_type(lax.shift_left(power, 23), jnp.float32)
    signed = jnp.where(codes >= 2**sign, -units, units)
    return (signed.astype(jnp.float32) * scale).astype(dtype)
