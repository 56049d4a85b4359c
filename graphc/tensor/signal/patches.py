"""Windows of arrays, and elements added between and around others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.join import concatenate, stack
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.shape import length, lengths, reshape
from graphc.tensor.core.tensor import Tensor

MOST = 1024
"""The most elements of a window, as the graph has a part for each."""


def pad_or_crop(x: Tensor, axis: int, padding: tuple[Any, Any], value: Tensor) -> Tensor:
    """Add elements before and behind an axis; remove some where a number is negative."""

    def block(n: Any) -> list[Tensor]:
        if isinstance(n, int) and n <= 0:
            return []
        shape = [n if i == axis else length(x, i) for i in range(x.ndim)]
        return [broadcast_to(value, tuple(shape))]

    low, high = padding
    pieces = [*block(low), x, *block(high)]
    wide = concatenate(pieces, axis=axis) if len(pieces) > 1 else x
    cut = [-n if isinstance(n, int) and n < 0 else 0 for n in padding]
    if not any(cut):
        return wide
    selection = slice(cut[0], length(wide, axis) - cut[1])
    return wide[(*[slice(None)] * axis, selection)]


def dilate(x: Tensor, axis: int, interior: int, value: Tensor) -> Tensor:
    """Insert elements between those along an axis."""
    n, shape = length(x, axis), lengths(x)
    gaps = broadcast_to(value, (*shape[: axis + 1], interior, *shape[axis + 1 :]))
    together = concatenate([expand_dims(x, axis + 1), gaps], axis=axis + 1)
    flat = reshape(together, (*shape[:axis], n * (interior + 1), *shape[axis + 1 :]))
    return flat[(*[slice(None)] * axis, slice(0, n * (interior + 1) - interior))]


def patches(
    x: Tensor, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Tensor:
    """Return all windows of an array, along its first axes.

    Returns:
        The windows' elements in row-major order along a new axis 0; then the window's
        position along each axis of ``sizes``; then the axes beyond.
    """
    counts = []
    for axis, (size, stride, dilation) in enumerate(zip(sizes, strides, dilations, strict=True)):
        counts.append((length(x, axis) - (size - 1) * dilation - 1) // stride + 1)
    elements = []
    for corner in itertools.product(*map(range, sizes)):
        cuts = []
        for at, n, stride, dilation in zip(corner, counts, strides, dilations, strict=True):
            begin = at * dilation
            cuts.append(slice(begin, begin + (n - 1) * stride + 1, stride))
        elements.append(x[tuple(cuts)])
    return stack(elements)
