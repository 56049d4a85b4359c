"""Arrays of numbers as codes, scales and biases."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.implicit.quantized.coding import NORMAL_FLOATS, Coding
from graphc.implicit.treedef import dtype_of

TINY = 1e-7
"""The least scale of a group: MLX's, so that a group of equal numbers has one."""


def encode(xp: Any, coding: Coding, x: Any) -> tuple[Any, ...]:
    """Words, scales, and biases where there are any, of an array of whole groups.

    A group of zeros is exactly zero when it is decoded.

    Args:
        xp: The functions of the array's library.
        coding: What the codes mean.
        x: Floating numbers, whose last axis is of whole groups.
    """
    dtype = dtype_of(x)
    # Numbers in half width lie further apart than the steps that are to be found.
    wide = xp.cast(x, "float32") if dtype.itemsize < 4 else x
    groups = coding.grouped(xp, wide)
    codes, *parameters = ENCODERS[coding.kind](xp, coding, groups, dtype)
    words = coding.packed(xp, xp.reshape(codes, xp.shape_of(x)))
    return words, *[xp.cast(part, dtype) for part in parameters]


def _rounded(xp: Any, x: Any, dtype: Any) -> Any:
    """Numbers as the dtype that they are kept in has them, so that codes fit what is decoded."""
    return xp.cast(xp.cast(x, dtype), dtype_of(x)) if dtype != dtype_of(x) else x


def _affine(xp: Any, coding: Coding, x: Any, dtype: Any) -> tuple[Any, ...]:
    """Quantize as MLX does: zero and the end of the range farther from it are exact.

    Every number has the error of half a step at most, plus that of the other end, of half a step.
    """
    most = 2**coding.bits - 1
    low, high = xp.min(x, -1), xp.max(x, -1)
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


def _normal_float(xp: Any, coding: Coding, x: Any, dtype: Any) -> tuple[Any, ...]:
    """The nearest of 16 numbers times the largest magnitude of each group."""
    largest = _rounded(xp, xp.max(xp.abs(x), -1), dtype)
    divisor = xp.where(largest > 0, largest, xp.ones_like(largest))
    share = x / xp.expand_dims(divisor, -1)
    table = np.array(NORMAL_FLOATS, "float32")
    codes = xp.zeros_like(share)
    for middle in (table[1:] + table[:-1]) / 2:
        codes = codes + xp.cast(share > float(middle), dtype_of(share))
    return codes, largest


def _sign(xp: Any, coding: Coding, x: Any, dtype: Any) -> tuple[Any, ...]:
    """The sign times the mean magnitude, which has the least square error; 0 counts as positive."""
    return x >= 0, xp.mean(xp.abs(x), -1)


ENCODERS = {"affine": _affine, "nf4": _normal_float, "1bit": _sign}
