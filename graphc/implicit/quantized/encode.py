"""Arrays of numbers as codes, scales and biases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from graphc.implicit.quantized.coding import FLOATS, LARGEST_OF, NORMAL_FLOATS, Coding
from graphc.implicit.treedef import dtype_of
from graphc.ir import dtype_name

TINY = 1e-7
"""The least scale of a group: MLX's, so that a group of equal numbers has one."""


def encode(
    xp: Any, coding: Coding, x: Any, shared: tuple[int, ...] = (), padding: int = 0
) -> tuple[Any, ...]:
    """Return the words, the scales and any biases of an array whose last axis ends with a group.

    A group of zeros is exactly zero when it is decoded.

    Args:
        xp: The functions of the array's library.
        coding: What the codes mean.
        x: Floating numbers; the last axis is a multiple of the group's length.
        shared: Axes before the last, along which groups have equal scales.
        padding: The number of zeros that were appended to fill the last group.
    """
    dtype = dtype_of(x)
    # Neighbouring numbers of 16 bits are further apart than the steps of a group.
    wide = xp.cast(x, "float32") if dtype.itemsize < 4 else x
    groups = _Groups(xp, coding, coding.grouped(xp, wide), dtype, shared, padding)
    codes, *parameters = ENCODERS[coding.kind](groups)
    words = coding.packed(xp, xp.reshape(codes, xp.shape_of(x)))
    return words, *[xp.cast(part, dtype) for part in parameters]


def coded(xp: Any, coding: Coding, x: Any, *parts: Any) -> Any:
    """The words of an array, given scales, and biases where there are any.

    Args:
        xp: The functions of the array's library.
        coding: What the codes mean; of a kind with integer codes, or a floating one.
        x: Floating numbers, whose last axis is of whole groups.
        parts: The scales, and biases.
    """
    groups = coding.grouped(xp, x)
    codes, _ = nearest(xp, coding, groups, *[xp.expand_dims(part, -1) for part in parts])
    return coding.packed(xp, xp.reshape(codes, xp.shape_of(x)))


def parameters_of(xp: Any, coding: Coding, x: Any, padding: int) -> list[Any]:
    """Return the scales, and any biases, of the groups of an array that ends with padding."""
    groups = _Groups(xp, coding, coding.grouped(xp, x), dtype_of(x), (), padding)
    return [*ENCODERS[coding.kind](groups)[1:]]


def nearest(xp: Any, coding: Coding, x: Any, scales: Any, *biases: Any) -> tuple[Any, Any]:
    """The codes of numbers with scales of their own, and what these stand for."""
    for bias in biases:
        x = x - bias
    share = x / xp.where(xp.equal(scales, 0), xp.ones_like(scales), scales)
    codes = _nearest(xp, coding, share)
    values = coding.values(xp, codes, dtype_name(dtype_of(x))) * scales
    for bias in biases:
        values = values + bias
    return codes, values


def _nearest(xp: Any, coding: Coding, share: Any) -> Any:
    """The codes of the numbers that are nearest."""
    if coding.kind in FLOATS:
        return float_codes(xp, coding.kind, share)
    if coding.kind == "affine":
        return xp.clip(xp.rint(share), 0, 2**coding.bits - 1)
    if coding.kind == "1bit":
        return xp.cast(share >= 0, dtype_of(share))
    if coding.kind == "nf4":
        return _normal_codes(xp, share)
    most = most_of(coding)
    return xp.clip(xp.rint(share), -most, most) + coding.zero


def _normal_codes(xp: Any, share: Any) -> Any:
    table = np.array(NORMAL_FLOATS, "float32")
    codes = xp.zeros_like(share)
    for middle in (table[1:] + table[:-1]) / 2:
        codes = codes + xp.cast(share > float(middle), dtype_of(share))
    return codes


def most_of(coding: Coding) -> float:
    """The largest number of a symmetric kind before it is scaled."""
    if coding.kind in LARGEST_OF:
        return LARGEST_OF[coding.kind]
    return 1 if coding.kind in {"ternary", "ternary5"} else 2 ** (coding.bits - 1) - 1


class _Groups(NamedTuple):
    """Groups of an array.

    Attributes:
        xp: The functions of the array's library.
        coding: What the codes mean.
        x: The groups, along the last axis.
        dtype: The array's dtype, and so the scales'.
        shared: Axes of the groups' parameters along which these are equal.
        padding: The number of zeros that were appended to fill the last group.
    """

    xp: Any
    coding: Coding
    x: Any
    dtype: Any
    shared: tuple[int, ...]
    padding: int

    def over(self, name: str, x: Any) -> Any:
        """Reduce each group, and what has its scale."""
        xp = self.xp
        y = getattr(xp, name)(x, -1)
        if not self.shared:
            return y
        return xp.broadcast_to(getattr(xp, name)(y, self.shared, keepdims=True), xp.shape_of(y))

    def mean(self) -> Any:
        """The mean magnitude of each group."""
        y, xp, size = self.over("mean", self.xp.abs(self.x)), self.xp, self.coding.group_size
        if not self.padding:
            return y
        last = xp.equal(xp.arange(xp.shape_of(y)[-1]), xp.shape_of(y)[-1] - 1)
        return xp.where(last, y * (size / (size - self.padding)), y)

    def largest(self) -> Any:
        """The largest magnitude of each group."""
        return self.over("max", self.xp.abs(self.x))


def _rounded(xp: Any, x: Any, dtype: Any) -> Any:
    """Numbers as the dtype that they are kept in has them, so that codes fit what is decoded."""
    return xp.cast(xp.cast(x, dtype), dtype_of(x)) if dtype != dtype_of(x) else x


def _affine(groups: _Groups) -> tuple[Any, ...]:
    """Quantize as MLX does: zero and the end of the range farther from it are exact.

    Every number has the error of half a step at most, plus that of the other end, of half a step.
    """
    xp, coding, x, dtype, *_ = groups
    most = 2**coding.bits - 1
    low, high = groups.over("min", x), groups.over("max", x)
    below = xp.abs(low) > xp.abs(high)
    step = xp.maximum((high - low) / most, TINY)
    step = xp.where(below, step, -step)
    edge = xp.where(below, low, high)
    # Zero is a whole number of steps from the end, so that it has a code.
    count = xp.rint(edge / step)
    hit = xp.not_equal(count, 0)
    step = xp.where(hit, edge / xp.where(hit, count, xp.ones_like(count)), step)
    step, bias = (_rounded(xp, y, dtype) for y in (step, xp.where(hit, edge, xp.zeros_like(edge))))
    codes = xp.rint((x - xp.expand_dims(bias, -1)) / xp.expand_dims(step, -1))
    return xp.clip(codes, 0, most), step, bias


def _shares(groups: _Groups, scales: Any) -> Any:
    """The elements of each group in terms of its scale."""
    xp = groups.xp
    divisor = xp.where(scales > 0, scales, xp.ones_like(scales))
    return groups.x / xp.expand_dims(divisor, -1)


def _normal_float(groups: _Groups) -> tuple[Any, ...]:
    """The nearest of 16 numbers times the largest magnitude of each group."""
    xp = groups.xp
    largest = _rounded(xp, groups.largest(), groups.dtype)
    return _normal_codes(xp, _shares(groups, largest)), largest


def _sign(groups: _Groups) -> tuple[Any, ...]:
    """The sign times the mean magnitude, which has the least square error; 0 counts as positive."""
    return groups.x >= 0, groups.mean()


def _symmetric(groups: _Groups) -> tuple[Any, ...]:
    """The nearest numbers of a scale by which the largest magnitude is the largest number."""
    xp, coding, *_ = groups
    scales = _rounded(xp, groups.largest() / most_of(coding), groups.dtype)
    return _nearest(xp, coding, _shares(groups, scales)), scales


def _ternary(groups: _Groups) -> tuple[Any, ...]:
    """The nearest of -1, 0 and 1 times the mean magnitude.

    Source: Ma et al., The era of 1-bit LLMs, arXiv:2402.17764, 2024.
    """
    xp, coding, *_ = groups
    scales = _rounded(xp, groups.mean(), groups.dtype)
    return _nearest(xp, coding, _shares(groups, scales)), scales


def float_codes(xp: Any, kind: str, x: Any) -> Any:
    """The codes of the nearest numbers of a narrow floating dtype, ties to even; saturating.

    A code is the sign, and the place of the magnitude among all, in order: so what is rounded up
    to the next power of two needs no care.
    """
    exponents, mantissas, bias = FLOATS[kind]
    size = xp.minimum(xp.abs(x), LARGEST_OF[kind])
    place, inverse = xp.zeros_like(size), xp.ones_like(size)
    for exponent in range(2 - bias, 2**exponents - bias):
        beyond = size >= 2.0**exponent
        place = place + xp.where(beyond, 2.0**mantissas, 0.0)
        inverse = inverse * xp.where(beyond, 0.5, 1.0)
    # Exact: powers of two alone are multiplied.
    place = place + xp.rint(size * inverse * 2.0 ** (bias - 1 + mantissas))
    return place + xp.where(x < 0, 2.0 ** (exponents + mantissas), 0.0)


ENCODERS: dict[str, Callable[[_Groups], tuple[Any, ...]]] = {
    "affine": _affine,
    "nf4": _normal_float,
    "1bit": _sign,
    "integer": _symmetric,
    "ternary": _ternary,
    "ternary5": _ternary,
    "w8a8": _symmetric,
    **dict.fromkeys(FLOATS, _symmetric),
}
