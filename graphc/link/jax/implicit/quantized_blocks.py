"""Products of many rows with packed codes in JAX: blocks of the matrix, decoded as they lie in it.

Decoding costs little beside so many products. So x and the result keep their order, of which copies
would be as large as they are, and each block is multiplied at once, whatever codes a word has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import lax

from graphc.implicit.quantized.coding import Coding
from graphc.link.jax.implicit.numpy_like import NAMESPACE
from graphc.link.jax.implicit.quantized_codes import values_of
from graphc.link.jax.varying import vary, varying_axes

BLOCK = 2**17
"""The elements of a block: 512 KB of float32, which leaves room for the products in the cache."""

CHEAP = {"affine", "integer", "ternary", "ternary5", "1bit"}
"""Kinds that are decoded in an instruction or two."""

MANY = 128
"""From so many rows of x on, where words are of w's columns; of kinds that are cheap to decode."""

LONG = 2**10
"""The length of w's columns beyond which planes of their words are slower."""


def are_many(coding: Coding, transposed: bool, m: int, rows: int) -> bool:
    """Whether blocks as they lie in the matrix are faster than planes of codes.

    Args:
        coding: What the codes mean.
        transposed: Whether the words are those of w's transpose.
        m: The number of rows of x.
        rows: That of the words.
    """
    least = MANY if transposed else MANY // 2 if rows > LONG else 2 * MANY
    return m >= (least if coding.kind in CHEAP else 4 * least)


def by_rows(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """The product with the transpose of what words mean, some rows of words at a time."""
    rows, k = packed.shape[0], coding.columns_of(packed.shape[1])

    def product(start: Any, size: int) -> Any:
        block = _dense(coding, x, _cut(packed, start, size, 0), _cut(scales, start, size, 0))
        return lax.dot_general(x, block, (((1,), (1,)), ((), ())))

    return _filled(x, rows, max(1, BLOCK // k), product)


def by_columns(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """The product with what words mean, some groups of its columns at a time."""
    rows, groups = scales.shape
    size, words = coding.group_size, coding.words_per_group

    def product(start: Any, width: int) -> Any:
        first, count = start // size, width // size
        some = _cut(packed, first * words, count * words, 1), _cut(scales, first, count, 1)
        return _summed(coding, x, *some)

    return _filled(x, groups * size, max(1, BLOCK // (rows * size)) * size, product)


def _summed(coding: Coding, x: Any, packed: Any, scales: Any) -> Any:
    """The product with a block of columns, of no more rows at a time than fill a block."""
    rows, width = packed.shape[0], coding.columns_of(packed.shape[1])
    # Parts of x are copied: a block may be larger before they are.
    some = max(1, 4 * BLOCK // width)
    count, rest = divmod(rows, some)

    def part(start: Any, size: int) -> Any:
        block = _dense(coding, x, _cut(packed, start, size, 0), _cut(scales, start, size, 0))
        return _cut(x, start, size, 1) @ block

    if count + bool(rest) < 2:
        return x @ _dense(coding, x, packed, scales)
    zero = zeros((x.shape[0], width), x)
    y = lax.fori_loop(0, count, lambda i, y: y + part(i * some, some), zero)
    return y + part(rows - rest, rest) if rest else y


def _filled(x: Any, n: int, width: int, product: Callable[[Any, int], Any]) -> Any:
    """The columns of a result of n columns, so many at a time."""
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
    """The elements of a block, of x's dtype."""
    codes = coding.codes(NAMESPACE, packed).astype(jnp.int32)
    groups = coding.split_groups(NAMESPACE, values_of(coding, codes, x.dtype)) * scales[..., None]
    return groups.reshape(codes.shape)


def _cut(x: Any, start: Any, size: int, axis: int) -> Any:
    return lax.dynamic_slice_in_dim(x, start, size, axis)


def zeros(shape: tuple[int, ...], x: Any) -> Any:
    """Zeros of the dtype of x, which vary over the same axes of a mesh, as sums of it do."""
    return vary(jnp.zeros(shape, x.dtype), varying_axes(x))
