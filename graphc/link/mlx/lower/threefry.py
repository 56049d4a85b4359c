"""The Threefry hash of random numbers in ``mlx.core``."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.arrays import device_array, end_of_kernel
from graphc.link.mlx.backend import backend
from graphc.link.mlx.segments import SIZES
from graphc.random.threefry import INJECTIONS, PARITY, ROTATIONS, Threefry

SIZE = 150
"""Number of operations in the hash."""


@backend.lower(Threefry)
def threefry(op: Threefry, *words: Any) -> tuple[Any, Any]:
    """Return the hash by one kernel, called ten times: each kernel takes the C++ compiler a second.

    So rotations and key words are arguments of the kernel, and zeros if nothing is added.
    """
    k0, k1, x0, x1 = (end_of_kernel(device_array(x)) for x in words)
    # Elements of arrays: a number would be written into the kernel.
    table, numbers = mx.array(ROTATIONS, mx.uint32), mx.arange(1, INJECTIONS + 1, dtype=mx.uint32)
    keys = (k0, k1, end_of_kernel(k0 ^ k1 ^ PARITY))
    zero = end_of_kernel(mx.zeros((), mx.uint32))
    x0, x1 = x0 + k0, x1 + k1
    for i in range(INJECTIONS):
        a, b, c, d = (end_of_kernel(table[i % 2, j]) for j in range(4))
        x0, x1 = two_rounds(x0, x1, a, b, zero, zero)
        second = end_of_kernel(keys[(i + 2) % 3] + end_of_kernel(numbers[i]))
        x0, x1 = two_rounds(x0, x1, c, d, keys[(i + 1) % 3], second)
    return end_of_kernel(x0), end_of_kernel(x1)


SIZES[Threefry()] = lambda: SIZE


def two_rounds(x0: Any, x1: Any, a: Any, b: Any, k0: Any, k1: Any) -> tuple[Any, Any]:
    """Return two rounds with these rotations, and add two words of the key."""
    x0, x1 = end_of_kernel(x0), end_of_kernel(x1)
    for bits in (a, b):
        x0 = x0 + x1
        x1 = ((x1 << bits) | (x1 >> (32 - bits))) ^ x0
    return x0 + k0, x1 + k1
