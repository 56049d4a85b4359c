"""Products of many rows with packed codes in JAX: blocks of the matrix are decoded in their order.

Decoding costs little beside many products. x and the result therefore keep their order, since
copies would be as large as they are, and each block is decoded at once, whatever the coding.
"""

from __future__ import annotations

from collections.abc import Callable
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
from graphc.link.jax.varying import vary, varying_axes

CHEAP = {"affine", "integer", "ternary", "ternary5", "1bit"}
"""Kinds of codes that are decoded in an instruction or two."""

MIN_ROWS = 128
"""The least number of rows of x if words code w's transpose, for cheap kinds."""

MAX_PLANE_ROWS = 2**10
"""The number of w's rows beyond which planes of words are slower."""


def are_many(coding: Coding, transposed: bool, m: int, rows: int) -> bool:
    """Return whether blocks of the matrix in its order are faster than planes of codes.

    Args:
        coding: The coding of the words.
        transposed: Whether the words code w's transpose.
        m: The number of rows of x.
        rows: The number of rows of words.
    """
    least = MIN_ROWS if transposed else MIN_ROWS // 2 if rows > MAX_PLANE_ROWS else 2 * MIN_ROWS
    return m >= (least if coding.kind in CHEAP else 4 * least)


def by_rows(block: int, coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Return the product with the transpose of the decoded matrix, ``block`` elements at a time."""
    rows, k = packed.shape[0], coding.columns_of(packed.shape[1])

    def product(start: Any, size: int) -> Any:
        part = _dense(coding, x, _slice(packed, start, size, 0), _slice(scales, start, size, 0))
        return lax.dot_general(x, part, (((1,), (1,)), ((), ())))

    return _map_columns(x, rows, max(1, block // k), product)


def by_columns(block: int, coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Return the product with the decoded matrix, decoded by blocks of groups of columns."""
    rows, groups = scales.shape
    size, words = coding.group_size, coding.words_per_group

    def product(start: Any, width: int) -> Any:
        first, count = start // size, width // size
        parts = _slice(packed, first * words, count * words, 1), _slice(scales, first, count, 1)
        return _sum_over_rows(block, coding, x, *parts)

    return _map_columns(x, groups * size, max(1, block // (rows * size)) * size, product)


def _sum_over_rows(block: int, coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Return the product with a block of columns, as a sum over blocks of its rows."""
    rows, width = packed.shape[0], coding.columns_of(packed.shape[1])
    # Blocks of rows copy parts of x, so they are larger.
    block_rows = max(1, 4 * block // width)
    count, rest = divmod(rows, block_rows)

    def product(start: Any, size: int) -> Any:
        part = _dense(coding, x, _slice(packed, start, size, 0), _slice(scales, start, size, 0))
        return _slice(x, start, size, 1) @ part

    if count + bool(rest) < 2:
        return x @ _dense(coding, x, packed, scales)
    zero = zeros((x.shape[0], width), x)
    y = lax.fori_loop(0, count, lambda i, y: y + product(i * block_rows, block_rows), zero)
    return y + product(rows - rest, rest) if rest else y


def _map_columns(x: Any, n: int, width: int, product: Callable[[Any, int], Any]) -> Any:
    """Return a result of n columns, of which ``product`` returns blocks of some width."""
    count, rest = divmod(n, width)
    if not count:
        return product(0, n)

    def step(i: Any, y: Any) -> Any:
        return lax.dynamic_update_slice_in_dim(y, product(i * width, width), i * width, 1)

    y = lax.fori_loop(0, count, step, zeros((x.shape[0], n), x))
    if rest:
        y = lax.dynamic_update_slice_in_dim(y, product(n - rest, rest), n - rest, 1)
    return y


def _dense(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """Return the decoded elements of a block in x's dtype."""
    codes = coding.codes(NAMESPACE, packed).astype(jnp.int32)
    groups = coding.split_groups(NAMESPACE, values_of(coding, codes, x.dtype)) * scales[..., None]
    return groups.reshape(codes.shape)


def _slice(x: Any, start: Any, size: int, axis: int) -> Any:
    return lax.dynamic_slice_in_dim(x, start, size, axis)


def zeros(shape: tuple[int, ...], x: Any) -> Any:
    """Return zeros of x's dtype that vary over the same axes of a mesh, as sums of x do."""
    return vary(jnp.zeros(shape, x.dtype), varying_axes(x))


# Decoding, in operations that XLA vectorizes.


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
