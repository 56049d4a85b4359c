"""Codes of a few bits: the numbers they stand for, and their packing in 32-bit words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.treedef import dtype_of
from graphc.ir import dtype_name

WORD = 32
"""The bits of a word."""

GROUP_SIZES = (32, 64, 128)
"""How many neighbours may share a scale: those that MLX has kernels for."""

NORMAL_FLOATS = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""The 16 numbers of NF4, quantiles of a normal distribution scaled to [-1, 1].

Source: Dettmers, Pagnoni, Holtzman & Zettlemoyer, QLoRA, NeurIPS 2023, appendix E.
"""


def _counts(xp: Any, codes: Any, dtype: Any) -> Any:
    # A signed integer is converted in one instruction.
    return xp.cast(xp.cast(codes, "int32"), dtype)


def _signs(xp: Any, codes: Any, dtype: Any) -> Any:
    return xp.cast(2 * xp.cast(codes, "int32") - 1, dtype)


def _normal_floats(xp: Any, codes: Any, dtype: Any) -> Any:
    codes = xp.cast(codes, "int32")
    # In a graph, arrays as short as these are written into the program.
    low, high = (
        xp.take(np.array(half, "float32"), xp.bitwise_and(codes, 7))
        for half in (NORMAL_FLOATS[:8], NORMAL_FLOATS[8:])
    )
    return xp.cast(xp.where(codes < 8, low, high), dtype)


VALUES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "affine": _counts,
    "nf4": _normal_floats,
    "1bit": _signs,
}
"""For each kind, the numbers of codes before they are scaled."""

BITS = {"affine": (1, 2, 4, 8), "nf4": (4,), "1bit": (1,)}
"""For each kind, the bits that a code may have: those that fill a word without a rest."""


@dataclass(frozen=True, slots=True)
class Coding:
    """How an array is held as codes: ``scale * values(code)``, plus a bias where kind is affine.

    Codes lie along the last axis of an array of words, the first in the lowest bits, as in MLX.

    Attributes:
        kind: ``"affine"``, ``"nf4"`` or ``"1bit"``.
        bits: The length of a code.
        group_size: How many neighbours along the last axis share a scale.
    """

    kind: str
    bits: int
    group_size: int

    def __post_init__(self) -> None:
        if self.bits not in BITS[self.kind]:
            raise ImplicitArrayError(
                f"{self.kind} codes of {self.bits} bits.",
                f"Take one of {', '.join(map(str, BITS[self.kind]))} bits, which fill words.",
            )
        if self.group_size not in GROUP_SIZES:
            raise ImplicitArrayError(
                f"Groups of {self.group_size} elements.",
                f"Take one of {', '.join(map(str, GROUP_SIZES))}.",
            )

    @property
    def per_word(self) -> int:
        """How many codes a word holds."""
        return WORD // self.bits

    @property
    def words_per_group(self) -> int:
        """How many words share a scale."""
        return self.group_size // self.per_word

    @property
    def has_biases(self) -> bool:
        """Whether groups have a bias beside the scale."""
        return self.kind == "affine"

    def values(self, xp: Any, codes: Any, dtype: Any) -> Any:
        """The numbers that codes stand for, before they are scaled."""
        return VALUES[self.kind](xp, codes, dtype)

    def packed(self, xp: Any, codes: Any) -> Any:
        """Codes, unsigned integers below ``2**bits``, as words."""
        *lead, n = xp.shape_of(codes)
        codes = xp.reshape(xp.cast(codes, "uint32"), (*lead, n // self.per_word, self.per_word))
        # No two have a bit in common, so that their sum is all of them.
        return xp.cast(xp.sum(xp.left_shift(codes, self._places(xp)), -1), "uint32")

    def codes(self, xp: Any, words: Any) -> Any:
        """The codes in words, as unsigned integers."""
        *lead, n = xp.shape_of(words)
        spread = xp.right_shift(xp.expand_dims(words, -1), self._places(xp))
        return xp.reshape(self.lowest(xp, spread), (*lead, n * self.per_word))

    def lowest(self, xp: Any, words: Any) -> Any:
        """The code in the lowest bits of each word."""
        return xp.bitwise_and(words, 2**self.bits - 1)

    def _places(self, xp: Any) -> Any:
        return xp.cast(xp.arange(0, WORD, self.bits), "uint32")

    def grouped(self, xp: Any, x: Any) -> Any:
        """The last axis as one of groups and one of their elements."""
        *lead, n = xp.shape_of(x)
        return xp.reshape(x, (*lead, n // self.group_size, self.group_size))

    def dense(self, xp: Any, words: Any, scales: Any, biases: Any = None) -> Any:
        """The numbers that words and the scales and biases of their groups stand for."""
        found = self.values(xp, self.codes(xp, words), dtype_name(dtype_of(scales)))
        y = self.grouped(xp, found) * xp.expand_dims(scales, -1)
        if biases is not None:
            y = y + xp.expand_dims(biases, -1)
        return xp.reshape(y, xp.shape_of(found))


@cache
def coding_for(kind: str, bits: int, group_size: int) -> Coding:
    """The coding, checked once."""
    return Coding(kind, bits, group_size)
