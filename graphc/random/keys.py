"""Keys and random bits: each number is the hash of its position by a key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir import Leaf, is_integer
from graphc.random.threefry import threefry
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.join import stack
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.runtime import Runtime
from graphc.tensor.core.shape import list_entries, reshape
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, as_tensor, constant

__all__ = ["fold_in", "key", "random_bits", "split"]

Lengths = Sequence[Any]
"""A shape: Python integers and int64 scalars."""

Words = tuple[Tensor, Tensor]
"""Keys as two arrays, of their first and their second words."""

LOW = 0xFFFFFFFF
"""The lower half of 64 bits."""


def as_key(x: Any) -> Tensor:
    """Return keys as a symbolic array whose last axis has the two words."""
    key = as_tensor(x)
    if key.dtype != "uint32":
        raise DTypeError(
            f"A key is an array of uint32, not {key.type!r}.",
            "Make one with gt.random.key(seed), or jax.random.key_data(key) of JAX's typed keys.",
        )
    last = key.type.shape[-1] if key.ndim else 0
    if last is None:
        return specify_shape(key, (*[None] * (key.ndim - 1), 2))
    if last != 2:
        raise ShapeError(
            f"Expected a key, whose last axis has length 2, got {key.type!r}.",
            "Make one with gt.random.key or gt.random.split.",
        )
    return key


def words_of(key: Any) -> Words:
    """Return the words of keys; words are returned unchanged."""
    if isinstance(key, tuple):
        return key
    key = as_key(key)
    return key[..., 0], key[..., 1]


def key_of(words: Words) -> Tensor:
    """Return the keys of words."""
    return stack(words, -1)


def counters(shape: Lengths) -> Words:
    """Return the positions 0, 1, 2, ... of an array in row-major order, as pairs of words."""
    zero = constant(np.uint32(0))
    if not shape:
        return zero, zero
    n = math.prod(shape)
    if isinstance(n, int) and n <= LOW:
        return zero, reshape(arange(n, dtype="uint32"), shape)
    positions = reshape(arange(n, dtype="int64"), shape)
    low = ew.bitwise_and(positions, np.int64(LOW))
    return ew.cast(ew.right_shift(positions, np.int64(32)), "uint32"), ew.cast(low, "uint32")


def split_words(words: Words, shape: Lengths) -> Words:
    """Split each key into new keys of a shape, along new last axes."""
    axes = tuple(range(-len(shape), 0))
    k0, k1 = (expand_dims(k, axes) if axes and k.ndim else k for k in words)
    return threefry(k0, k1, *counters(shape))


def child(key: Any, i: int) -> Words:
    """Return the key number i of a split; it does not depend on the number of keys."""
    return threefry(*words_of(key), constant(np.uint32(0)), constant(np.uint32(i)))


def bits_of(key: Any, shape: Lengths, width: int) -> Tensor:
    """Draw random bits, an array of a shape for each key."""
    high, low = split_words(words_of(key), shape)
    if width == 64:
        return ew.bitwise_or(
            ew.left_shift(ew.cast(high, "uint64"), np.uint64(32)), ew.cast(low, "uint64")
        )
    return ew.cast(ew.bitwise_xor(high, low), f"uint{width}")


def random_bits(key: Any, shape: Lengths = (), width: int = 32) -> Tensor:
    """Draw random bits as unsigned integers.

    Args:
        key: A key, or an array of keys: uint32, its last axis of length 2.
        shape: Integers, Python's or symbolic.
        width: The bits of each number: 8, 16, 32 or 64.

    Returns:
        An array of the shape for each key, with the keys' axes first.

    Raises:
        DTypeError: If the width is invalid, or the key is not uint32.
        ShapeError: If the key has no last axis of length 2.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.random_bits(gt.random.key(42), (3,)).eval(mode="NUMPY").tolist()
        [2098992034, 2919706841, 2646866425]
    """
    if width not in {8, 16, 32, 64}:
        raise DTypeError(
            f"random_bits: no unsigned integer has {width!r} bits.", "Use 8, 16, 32 or 64."
        )
    return bits_of(key, tuple(shape), width)


def key(seed: Any) -> Tensor:
    """Make a key from a seed; equal seeds give equal keys, in any process and on any backend.

    The key is ``jax.random.key_data(jax.random.key(seed))`` with JAX in 64 bits.

    Args:
        seed: An integer, taken modulo 2**64, or a symbolic integer or array. The key of a Python
            integer is an argument of the compiled program: another seed compiles no other program.

    Returns:
        A key, uint32[2], with the axes of the seed in front.

    Raises:
        DTypeError: If the seed is no integer.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.key(7).eval(mode="NUMPY").tolist()
        [0, 7]
    """
    number = seed.number if isinstance(seed, Runtime) else seed
    if isinstance(number, int | np.integer) and not isinstance(number, bool):
        integer = int(number)
        words = np.array([integer >> 32 & LOW, integer & LOW], np.uint32)
        return Tensor.make(Leaf(words, "key"))
    x = as_tensor(number)
    if not is_integer(x.dtype):
        raise DTypeError(f"key: a seed is an integer, not {x!r}.", "Cast it with astype('int64').")
    return stack(_words_of_seed(x), -1)


def _words_of_seed(x: Tensor) -> tuple[Tensor, Tensor]:
    low = ew.cast(ew.bitwise_and(ew.cast(x, "int64"), np.int64(LOW)), "uint32")
    if x.dtype not in {"int64", "uint64"}:
        return ew.cast(x * 0, "uint32"), low
    high = ew.bitwise_and(ew.right_shift(x, 32), LOW)
    return ew.cast(high, "uint32"), low


def split(key: Any, num: Any = 2) -> Tensor:
    """Split a key into new keys; the old one must not be used again.

    Args:
        key: A key, or an array of keys.
        num: The number of new keys, an integer, Python's or symbolic; or a shape.

    Returns:
        ``num`` keys for each key, uint32, the last axis of length 2, as of ``jax.random.split``.

    Raises:
        DTypeError: If the key is not uint32.
        ShapeError: If the key has no last axis of length 2.

    Example:
        >>> import graphc.tensor as gt
        >>> first, second = gt.random.split(gt.random.key(0))
        >>> first.eval(mode="NUMPY").tolist()
        [1797259609, 2579123966]
    """
    return key_of(split_words(words_of(key), tuple(list_entries("split", num))))


def fold_in(key: Any, data: Any) -> Tensor:
    """Make a new key from a key and an integer, such as the number of a step.

    Args:
        key: A key, or an array of keys.
        data: An integer, Python's or symbolic, taken modulo 2**32; or an array of integers that
            broadcasts with the keys.

    Returns:
        A new key for each key, as of ``jax.random.fold_in``.

    Raises:
        DTypeError: If the key is not uint32, or ``data`` is no integer.
        ShapeError: If the key has no last axis of length 2.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.random.fold_in(gt.random.key(0), 3).eval(mode="NUMPY").tolist()
        [2467461003, 3840466878]
    """
    words = words_of(key)
    number = data.number if isinstance(data, Runtime) else data
    if isinstance(number, int):
        number = np.uint32(number & LOW)
        x = constant(number)
    else:
        x = as_tensor(number)
    if not is_integer(x.dtype):
        raise DTypeError(
            f"fold_in: data is an integer, not {x!r}.", "Cast it with astype('int64')."
        )
    low = ew.cast(ew.bitwise_and(ew.cast(x, "int64"), np.int64(LOW)), "uint32")
    return key_of(threefry(*words, constant(np.uint32(0)), low))
