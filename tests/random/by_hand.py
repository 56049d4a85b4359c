"""The hash that random bits are made of, in Python's integers."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["bits_by_hand", "hash_by_hand"]

MASK = 0xFFFFFFFF
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


def hash_by_hand(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x32 of 20 rounds, as its authors write it down."""
    keys = [*key, 0x1BD11BDA ^ key[0] ^ key[1]]
    x = [(counter[i] + keys[i]) & MASK for i in range(2)]
    for i in range(20):
        x[0] = (x[0] + x[1]) & MASK
        n = ROTATIONS[i % 8]
        x[1] = ((x[1] << n | x[1] >> (32 - n)) & MASK) ^ x[0]
        if i % 4 == 3:
            j = i // 4 + 1
            x = [(x[0] + keys[j % 3]) & MASK, (x[1] + keys[(j + 1) % 3] + j) & MASK]
    return x[0], x[1]


def bits_by_hand(keys: np.ndarray, shape: tuple[int, ...], width: int) -> np.ndarray:
    """Random bits of the shape for each key."""
    found = []
    for key in keys.reshape(-1, 2).tolist():
        for i in range(math.prod(shape)):
            high, low = hash_by_hand(tuple(key), (i >> 32, i & MASK))
            found.append(high << 32 | low if width == 64 else (high ^ low) & (2**width - 1))
    return np.array(found, f"uint{width}").reshape(*keys.shape[:-1], *shape)
