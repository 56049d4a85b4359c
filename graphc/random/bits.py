"""Random bits: each number of a key's stream is the hash of its place in it.

They are those of ``jax.random`` with its default settings, whatever settings JAX has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir import here, where
from graphc.random.threefry import threefry
from graphc.tensor.axes import expand_dims
from graphc.tensor.create import arange
from graphc.tensor.elementwise import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    cast,
    left_shift,
    right_shift,
)
from graphc.tensor.join import stack
from graphc.tensor.shape import reshape
from graphc.tensor.specify import specify_shape
from graphc.tensor.tensor import Tensor, as_tensor, constant

__all__ = [
    "LOW",
    "Lengths",
    "Words",
    "as_key",
    "bits_of",
    "child",
    "key_of",
    "random_bits",
    "split_words",
    "words_of",
]

Lengths = Sequence[Any]
"""A shape: Python integers and int64 scalars."""

Words = tuple[Tensor, Tensor]
"""Keys, their first and their second words each an array of its own."""

LOW = 0xFFFFFFFF
"""The lower half of 64 bits."""


def as_key(x: Any) -> Tensor:
    """A key, or an array of keys, as a symbolic array whose last axis is the key's two words.

    Raises:
        DTypeError: It is not of uint32.
        ShapeError: Its last axis has another length than 2.
    """
    key = as_tensor(x)
    if key.dtype != "uint32":
        raise DTypeError(
            f"A key is an array of uint32, not {key.type!r}.",
            "Make one of an integer by gt.random.key, or of a key of JAX by jax.random.key_data.",
            where(here()),
        )
    last = key.type.shape[-1] if key.ndim else 0
    if last is None:
        return specify_shape(key, (*[None] * (key.ndim - 1), 2))
    if last != 2:
        raise ShapeError(
            f"A key has a last axis of length 2, not the shape of {key.type!r}.",
            "Make one by gt.random.key or gt.random.split.",
            where(here()),
        )
    return key  # type: ignore[no-any-return]


def words_of(key: Any) -> Words:
    """The words of keys, or of what is words already."""
    if isinstance(key, tuple):
        return key
    key = as_key(key)
    return key[..., 0], key[..., 1]


def key_of(words: Words) -> Tensor:
    """The keys of words."""
    return stack(words, -1)


def counters(shape: Lengths) -> Words:
    """The places 0, 1, 2, ... of an array of that shape in row-major order, as pairs of words."""
    zero = constant(np.uint32(0))
    if not shape:
        return zero, zero
    n = math.prod(shape)
    if isinstance(n, int) and n <= LOW:
        return zero, reshape(arange(n, dtype="uint32"), shape)
    places = reshape(arange(n, dtype="int64"), shape)
    low = bitwise_and(places, np.int64(LOW))
    return cast(right_shift(places, np.int64(32)), "uint32"), cast(low, "uint32")


def split_words(words: Words, shape: Lengths) -> Words:
    """New keys of the shape for each key; their axes stand behind its own."""
    axes = tuple(range(-len(shape), 0))
    k0, k1 = (expand_dims(k, axes) if axes and k.ndim else k for k in words)
    return threefry(k0, k1, *counters(shape))


def child(key: Any, i: int) -> Words:
    """The one of that number among the keys that a key is split into, however many there are."""
    return threefry(*words_of(key), constant(np.uint32(0)), constant(np.uint32(i)))


def bits_of(key: Any, shape: Lengths, width: int) -> Tensor:
    """Random bits of the shape for each key."""
    high, low = split_words(words_of(key), shape)
    if width == 64:
        return bitwise_or(left_shift(cast(high, "uint64"), np.uint64(32)), cast(low, "uint64"))
    return cast(bitwise_xor(high, low), f"uint{width}")


def random_bits(key: Any, shape: Lengths = (), width: int = 32) -> Tensor:
    """Random bits, as unsigned integers.

    Args:
        key: A key, or an array of keys: uint32, its last axis of length 2.
        shape: Integers, Python's or symbolic.
        width: How many bits each number has: 8, 16, 32 or 64.

    Returns:
        An array of the shape for each key, its axes behind those of the keys.

    Raises:
        DTypeError: No such width, or the key is not of uint32.
        ShapeError: The key has no last axis of length 2.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.random_bits(gt.random.key(42), (3,)).eval(mode="NUMPY").tolist()
        [2098992034, 2919706841, 2646866425]
    """
    if width not in {8, 16, 32, 64}:
        raise DTypeError(
            f"random_bits: no unsigned integer has {width!r} bits.",
            "Use 8, 16, 32 or 64.",
            where(here()),
        )
    return bits_of(key, tuple(shape), width)
