"""Threefry-2x32: the hash of a counter by a key, the source of all random numbers.

Source: Salmon, Moraes, Dror & Shaw, Parallel random numbers: as easy as 1, 2, 3, SC 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import DTypeError
from graphc.ir import Op, TensorType, TupleType, picks
from graphc.tensor.core.elementwise import align_ranks, broadcast_shapes
from graphc.tensor.core.tensor import Tensor

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""The rotations, in bits, of the four rounds between two injections of the key, in turn."""

INJECTIONS = 5
PARITY = 0x1BD11BDA
"""The constant in the key's third word, which makes it nonzero where the others are 0."""

WORD = 2**32 - 1
"""The bits of a word."""

BLOCK = 2**13
"""The number of words that NumPy hashes at a time, so that they fit the cache."""


@dataclass(frozen=True, slots=True)
class Threefry(Op):
    """The hash of a counter by a key, two words of uint32.

    Inputs are the two words of the key and of the counter, which broadcast.
    """

    core_ndim = 0
    name = "threefry"

    def infer(self, *types: TensorType) -> TupleType:
        if any(t.dtype != "uint32" for t in types):
            raise DTypeError(
                f"threefry({', '.join(map(repr, types))}): expected words of uint32.",
                "Cast them with astype.",
            )
        word = TensorType("uint32", broadcast_shapes("threefry", types))
        return TupleType((word, word))

    def perform(self, *words: np.ndarray[Any, Any]) -> tuple[Any, Any]:
        """Hash block by block, as each word is read and written a hundred times."""
        shape = np.broadcast_shapes(*[np.shape(x) for x in words])
        if not shape:
            # Python's integers are faster than arrays of one element, and need no wrapping before a
            # rotation.
            k0, k1, x0, x1 = map(int, words)
            first, second = hash_words(k0, k1, x0, x1, _rotate)
            return np.array(first & WORD, np.uint32), np.array(second & WORD, np.uint32)
        y, z = np.empty(shape, np.uint32), np.empty(shape, np.uint32)
        flat = [np.broadcast_to(x, shape).reshape(-1) if np.ndim(x) else x for x in words]
        flat_y, flat_z = y.reshape(-1), z.reshape(-1)
        for start in range(0, y.size, BLOCK):
            block = slice(start, start + BLOCK)
            blocks = [x[block] if np.ndim(x) else x for x in flat]
            _hash_into(flat_y[block], flat_z[block], *blocks)
        return y, z

    def batch(self, size: Any, batched: Sequence[bool], *words: Tensor) -> tuple[Tensor, ...]:
        return tuple(picks(Tensor.make(self, *align_ranks(batched, words))))


def hash_words(k0: Any, k1: Any, x0: Any, x1: Any, rotate: Callable[[Any, int], Any]) -> Any:
    """Hash the words of counters by words of keys, with the operators of a library's arrays.

    Args:
        k0: The first words of keys, uint32.
        k1: The second words of keys.
        x0: The first words of counters.
        x1: The second words of counters.
        rotate: A function that rotates the bits of each word to the left.

    Returns:
        The two words of each hash.
    """
    keys = (k0, k1, k0 ^ k1 ^ PARITY)
    x0, x1 = x0 + k0, x1 + k1
    for i in range(INJECTIONS):
        for bits in ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = rotate(x1, bits) ^ x0
        x0, x1 = x0 + keys[(i + 1) % 3], x1 + (keys[(i + 2) % 3] + (i + 1))
    return x0, x1


def _rotate(x: int, bits: int) -> int:
    return (x << bits | (x & WORD) >> (32 - bits)) & WORD


def _hash_into(x0: Any, x1: Any, k0: Any, k1: Any, c0: Any, c1: Any) -> None:
    """Hash in the memory of the results: new arrays in each step would take twice as long."""
    keys = (k0, k1, k0 ^ k1 ^ PARITY)
    np.add(c0, k0, out=x0)
    np.add(c1, k1, out=x1)
    high = np.empty_like(x1)
    for i in range(INJECTIONS):
        for bits in ROTATIONS[i % 2]:
            np.add(x0, x1, out=x0)
            np.left_shift(x1, np.uint32(bits), out=high)
            np.right_shift(x1, np.uint32(32 - bits), out=x1)
            np.bitwise_or(x1, high, out=x1)
            np.bitwise_xor(x1, x0, out=x1)
        np.add(x0, keys[(i + 1) % 3], out=x0)
        np.add(x1, keys[(i + 2) % 3], out=x1)
        np.add(x1, np.uint32(i + 1), out=x1)


def threefry(k0: Tensor, k1: Tensor, x0: Tensor, x1: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two words of the hash of a counter by a key."""
    y, z = picks(Tensor.make(Threefry(), k0, k1, x0, x1))
    return y, z
