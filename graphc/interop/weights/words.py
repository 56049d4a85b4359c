"""Packing of codes of a few bits in words of 32 bits, the first in the lowest bits, by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.implicit.namespace import NUMPY
from graphc.implicit.quantized import Coding

Array = np.ndarray[Any, Any]

BYTE = 8


def words_of(coding: Coding, codes: Array) -> Array:
    """Pack codes of uint8, ``(..., n)``, to words.

    Example:
        >>> words_of(Coding("affine", 4, 8), np.arange(8, dtype="uint8"))
        array([1985229328], dtype=uint32)
    """
    if BYTE % coding.bits:
        words: Array = coding.pack(NUMPY, codes)
        return words
    per_byte = BYTE // coding.bits
    *lead, n = codes.shape
    groups = codes.reshape(*lead, n // per_byte, per_byte)
    data = groups[..., 0].copy()
    for i in range(1, per_byte):
        data |= groups[..., i] << np.uint8(i * coding.bits)
    return data.view("<u4")


def codes_of(coding: Coding, words: Array) -> Array:
    """Unpack words, ``(..., n)``, to codes of uint8: the inverse of ``words_of``."""
    if BYTE % coding.bits:
        unpacked: Array = coding.codes(NUMPY, words).astype("uint8")
        return unpacked
    data = np.ascontiguousarray(words, "<u4").view("uint8")
    shifts = np.arange(0, BYTE, coding.bits, dtype="uint8")
    codes = data[..., None] >> shifts & np.uint8(2**coding.bits - 1)
    *lead, n = data.shape
    return codes.reshape(*lead, n * len(shifts))
