"""Slices along a padded axis: the elements move to the start of the buffer."""

from __future__ import annotations

from typing import Any

from graphc.link.padding.counts import (
    Count,
    as_count,
    as_known,
    bound,
    ceil_divide,
    is_known,
    least,
    most,
)
from graphc.link.padding.padded import as_node, extend, index_axis, indices, shape_of
from graphc.rewrite.loops.windows import ReadWindow
from graphc.tensor.arrays.index import BACKWARDS, HOLE, Range
from graphc.tensor.core.elementwise import cast, maximum, minimum, where
from graphc.tensor.core.tensor import Tensor


def take(buffer: Tensor, positions: Tensor, axis: int) -> Tensor:
    """Return elements along an axis; a position outside the buffer reads the nearest element."""
    return index_axis(buffer, axis, HOLE, clamp(positions, shape_of(buffer)[axis]))


def clamp(i: Tensor, n: Any) -> Tensor:
    """Return indices limited to an axis of length n."""
    return maximum(minimum(i, as_node(n - 1)), 0)


def shift(buffer: Tensor, start: Any, count: Any, axis: int) -> Tensor:
    """Drop the elements before an index, and cut the buffer to the largest count.

    Args:
        buffer: The elements, followed by padding.
        start: The index, between 0 and the axis's length: a known integer or a count.
        count: The number of elements that are needed: a known integer or a count.
        axis: The axis.
    """
    if is_known(start):
        return index_axis(buffer, axis, Range(int(start), None)) if int(start) else buffer
    size, n = buffer.type.shape[axis], bound(count)
    if size is None or not isinstance(n, int):
        return take(buffer, indices(n) + start.node, axis)
    # A window from the largest start on must end within the buffer.
    buffer = extend(buffer, {axis: max(size, min(start.high, size) + n)})
    return Tensor.make(ReadWindow(axis, n), buffer, start.node)


def slice_buffer(buffer: Tensor, n: Any, axis: int, entry: slice) -> tuple[Tensor, Any]:
    """Slice a buffer along an axis.

    Args:
        buffer: The elements, followed by padding.
        n: The axis's length.
        axis: The axis.
        entry: The slice, whose bounds may be counts.

    Returns:
        The new buffer, and its length along the axis.
    """
    start, count, step = slice_span(entry, n)
    if (entry.start, entry.stop, step) == (None, None, -1):
        first = shape_of(buffer)[axis] - n
        return shift(index_axis(buffer, axis, BACKWARDS), first, n, axis), n
    if step == 1:
        return shift(buffer, start, count, axis), count
    if step > 1 and is_known(start):
        return index_axis(buffer, axis, Range(int(start), None, step)), count
    if buffer.type.shape[axis] == 0:
        return buffer, 0
    positions = as_node(start) + indices(bound(count)) * step
    return take(buffer, positions, axis), count


def slice_span(entry: slice, n: Any) -> tuple[Any, Any, int]:
    """Return the first index of a slice, its element count and its step.

    Args:
        entry: The slice, whose bounds may be counts.
        n: The axis's length.
    """
    step = entry.step or 1
    if step < 0:
        last = n - 1
        start = _clip(entry.start, last, n, -1, last)
        stop = _clip(entry.stop, -1, n, -1, last)
        return start, ceil_divide(most(start - stop, 0), -step), step
    start = _clip(entry.start, 0, n, 0, n)
    stop = _clip(entry.stop, n, n, 0, n)
    count = most(stop - start, 0)
    if entry.stop is None and is_known(entry.start) and entry.start < 0:
        count = least(n, -entry.start)
    return start, ceil_divide(count, step), step


def _clip(i: Any, default: Any, n: Any, lowest: int, highest: Any) -> Any:
    """Return a bound of a slice counted from the start, between ``lowest`` and ``highest``."""
    if i is None:
        return default
    i = as_count(i)
    if i.low >= 0:
        return least(as_known(i), highest)
    if i.high < 0:
        return most(n + as_known(i), lowest)
    limit = as_count(highest)
    value = minimum(maximum(from_start(i.node, n), lowest), limit.node)
    return Count(value, lowest, limit.high, limit=limit.limit)


def from_start(i: Tensor, n: Any) -> Tensor:
    """Return indices, of which negative ones count from the end, as counted from the start."""
    i = cast(i, "int64")
    return where(i < 0, i + as_node(n), i)
