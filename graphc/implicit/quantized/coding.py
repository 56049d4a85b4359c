"""Codes of a few bits: the numbers that they represent, and their packing in 32-bit words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.treedef import dtype_of
from graphc.ir import dtype_name

WORD, BYTE = 32, 8
"""The number of bits in a word, and in a byte."""

ONE, THREE, EIGHT = (np.array(n, "uint32") for n in (1, 3, BYTE))

DIGITS = 5
"""The number of base-three digits in a byte, which has 243 of 256 values: 1.6 bits each."""

POWERS = np.array([3**i for i in range(DIGITS)], "uint32")
"""The factors that move each digit of a byte to the first position."""

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
"""The bits of the exponent and the mantissa, and the exponent's bias, of narrow floating kinds.

The last three kinds have scales that are codes of 8 bits.

Source: Micikevicius et al., FP8 formats for deep learning, arXiv:2209.05433, 2022; Open Compute
Project, Microscaling Formats (MX) Specification 1.0, 2023.
"""

NONLINEAR = {"nf4", *FLOATS}
"""The kinds whose numbers are not equally spaced."""

LARGEST_OF = {
    **dict.fromkeys(("float4_e2m1fn", "mxfp4", "nvfp4"), 6.0),
    **dict.fromkeys(("float8_e4m3fn", "mxfp8"), 448.0),
    "float8_e5m2": 57344.0,
}
"""The largest finite number of each narrow floating kind."""


@cache
def table_of(kind: str, bits: int) -> np.ndarray[Any, Any]:
    """Return the number that each code represents, before it is scaled."""
    codes = np.arange(2**bits)
    if kind == "nf4":
        return np.array(NORMAL_FLOATS, "float32")
    values: Any
    if kind in FLOATS:
        _, mantissas, bias = FLOATS[kind]
        magnitude = codes % 2 ** (bits - 1)
        exponent, mantissa = magnitude >> mantissas, magnitude % 2**mantissas
        units = np.where(exponent > 0, 2**mantissas + mantissa, mantissa)
        scale = np.exp2(np.maximum(exponent, 1) - bias - mantissas)
        # Codes of NaN and infinity, which encoding never produces, have arbitrary numbers here.
        values = np.where(codes == magnitude, 1, -1) * units * scale
    else:
        first, step = first_and_step(kind, bits)
        values = first + step * codes
    return values.astype("float32")  # type: ignore[no-any-return]


def first_and_step(kind: str, bits: int) -> tuple[int, int]:
    """Return the number of code 0, and the step between numbers, of an equally spaced kind."""
    lines = {"affine": (0, 1), "1bit": (-1, 2), "ternary5": (-1, 1)}
    return lines.get(kind, (-(2 ** (bits - 1)), 1))


MAX_LITERAL = 8
"""The longest array that a graph writes into the program; longer tables are looked up in halves."""


def _from_table(xp: Any, codes: Any, dtype: Any, kind: str, bits: int) -> Any:
    codes, table = xp.cast(codes, "int32"), table_of(kind, bits)
    if len(table) > 2 * MAX_LITERAL:
        values = xp.take(xp.literal(table), codes)
    else:
        low = xp.bitwise_and(codes, MAX_LITERAL - 1)
        first, second = (xp.take(half, low) for half in (table[:MAX_LITERAL], table[MAX_LITERAL:]))
        values = xp.where(codes < MAX_LITERAL, first, second)
    return xp.cast(values, dtype)


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
"""The allowed lengths of a code in bits, for each kind; for digits, the bits of their byte."""


@dataclass(frozen=True, slots=True)
class Coding:
    """An encoding of numbers: ``scale * values(code)``, plus a bias if the kind is affine.

    Codes are packed along the last axis of an array of words, the first in the lowest bits, as in
    MLX. A *unit* is the smallest number of words that complete codes fill: one word, or several for
    codes of 3, 5 and 6 bits.

    Attributes:
        kind: ``"affine"``, ``"integer"``, ``"ternary"``, ``"nf4"``, ``"1bit"``, or a narrow
            floating dtype; ``"w8a8"`` for integers that are multiplied with integers;
            ``"ternary5"`` for digits of base three, five to a byte.
        bits: The length of a code, or of the byte that digits share.
        group_size: The number of neighbours along the last axis that share a scale.
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
        """The number of words in a unit."""
        return self.bits // math.gcd(self.bits, WORD)

    @property
    def per_unit(self) -> int:
        """The number of codes in a unit."""
        return WORD // math.gcd(self.bits, WORD) * (DIGITS if self.has_digits else 1)

    @property
    def has_digits(self) -> bool:
        """Whether codes are digits of a byte instead of bits."""
        return self.kind == "ternary5"

    @property
    def zero(self) -> int:
        """The code of zero in kinds of symmetric integers."""
        return 1 if self.has_digits else 2 ** (self.bits - 1)

    @property
    def units_per_group(self) -> int:
        """The number of units that share a scale."""
        return self.group_size // self.per_unit

    @property
    def words_per_group(self) -> int:
        """The number of words that share a scale."""
        return self.units_per_group * self.unit_words

    def columns_of(self, words: int) -> int:
        """Return the number of codes in a number of words."""
        return words // self.unit_words * self.per_unit

    @property
    def plain(self) -> Coding:
        """The encoding of the same codes for products with floating numbers."""
        is_integer = self.kind == "w8a8"
        return coding_for("integer", self.bits, self.group_size) if is_integer else self

    @property
    def has_biases(self) -> bool:
        """Whether groups have a bias beside the scale."""
        return self.kind == "affine"

    def values(self, xp: Any, codes: Any, dtype: Any) -> Any:
        """Return the numbers that codes represent, before they are scaled."""
        if self.kind in NONLINEAR:
            return _from_table(xp, codes, dtype, self.kind, self.bits)
        first, step = first_and_step(self.kind, self.bits)
        # A signed integer is converted in one instruction.
        codes = xp.cast(codes, "int32")
        codes = codes if step == 1 else step * codes
        return xp.cast(codes + first if first else codes, dtype)

    def pack(self, xp: Any, codes: Any) -> Any:
        """Pack codes, unsigned integers below ``2**bits``, into words."""
        if self.has_digits:
            codes = _digits_to_bytes(xp, codes)
        *lead, n = xp.shape_of(codes)
        # Digits are packed as bytes.
        per_unit = self.per_unit // (DIGITS if self.has_digits else 1)
        units = n // per_unit
        codes = xp.reshape(xp.cast(codes, "uint32"), (*lead, units, per_unit))
        words = []
        for word in range(self.unit_words):
            # No two shifted codes share a bit, so that their sum combines all of them.
            first, last = word * WORD // self.bits, -(-(word + 1) * WORD // self.bits)
            shifted = xp.getitem(codes, (..., slice(first, last)))
            offsets = self._offsets(xp, word, first, last)
            if word:
                # The first code may begin in the previous word.
                shifted = xp.right_shift(shifted, xp.cast(xp.maximum(-offsets, 0), "uint32"))
                offsets = xp.maximum(offsets, 0)
            shifted = xp.left_shift(shifted, xp.cast(offsets, "uint32"))
            words.append(xp.cast(xp.sum(shifted, -1), "uint32"))
        if len(words) == 1:
            return words[0]
        return xp.reshape(xp.stack(words, -1), (*lead, units * self.unit_words))

    def codes(self, xp: Any, words: Any) -> Any:
        """Unpack the codes in words, as unsigned integers."""
        *lead, n = xp.shape_of(words)
        units = n // self.unit_words
        words = xp.reshape(words, (*lead, units, self.unit_words))
        slices = [self._codes_from(xp, words, word) for word in range(self.unit_words)]
        shifted = slices[0] if len(slices) == 1 else xp.concatenate(slices, -1)
        codes = self.lowest(xp, shifted)
        if self.has_digits:
            codes = digit(xp, xp.expand_dims(codes, -1), xp.literal(POWERS))
        return xp.reshape(codes, (*lead, units * self.per_unit))

    def _codes_from(self, xp: Any, words: Any, word: int) -> Any:
        """Return the codes that begin in one word of each unit, with other bits above them."""
        first, last = -(-word * WORD // self.bits), -(-(word + 1) * WORD // self.bits)
        offsets = self._offsets(xp, word, first, last)
        low = xp.getitem(words, (..., slice(word, word + 1)))
        low = xp.right_shift(low, xp.cast(offsets, "uint32"))
        if last * self.bits == (word + 1) * WORD:
            return low
        high = xp.getitem(words, (..., slice(word + 1, word + 2)))
        # In two steps: a shift by the length of a word is undefined.
        high = xp.left_shift(xp.left_shift(high, xp.cast(WORD - 1 - offsets, "uint32")), ONE)
        return xp.bitwise_or(low, high)

    def _offsets(self, xp: Any, word: int, first: int, last: int) -> Any:
        """Return the bit offsets of a unit's codes in one of its words."""
        start = first * self.bits - word * WORD
        return xp.arange(start, start + (last - first) * self.bits, self.bits)

    def codes_at(self, xp: Any, words: Any, index: Any) -> Any:
        """Return the codes of rows of words at column indices, (rows, *index.shape)."""
        unit, inner = index // self.per_unit, index % self.per_unit
        if self.has_digits:
            shift = xp.cast(inner // DIGITS * self.bits, "uint32")
            byte = self.lowest(xp, xp.right_shift(xp.take(words, unit, 1), shift))
            return digit(xp, byte, xp.take(xp.literal(POWERS), inner % DIGITS))
        if self.unit_words == 1:
            shift = xp.cast(inner * self.bits, "uint32")
            return self.lowest(xp, xp.right_shift(xp.take(words, unit, 1), shift))
        words = xp.reshape(words, (xp.shape_of(words)[0], -1, self.unit_words))
        codes = self.codes(xp, xp.take(words, unit, 1))
        own = xp.equal(xp.expand_dims(inner, -1), xp.arange(self.per_unit))
        return xp.sum(xp.where(own, xp.cast(codes, "int32"), 0), -1)

    def lowest(self, xp: Any, words: Any) -> Any:
        """Return the code in the lowest bits of each word."""
        return xp.bitwise_and(words, 2**self.bits - 1)

    def split_groups(self, xp: Any, x: Any) -> Any:
        """Split the last axis into groups and the elements of each group."""
        *lead, n = xp.shape_of(x)
        return xp.reshape(x, (*lead, n // self.group_size, self.group_size))

    def dense(self, xp: Any, words: Any, scales: Any, biases: Any = None) -> Any:
        """Return the numbers that words, and the scales and biases of groups, represent."""
        values = self.values(xp, self.codes(xp, words), dtype_name(dtype_of(scales)))
        y = self.split_groups(xp, values) * xp.expand_dims(scales, -1)
        if biases is not None:
            y = y + xp.expand_dims(biases, -1)
        return xp.reshape(y, xp.shape_of(values))


def _digits_to_bytes(xp: Any, codes: Any) -> Any:
    """Return bytes of five digits d, ``ceil(256 * 0.d1d2d3d4d5)`` in base three.

    The integer part of ``3 * byte / 256`` is the first digit, and the remainder holds the others.
    """
    *lead, n = xp.shape_of(codes)
    digits = xp.reshape(xp.cast(codes, "uint32"), (*lead, n // DIGITS, DIGITS))
    number = xp.sum(xp.multiply(digits, xp.literal(POWERS[::-1].copy())), -1)
    # Rounded up, so that the remainder after a digit is never negative.
    count = 3**DIGITS
    return xp.cast((xp.cast(number, "int32") * 2**BYTE + (count - 1)) // count, "uint32")


def digit(xp: Any, byte: Any, power: Any) -> Any:
    """Return the digit of a byte that a power of three moves to the first position.

    Source: TQ1_0 of llama.cpp, github.com/ggml-org/llama.cpp/pull/8151.
    """
    shifted = xp.bitwise_and(xp.multiply(byte, power), 2**BYTE - 1)
    return xp.right_shift(xp.multiply(shifted, THREE), EIGHT)


def shorten_groups(xp: Any, coding: Coding, *numbers: Any) -> tuple[Any, ...]:
    """Return a coding with groups of at most 128 elements, and the scales and biases of these.

    Products are computed group by group: scales of longer groups are repeated.
    """
    size = coding.group_size
    if size <= MAX_GROUP or coding.kind == "w8a8":
        return coding, *numbers
    units = range(MAX_GROUP // coding.per_unit, 0, -1)
    short = next(n * coding.per_unit for n in units if size % (n * coding.per_unit) == 0)
    repeated = [xp.repeat(x, size // short, -1) for x in numbers]
    return coding_for(coding.kind, coding.bits, short), *repeated


MAX_GROUP = 128
"""The most elements of a group that are multiplied together."""


@cache
def coding_for(kind: str, bits: int, group_size: int) -> Coding:
    """Return a coding, which is checked only once."""
    return Coding(kind, bits, group_size)
