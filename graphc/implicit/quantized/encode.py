"""Encoding: codes, scales and biases of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from graphc.implicit.quantized.coding import FLOATS, LARGEST_OF, NORMAL_FLOATS, Coding
from graphc.implicit.treedef import dtype_of
from graphc.ir import dtype_name

TINY = 1e-7
"""The smallest step of a group, as in MLX, so that a group of equal numbers has a positive one."""


def encode(
    xp: Any, coding: Coding, x: Any, shared: tuple[int, ...] = (), padding: int = 0
) -> tuple[Any, ...]:
    """Return the words, the scales and any biases of an array of complete groups.

    A group of zeros is decoded to exact zeros.

    Args:
        xp: The functions of the array's library.
        coding: The encoding.
        x: Floating numbers; the length of the last axis is a multiple of the group's.
        shared: Axes before the last, along which scales are equal.
        padding: The number of zeros that were appended to fill the last group.
    """
    dtype = dtype_of(x)
    # Half precision is too coarse for the steps of a group.
    wide = xp.cast(x, "float32") if dtype.itemsize < 4 else x
    groups = _Groups(xp, coding, coding.split_groups(xp, wide), dtype, shared, padding)
    codes, *parameters = ENCODERS[coding.kind](groups)
    words = coding.pack(xp, xp.reshape(codes, xp.shape_of(x)))
    return words, *[xp.cast(y, dtype) for y in parameters]


def encode_with_scales(xp: Any, coding: Coding, x: Any, *numbers: Any) -> Any:
    """Return the words of an array, given scales, and biases if there are any.

    Args:
        xp: The functions of the array's library.
        coding: The encoding, of an integer or a floating kind.
        x: Floating numbers; the length of the last axis is a multiple of the group's.
        numbers: The scales, and biases.
    """
    groups = coding.split_groups(xp, x)
    codes, _ = nearest(xp, coding, groups, *[xp.expand_dims(y, -1) for y in numbers])
    return coding.pack(xp, xp.reshape(codes, xp.shape_of(x)))


def parameters_of(xp: Any, coding: Coding, x: Any, padding: int) -> list[Any]:
    """Return the scales, and any biases, of the groups of an array that ends with padding."""
    groups = _Groups(xp, coding, coding.split_groups(xp, x), dtype_of(x), (), padding)
    return [*ENCODERS[coding.kind](groups)[1:]]


def nearest(xp: Any, coding: Coding, x: Any, scales: Any, *biases: Any) -> tuple[Any, Any]:
    """Return the codes of numbers with these scales and biases, and the numbers they represent."""
    for bias in biases:
        x = x - bias
    normalized = x / xp.where(xp.equal(scales, 0), xp.ones_like(scales), scales)
    codes = _nearest(xp, coding, normalized)
    values = coding.values(xp, codes, dtype_name(dtype_of(x))) * scales
    for bias in biases:
        values = values + bias
    return codes, values


def _nearest(xp: Any, coding: Coding, x: Any) -> Any:
    if coding.kind in FLOATS:
        return float_codes(xp, coding.kind, x)
    if coding.kind == "affine":
        return xp.clip(xp.rint(x), 0, 2**coding.bits - 1)
    if coding.kind == "1bit":
        return xp.cast(x >= 0, dtype_of(x))
    if coding.kind == "nf4":
        return _normal_codes(xp, x)
    largest = largest_of(coding)
    return xp.clip(xp.rint(x), -largest, largest) + coding.zero


def _normal_codes(xp: Any, x: Any) -> Any:
    table = np.array(NORMAL_FLOATS, "float32")
    codes = xp.zeros_like(x)
    for middle in (table[1:] + table[:-1]) / 2:
        codes = codes + xp.cast(x > float(middle), dtype_of(x))
    return codes


def largest_of(coding: Coding) -> float:
    """Return the largest number of a symmetric kind before it is scaled."""
    if coding.kind in LARGEST_OF:
        return LARGEST_OF[coding.kind]
    return 1 if coding.kind in {"ternary", "ternary5"} else 2 ** (coding.bits - 1) - 1


class _Groups(NamedTuple):
    """The groups of an array.

    Attributes:
        xp: The functions of the array's library.
        coding: The encoding.
        x: The groups, along the last axis.
        dtype: The dtype of the array, and so of the scales.
        shared: Axes along which scales are equal.
        padding: The number of zeros that were appended to fill the last group.
    """

    xp: Any
    coding: Coding
    x: Any
    dtype: Any
    shared: tuple[int, ...]
    padding: int

    def over(self, name: str, x: Any) -> Any:
        """Reduce each group, and the groups that share its scale."""
        xp = self.xp
        y = getattr(xp, name)(x, -1)
        if not self.shared:
            return y
        return xp.broadcast_to(getattr(xp, name)(y, self.shared, keepdims=True), xp.shape_of(y))

    def mean(self) -> Any:
        """Return the mean magnitude of each group."""
        y, xp, size = self.over("mean", self.xp.abs(self.x)), self.xp, self.coding.group_size
        if not self.padding:
            return y
        last = xp.equal(xp.arange(xp.shape_of(y)[-1]), xp.shape_of(y)[-1] - 1)
        return xp.where(last, y * (size / (size - self.padding)), y)

    def largest(self) -> Any:
        """Return the largest magnitude of each group."""
        return self.over("max", self.xp.abs(self.x))


def _round_to(xp: Any, x: Any, dtype: Any) -> Any:
    """Round numbers to the dtype in which they are stored, as decoding will read them."""
    return xp.cast(xp.cast(x, dtype), dtype_of(x)) if dtype != dtype_of(x) else x


def _affine(groups: _Groups) -> tuple[Any, ...]:
    """Quantize as MLX does: zero and the end of the range farther from zero are exact.

    The error is at most half a step, plus up to half a step at the other end of the range.
    """
    xp, coding, x, dtype, *_ = groups
    largest_code = 2**coding.bits - 1
    low, high = groups.over("min", x), groups.over("max", x)
    is_negative = xp.abs(low) > xp.abs(high)
    step = xp.maximum((high - low) / largest_code, TINY)
    step = xp.where(is_negative, step, -step)
    end = xp.where(is_negative, low, high)
    # Zero is an integer number of steps from that end, so that it has a code.
    count = xp.rint(end / step)
    nonzero = xp.not_equal(count, 0)
    step = xp.where(nonzero, end / xp.where(nonzero, count, xp.ones_like(count)), step)
    bias = xp.where(nonzero, end, xp.zeros_like(end))
    step, bias = (_round_to(xp, y, dtype) for y in (step, bias))
    codes = xp.rint((x - xp.expand_dims(bias, -1)) / xp.expand_dims(step, -1))
    return xp.clip(codes, 0, largest_code), step, bias


def _encode_scaled(groups: _Groups, scales: Any) -> tuple[Any, ...]:
    """Encode by the nearest numbers of the kind times scales."""
    xp, coding, x, dtype, *_ = groups
    scales = _round_to(xp, scales, dtype)
    divisor = xp.where(scales > 0, scales, xp.ones_like(scales))
    return _nearest(xp, coding, x / xp.expand_dims(divisor, -1)), scales


def _symmetric(groups: _Groups) -> tuple[Any, ...]:
    """Encode with the scale by which the largest magnitude is the largest number of the kind."""
    return _encode_scaled(groups, groups.largest() / largest_of(groups.coding))


def _ternary(groups: _Groups) -> tuple[Any, ...]:
    """Encode by the nearest of -1, 0 and 1 times the mean magnitude.

    Source: Ma et al., The era of 1-bit LLMs, arXiv:2402.17764, 2024.
    """
    return _encode_scaled(groups, groups.mean())


def float_codes(xp: Any, kind: str, x: Any) -> Any:
    """Return the codes of the nearest numbers of a narrow floating dtype.

    Ties are rounded to even codes, and numbers that are too large to the largest one. A code is the
    sign bit and the rank of the magnitude among all magnitudes, so that rounding up to the next
    power of two needs no special case.
    """
    exponents, mantissas, bias = FLOATS[kind]
    size = xp.minimum(xp.abs(x), LARGEST_OF[kind])
    rank, inverse = xp.zeros_like(size), xp.ones_like(size)
    for exponent in range(2 - bias, 2**exponents - bias):
        beyond = size >= 2.0**exponent
        rank = rank + xp.where(beyond, 2.0**mantissas, 0.0)
        inverse = inverse * xp.where(beyond, 0.5, 1.0)
    # Exact: the factors are powers of two.
    rank = rank + xp.rint(size * inverse * 2.0 ** (bias - 1 + mantissas))
    return rank + xp.where(x < 0, 2.0 ** (exponents + mantissas), 0.0)


ENCODERS: dict[str, Callable[[_Groups], tuple[Any, ...]]] = {
    "affine": _affine,
    "nf4": lambda groups: _encode_scaled(groups, groups.largest()),
    # Signs times the mean magnitude, which has the least square error; 0 is positive.
    "1bit": lambda groups: (groups.x >= 0, groups.mean()),
    "integer": _symmetric,
    "ternary": _ternary,
    "ternary5": _ternary,
    "w8a8": _symmetric,
    **dict.fromkeys(FLOATS, _symmetric),
}
