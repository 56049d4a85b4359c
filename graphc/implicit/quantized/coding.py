"""Codes of a few bits: the numbers they stand for, and their packing in 32-bit words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.treedef import dtype_of
from graphc.ir import dtype_name

WORD, BYTE = 32, 8
"""The bits of a word, and of a byte."""

ONE, THREE, EIGHT = (np.array(n, "uint32") for n in (1, 3, BYTE))

DIGITS = 5
"""So many digits of base three a byte has, of which 243 values are used: 1.6 bits each."""

POWERS = np.array([3**i for i in range(DIGITS)], "uint32")
"""What moves a digit of a byte to its first place."""

NORMAL_FLOATS = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""The 16 numbers of NF4, quantiles of a normal distribution scaled to [-1, 1].

Source: Dettmers, Pagnoni, Holtzman & Zettlemoyer, QLoRA, NeurIPS 2023, appendix E.
"""


FLOATS = {
    "float4_e2m1fn": (2, 1, 1),
    "float8_e4m3fn": (4, 3, 7),
    "float8_e5m2": (5, 2, 15),
    "mxfp4": (2, 1, 1),
    "mxfp8": (4, 3, 7),
    "nvfp4": (2, 1, 1),
}
"""For each narrow floating kind the bits of its exponent and its mantissa, and the exponent's bias.

The last three are those whose scales are codes of 8 bits.

Source: Micikevicius et al., FP8 formats for deep learning, arXiv:2209.05433, 2022; Open Compute
Project, Microscaling Formats (MX) Specification 1.0, 2023.
"""

LARGEST_OF = {
    **dict.fromkeys(("float4_e2m1fn", "mxfp4", "nvfp4"), 6.0),
    **dict.fromkeys(("float8_e4m3fn", "mxfp8"), 448.0),
    "float8_e5m2": 57344.0,
}
"""The largest finite number of each."""


@cache
def table_of(kind: str, bits: int) -> np.ndarray[Any, Any]:
    """The number of each code, before it is scaled; NaN and infinite ones are never made."""
    codes = np.arange(2**bits)
    if kind == "nf4":
        return np.array(NORMAL_FLOATS, "float32")
    found: Any
    if kind in FLOATS:
        _, mantissas, bias = FLOATS[kind]
        magnitude = codes % 2 ** (bits - 1)
        exponent, mantissa = magnitude >> mantissas, magnitude % 2**mantissas
        units = np.where(exponent > 0, 2**mantissas + mantissa, mantissa)
        scale = np.exp2(np.maximum(exponent, 1) - bias - mantissas)
        found = np.where(codes == magnitude, 1, -1) * units * scale
    else:
        first, step = {"affine": (0, 1), "1bit": (-1, 2)}.get(kind, (-(2 ** (bits - 1)), 1))
        found = first + step * codes
    made: np.ndarray[Any, Any] = found.astype("float32")
    return made


def _counts(xp: Any, codes: Any, dtype: Any, kind: str, bits: int) -> Any:
    # A signed integer is converted in one instruction.
    return xp.cast(xp.cast(codes, "int32"), dtype)


def _signs(xp: Any, codes: Any, dtype: Any, kind: str, bits: int) -> Any:
    return xp.cast(2 * xp.cast(codes, "int32") - 1, dtype)


def _digits(xp: Any, codes: Any, dtype: Any, kind: str, bits: int) -> Any:
    return xp.cast(xp.cast(codes, "int32") - 1, dtype)


def _integers(xp: Any, codes: Any, dtype: Any, kind: str, bits: int) -> Any:
    return xp.cast(xp.cast(codes, "int32") - 2 ** (bits - 1), dtype)


SHORT = 8
"""In a graph, arrays as short as these are written into the program."""


def _from_table(xp: Any, codes: Any, dtype: Any, kind: str, bits: int) -> Any:
    codes, table = xp.cast(codes, "int32"), table_of(kind, bits)
    if len(table) > 2 * SHORT:
        found = xp.take(xp.literal(table), codes)
    else:
        low = xp.bitwise_and(codes, SHORT - 1)
        first, second = (xp.take(half, low) for half in (table[:SHORT], table[SHORT:]))
        found = xp.where(codes < SHORT, first, second)
    return xp.cast(found, dtype)


VALUES: dict[str, Callable[..., Any]] = {
    "affine": _counts,
    "integer": _integers,
    "ternary": _integers,
    "ternary5": _digits,
    "w8a8": _integers,
    "nf4": _from_table,
    "1bit": _signs,
    **dict.fromkeys(FLOATS, _from_table),
}
"""For each kind, the numbers of codes before they are scaled."""

BITS = {
    "affine": (1, 2, 3, 4, 5, 6, 8),
    "integer": (2, 3, 4, 5, 6, 8),
    "ternary": (2,),
    "ternary5": (8,),
    "w8a8": (8,),
    "nf4": (4,),
    "1bit": (1,),
    **{name: (1 + exponent + mantissa,) for name, (exponent, mantissa, _) in FLOATS.items()},
}
"""For each kind, the bits that a code may have; of digits, the bits of the byte that five share."""


@dataclass(frozen=True, slots=True)
class Coding:
    """How an array is held as codes: ``scale * values(code)``, plus a bias where kind is affine.

    Codes lie along the last axis of an array of words, the first in the lowest bits, as in MLX. A
    *unit* is the fewest words that whole codes fill: one, or of 3, 5 and 6 bits, several.

    Attributes:
        kind: ``"affine"``, ``"integer"``, ``"ternary"``, ``"nf4"``, ``"1bit"``, or a narrow
            floating dtype; ``"w8a8"`` for integers that are multiplied with integers;
            ``"ternary5"`` for digits of base three, five to a byte.
        bits: The length of a code, or of the byte that digits share.
        group_size: How many neighbours along the last axis share a scale.
    """

    kind: str
    bits: int
    group_size: int

    def __post_init__(self) -> None:
        if self.bits not in BITS[self.kind]:
            raise ImplicitArrayError(
                f"{self.kind} codes of {self.bits} bits.",
                f"Take one of {', '.join(map(str, BITS[self.kind]))} bits.",
            )
        if self.group_size < 1 or self.group_size % self.per_unit:
            raise ImplicitArrayError(
                f"Groups of {self.group_size} elements of {self.kind} codes, {self.bits} bits.",
                f"Take a multiple of {self.per_unit}, which fill words.",
            )

    @property
    def unit_words(self) -> int:
        """How many words a unit has."""
        return self.bits // math.gcd(self.bits, WORD)

    @property
    def per_unit(self) -> int:
        """How many codes a unit holds."""
        return WORD // math.gcd(self.bits, WORD) * (DIGITS if self.has_digits else 1)

    @property
    def has_digits(self) -> bool:
        """Whether codes are digits of bytes, and have no bits of their own."""
        return self.kind == "ternary5"

    @property
    def zero(self) -> int:
        """The code of zero in kinds of symmetric integers."""
        return 1 if self.has_digits else 2 ** (self.bits - 1)

    @property
    def units_per_group(self) -> int:
        """How many units share a scale."""
        return self.group_size // self.per_unit

    @property
    def words_per_group(self) -> int:
        """How many words share a scale."""
        return self.units_per_group * self.unit_words

    def columns_of(self, words: int) -> int:
        """How many codes so many words hold."""
        return words // self.unit_words * self.per_unit

    @property
    def plain(self) -> Coding:
        """The same codes, for products with floating numbers."""
        is_integer = self.kind == "w8a8"
        return coding_for("integer", self.bits, self.group_size) if is_integer else self

    @property
    def has_biases(self) -> bool:
        """Whether groups have a bias beside the scale."""
        return self.kind == "affine"

    def values(self, xp: Any, codes: Any, dtype: Any) -> Any:
        """The numbers that codes stand for, before they are scaled."""
        return VALUES[self.kind](xp, codes, dtype, self.kind, self.bits)

    def packed(self, xp: Any, codes: Any) -> Any:
        """Codes, unsigned integers below ``2**bits``, as words."""
        if self.has_digits:
            codes = _as_bytes(xp, codes)
        *lead, n = xp.shape_of(codes)
        # Of digits, the bytes that they make are packed.
        per_unit = self.per_unit // (DIGITS if self.has_digits else 1)
        units = n // per_unit
        codes = xp.reshape(xp.cast(codes, "uint32"), (*lead, units, per_unit))
        words = []
        for word in range(self.unit_words):
            # No two have a bit in common, so that their sum is all of them.
            first, last = word * WORD // self.bits, -(-(word + 1) * WORD // self.bits)
            moved = xp.getitem(codes, (..., slice(first, last)))
            places = self._places(xp, word, first, last)
            if word:
                # The first code may begin in the word before.
                moved = xp.right_shift(moved, xp.cast(xp.maximum(-places, 0), "uint32"))
                places = xp.maximum(places, 0)
            moved = xp.left_shift(moved, xp.cast(places, "uint32"))
            words.append(xp.cast(xp.sum(moved, -1), "uint32"))
        if len(words) == 1:
            return words[0]
        return xp.reshape(xp.stack(words, -1), (*lead, units * self.unit_words))

    def codes(self, xp: Any, words: Any) -> Any:
        """The codes in words, as unsigned integers."""
        *lead, n = xp.shape_of(words)
        units = n // self.unit_words
        words = xp.reshape(words, (*lead, units, self.unit_words))
        parts = [self._codes_from(xp, words, word) for word in range(self.unit_words)]
        spread = parts[0] if len(parts) == 1 else xp.concatenate(parts, -1)
        found = self.lowest(xp, spread)
        if self.has_digits:
            found = digit(xp, xp.expand_dims(found, -1), xp.literal(POWERS))
        return xp.reshape(found, (*lead, units * self.per_unit))

    def _codes_from(self, xp: Any, words: Any, word: int) -> Any:
        """The codes that begin in one word of each unit, with other bits above them."""
        first, last = -(-word * WORD // self.bits), -(-(word + 1) * WORD // self.bits)
        places = self._places(xp, word, first, last)
        own = xp.getitem(words, (..., slice(word, word + 1)))
        own = xp.right_shift(own, xp.cast(places, "uint32"))
        if last * self.bits == (word + 1) * WORD:
            return own
        rest = xp.getitem(words, (..., slice(word + 1, word + 2)))
        # In two steps: to shift by the length of a word is undefined.
        rest = xp.left_shift(xp.left_shift(rest, xp.cast(WORD - 1 - places, "uint32")), ONE)
        return xp.bitwise_or(own, rest)

    def _places(self, xp: Any, word: int, first: int, last: int) -> Any:
        """Where some codes of a unit begin in one of its words."""
        start = first * self.bits - word * WORD
        return xp.arange(start, start + (last - first) * self.bits, self.bits)

    def codes_at(self, xp: Any, words: Any, place: Any) -> Any:
        """The codes at places of rows of words, (rows, *places.shape)."""
        unit, inner = place // self.per_unit, place % self.per_unit
        if self.has_digits:
            shift = xp.cast(inner // DIGITS * self.bits, "uint32")
            bytes_ = self.lowest(xp, xp.right_shift(xp.take(words, unit, 1), shift))
            return digit(xp, bytes_, xp.take(xp.literal(POWERS), inner % DIGITS))
        if self.unit_words == 1:
            shift = xp.cast(inner * self.bits, "uint32")
            return self.lowest(xp, xp.right_shift(xp.take(words, unit, 1), shift))
        words = xp.reshape(words, (xp.shape_of(words)[0], -1, self.unit_words))
        codes = self.codes(xp, xp.take(words, unit, 1))
        own = xp.equal(xp.expand_dims(inner, -1), xp.arange(self.per_unit))
        return xp.sum(xp.where(own, xp.cast(codes, "int32"), 0), -1)

    def lowest(self, xp: Any, words: Any) -> Any:
        """The code in the lowest bits of each word."""
        return xp.bitwise_and(words, 2**self.bits - 1)

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


def _as_bytes(xp: Any, codes: Any) -> Any:
    """Digits, five to a byte: the fraction of 256 that they are of 243 as ``0.d1 d2 d3 d4 d5``.

    So three times a byte has its first digit above its highest bit, and below it the others.
    """
    *lead, n = xp.shape_of(codes)
    digits = xp.reshape(xp.cast(codes, "uint32"), (*lead, n // DIGITS, DIGITS))
    found = xp.sum(xp.multiply(digits, xp.literal(POWERS[::-1].copy())), -1)
    # Rounded up, so that what a digit leaves over is never below zero.
    most = 3**DIGITS
    return xp.cast((xp.cast(found, "int32") * 2**BYTE + (most - 1)) // most, "uint32")


def digit(xp: Any, bytes_: Any, power: Any) -> Any:
    """The digit that a power of three moves to the first place of a byte.

    Source: TQ1_0 of llama.cpp, github.com/ggml-org/llama.cpp/pull/8151.
    """
    moved = xp.bitwise_and(xp.multiply(bytes_, power), 2**BYTE - 1)
    return xp.right_shift(xp.multiply(moved, THREE), EIGHT)


def regrouped(xp: Any, coding: Coding, *parts: Any) -> tuple[Any, ...]:
    """A coding with groups of at most 128 elements, and the scales and biases of these.

    Products are computed group by group: scales of longer groups are repeated.
    """
    size = coding.group_size
    if size <= MOST_IN_GROUP or coding.kind == "w8a8":
        return coding, *parts
    fitting = range(MOST_IN_GROUP // coding.per_unit, 0, -1)
    short = next(n * coding.per_unit for n in fitting if size % (n * coding.per_unit) == 0)
    repeated = [xp.repeat(part, size // short, -1) for part in parts]
    return coding_for(coding.kind, coding.bits, short), *repeated


MOST_IN_GROUP = 128
"""So many elements of a group are multiplied together, at most."""


@cache
def coding_for(kind: str, bits: int, group_size: int) -> Coding:
    """The coding, checked once."""
    return Coding(kind, bits, group_size)
