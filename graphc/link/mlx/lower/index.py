"""Indexing: views, one copy of parts that run backwards, gathers and scatters.

MLX has miscompiled operations that read an array of negative strides, so no operation sees one: a
part that runs backwards is copied at once, and a value that is written backwards is reversed, by a
copy, before it is written. Positive steps stay views.

MLX checks no index. Indices on the host are checked here. Other indices are clipped in reads, and
ignored in writes if they are out of bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.link.mlx.arrays import contiguous, device_array
from graphc.link.mlx.backend import backend
from graphc.link.mlx.devices import device_choice
from graphc.rewrite.loops.windows import ReadWindow, WriteWindow
from graphc.tensor.arrays.index import Index, IndexUpdate, Nonzero, selection
from graphc.tensor.arrays.select import CheckedIndices
from graphc.tensor.core.shape import target_shape

Ranges = Sequence[range]
"""Indices of each axis."""


@backend.lower(Index)
def getitem(op: Index, x: Any, *symbolic: Any) -> Any:
    """Return slices for a basic index; gather for index arrays."""
    x = device_array(x)
    index = ResolvedIndex.of(op, x.shape, symbolic)
    x = squeeze_axes(part_of(x, index.ranges), index.dropped)
    if index.arrays:
        x = gather(x, index)
    return mx.expand_dims(x, index.new) if index.new else x


@backend.lower(IndexUpdate)
def update(op: IndexUpdate, x: Any, value: Any, *symbolic: Any) -> Any:
    """Write a slice for a basic index; scatter for index arrays, whose repeated indices add up."""
    x = device_array(x)
    index = ResolvedIndex.of(op, x.shape, symbolic)
    value = index.align_value(device_array(value))
    ranges = [ascending(indices) for indices in index.ranges]
    write = add_to_part if op.accumulate else replace_part
    if index.arrays:
        part = squeeze_axes(part_of(x, ranges), index.dropped)
        value, write = scatter(part, index, value, op.accumulate), replace_part
    return write(x, ranges, mx.expand_dims(value, index.dropped) if index.dropped else value)


# The values decide a shape: NumPy computes it between compiled segments.
backend.lower(Nonzero)(Nonzero.perform)


@backend.lower(CheckedIndices)
def checked_indices(op: CheckedIndices, i: Any, n: Any) -> Any:
    """Return indices; those on the host are checked."""
    if isinstance(i, np.ndarray | np.generic) and isinstance(n, np.ndarray | np.generic):
        return op.perform(np.asarray(i), np.asarray(n))
    shape = np.broadcast_shapes(i.shape, n.shape)
    return i if i.shape == shape else mx.broadcast_to(device_array(i), shape)


# Basic indices: integers, slices and new axes.


def as_slice(indices: range) -> slice:
    """Return the slice that takes these indices."""
    if not indices:
        return slice(0, 0, 1)
    end = indices[-1] + (1 if indices.step > 0 else -1)
    return slice(indices[0], None if end < 0 else end, indices.step)


def ascending(indices: range) -> range:
    """Return the same indices in ascending order."""
    return indices[::-1] if indices.step < 0 else indices


def is_whole(x: Any, ranges: Ranges) -> bool:
    """Return whether the ranges take all elements of an array, in order."""
    return all(indices == range(n) for indices, n in zip(ranges, x.shape, strict=True))


def part_of(x: Any, ranges: Ranges) -> Any:
    """Return the elements in ranges: a view, or one copy if a range runs backwards."""
    if is_whole(x, ranges):
        return x
    part = x[tuple(map(as_slice, ranges))]
    return part if all(indices.step > 0 for indices in ranges) else contiguous(part)


def replace_part(x: Any, ranges: Ranges, value: Any) -> Any:
    """Return an array with the elements in ascending ranges replaced."""
    value = broadcast_value(value, ranges)
    if not all(ranges):
        return x
    if is_whole(x, ranges):
        return value
    # A new handle: an assignment changes the handle's array, and x keeps its own.
    y = x[...]
    y[tuple(map(as_slice, ranges))] = value
    return y


def add_to_part(x: Any, ranges: Ranges, value: Any) -> Any:
    """Return an array with a value added to the elements in ascending ranges; bool is "or"."""
    value = broadcast_value(value, ranges)
    if not all(ranges):
        return x
    if is_whole(x, ranges):
        return x | value if x.dtype == mx.bool_ else x + value
    if x.dtype == mx.bool_:
        return replace_part(x, ranges, part_of(x, ranges) | value)
    return x.at[tuple(map(as_slice, ranges))].add(value)


def broadcast_value(value: Any, ranges: Ranges) -> Any:
    """Return a value in the shape of ranges; raise if it does not broadcast."""
    shape = tuple(map(len, ranges))
    return value if value.shape == shape else mx.broadcast_to(value, shape)


def squeeze_axes(x: Any, axes: Sequence[int]) -> Any:
    return mx.squeeze(x, axes) if axes else x


@dataclass(frozen=True)
class ResolvedIndex:
    """An index of an array of known lengths.

    Attributes:
        ranges: Indices of slices and integers for each axis; all indices for an index array.
        dropped: Axes that an integer indexes.
        new: New axes of the result.
        arrays: Index arrays, by the axis that they index without the dropped axes.
        depth: Number of axes of the broadcast index arrays.
        first: Position of these axes in the result without its new axes.
    """

    ranges: Ranges
    dropped: tuple[int, ...]
    new: tuple[int, ...]
    arrays: Mapping[int, Any]
    depth: int
    first: int

    @classmethod
    def of(
        cls, op: Index | IndexUpdate, lengths: Sequence[int], symbolic: Sequence[Any]
    ) -> ResolvedIndex:
        """Return the index of an operation, given its symbolic entries.

        Raises:
            IndexError: If an integer on the host is out of bounds.
        """
        ranges: list[range] = []
        dropped: list[int] = []
        arrays: dict[int, Any] = {}
        is_slice: list[bool] = []
        for entry in selection(op.entries, symbolic):
            if entry is None:
                is_slice.append(False)
                continue
            axis, indices = len(ranges), range(lengths[len(ranges)])
            if isinstance(entry, slice):
                is_slice.append(True)
                indices = indices[entry]
            elif is_number(entry):
                dropped.append(axis)
                i = normalize_index(int(entry), len(indices), axis)
                indices = indices[i : i + 1]
            else:
                arrays[axis - len(dropped)] = check_indices(entry, len(indices), axis)
            # A single index has no direction.
            ranges.append(indices if len(indices) > 1 else ascending(indices))
        first = Index(op.entries).array_axis() if arrays else 0
        depth = max((x.ndim for x in arrays.values()), default=0)
        new = tuple(i + depth * (i >= first) for i, flag in enumerate(is_slice) if not flag)
        return cls(ranges, tuple(dropped), new, arrays, depth, sum(is_slice[:first]))

    def align_value(self, value: Any) -> Any:
        """Return a value for the part, without new axes, for ascending indices."""
        kept = [indices for axis, indices in enumerate(self.ranges) if axis not in self.dropped]
        sliced = [indices for axis, indices in enumerate(kept) if axis not in self.arrays]
        sides = sliced[: self.first], sliced[self.first :]
        ndim = len(sliced) + self.depth
        missing = ndim + len(self.new) - value.ndim
        value = mx.expand_dims(value, tuple(range(missing))) if missing else value
        value = squeeze_axes(value, self.new)
        whole = [range(n) for n in value.shape]
        steps = [indices.step for indices in (*sides[0], *[range(1)] * self.depth, *sides[1])]
        # A broadcast axis is the same in either direction.
        return part_of(
            value,
            [
                indices[::-1] if step < 0 and len(indices) > 1 else indices
                for indices, step in zip(whole, steps, strict=True)
            ],
        )


def is_number(entry: Any) -> bool:
    """Return whether an entry is an integer on the host."""
    return isinstance(entry, int) or (isinstance(entry, np.ndarray | np.generic) and not entry.ndim)


def normalize_index(i: int, n: int, axis: int) -> int:
    """Return an index of an axis counted from its start.

    Raises:
        IndexError: If the index is out of bounds.
    """
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for axis {axis} of length {n}")
    return i % n


def check_indices(indices: Any, n: int, axis: int) -> Any:
    """Return indices of an axis; check those on the host.

    Raises:
        IndexError: If an index on the host is out of bounds.
    """
    if isinstance(indices, np.ndarray) and indices.size:
        normalize_index(int(indices.min()), n, axis)
        normalize_index(int(indices.max()), n, axis)
    return indices


# Index arrays: an index of arrays and full slices only is MLX's ``x[key]``.


@dataclass(frozen=True)
class ArrayKey:
    """Index arrays whose indices are all within bounds.

    Attributes:
        entries: An index array or the full slice for each axis of the array.
        shape: Shape of the broadcast index arrays.
        first: Position of their axes in MLX's result.
        inside: Mask of indices that were within bounds; None if all are known to be.
    """

    entries: tuple[Any, ...]
    shape: tuple[int, ...]
    first: int
    inside: Any

    @classmethod
    def of(cls, arrays: Mapping[int, Any], lengths: Sequence[int]) -> ArrayKey:
        """Return the key for an array whose indexed axes are not empty."""
        entries: list[Any] = [slice(None)] * len(lengths)
        inside = None
        for axis, indices in arrays.items():
            entries[axis], within = normalize_indices(indices, lengths[axis])
            inside = within if inside is None else inside if within is None else inside & within
        shape = np.broadcast_shapes(*[x.shape for x in arrays.values()])
        axes = [*arrays]
        are_adjacent = axes == [*range(axes[0], axes[-1] + 1)]
        return cls(tuple(entries), shape, axes[0] if are_adjacent else 0, inside)

    @property
    def index(self) -> tuple[Any, ...]:
        """The entries up to the last array: MLX fails to scatter with slices behind it."""
        arrays = [i for i, entry in enumerate(self.entries) if not isinstance(entry, slice)]
        return self.entries[: arrays[-1] + 1]

    def result_shape(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the indexed elements of an array of these lengths."""
        pairs = zip(lengths, self.entries, strict=True)
        sliced = [n for n, entry in pairs if isinstance(entry, slice)]
        return (*sliced[: self.first], *self.shape, *sliced[self.first :])

    def mask(self) -> Any:
        """Return the mask of indices within bounds, to broadcast against the elements."""
        behind = sum(isinstance(entry, slice) for entry in self.entries) - self.first
        inside = mx.broadcast_to(self.inside, self.shape)
        return mx.reshape(inside, (*self.shape, *[1] * behind))


def scalar_like(n: int, like: Any) -> Any:
    """Return a length as an array: for each literal, MLX would compile another kernel."""
    return mx.full((), n, like.dtype)


def normalize_indices(indices: Any, n: int) -> tuple[Any, Any]:
    """Return indices of an axis of length n, counted from its start, and a mask of those in bounds.

    The mask is None for indices on the host, which have been checked.
    """
    is_on_host = isinstance(indices, np.ndarray)
    i = device_array(indices)
    i = i.astype(mx.int32) if i.dtype.size < 4 else i
    is_signed = mx.issubdtype(i.dtype, mx.signedinteger)
    if is_signed and (not is_on_host or (indices < 0).any()):
        from_start = mx.where(i < 0, i + scalar_like(n, i), i)
    else:
        from_start = i
    if is_on_host:
        return from_start.astype(mx.int32), None
    # Computed from the original indices, so that each result is one kernel.
    inside = i < scalar_like(n, i)
    if is_signed:
        from_start, inside = mx.maximum(from_start, 0), inside & (i >= scalar_like(-n, i))
    return mx.minimum(from_start, scalar_like(n - 1, i)).astype(mx.int32), inside


def move_axes(x: Any, depth: int, source: int, target: int) -> Any:
    """Move ``depth`` adjacent axes to another position among the others."""
    if source == target or not depth:
        return x
    block = [*range(source, source + depth)]
    rest = [axis for axis in range(x.ndim) if axis not in block]
    return mx.transpose(x, (*rest[:target], *block, *rest[target:]))


def gather(x: Any, index: ResolvedIndex) -> Any:
    """Return the elements of an array that index arrays take.

    Raises:
        IndexError: If the index arrays take elements of an empty axis.
    """
    empty_axes = [axis for axis in index.arrays if not x.shape[axis]]
    key = ArrayKey.of(index.arrays, x.shape)
    shape = key.result_shape(x.shape)
    if 0 not in shape and empty_axes:
        raise IndexError(f"an index is out of bounds for axis {empty_axes[0]} of length 0")
    if 0 in shape:
        y = mx.zeros(shape, x.dtype)
    elif len(index.arrays) == 1:
        y = mx.take(x, key.entries[key.first], key.first)
    else:
        y = x[key.index]
    return move_axes(y, index.depth, key.first, index.first)


def scatter(x: Any, index: ResolvedIndex, value: Any, accumulate: bool) -> Any:
    """Return an array with the elements of index arrays replaced, or with a value added to them."""
    key = ArrayKey.of(index.arrays, x.shape)
    if 0 in x.shape or 0 in key.shape:
        return x
    value = move_axes(value, index.depth, index.first, key.first)
    is_on_cpu = x.dtype.size == 8 and not device_choice("scatters 64 bits")
    with mx.stream(mx.cpu) if is_on_cpu else nullcontext():
        if accumulate:
            return add_at(x, key, value)
        if key.inside is None:
            return set_at(x, key, value)
        if math.prod(key.shape) == 1:
            return set_at(x, key, mx.where(key.mask(), value, x[key.index]))
        return part_of(set_at(*append_spare(x, key), value), [range(n) for n in x.shape])


def set_at(x: Any, key: ArrayKey, value: Any) -> Any:
    """Return an array with elements replaced."""
    y = x[...]
    y[key.index] = value
    return y


def add_at(x: Any, key: ArrayKey, value: Any) -> Any:
    """Return an array with a value added to elements within bounds; bool is "or"."""
    if key.inside is not None:
        value = mx.where(key.mask(), value, mx.zeros((), x.dtype))
    to = x.at[key.index]
    return to.maximum(value) if x.dtype == mx.bool_ else to.add(value)


def append_spare(x: Any, key: ArrayKey) -> tuple[Any, ArrayKey]:
    """Append an element to an axis, which indices out of bounds then address."""
    entries = [*key.entries]
    axis = next(i for i, entry in enumerate(entries) if not isinstance(entry, slice))
    entries[axis] = mx.where(key.inside, entries[axis], scalar_like(x.shape[axis], entries[axis]))
    spare = mx.zeros([1 if i == axis else n for i, n in enumerate(x.shape)], x.dtype)
    return mx.concatenate([x, spare], axis), replace(key, entries=tuple(entries))


@backend.lower(ReadWindow)
def read_window(op: ReadWindow, x: Any, start: Any, *size: Any) -> Any:
    sizes = list(x.shape)
    (sizes[op.axis],) = target_shape((op.size,), size)
    limit = x.shape[op.axis] - sizes[op.axis]
    return mx.slice(device_array(x), _start(start, limit), (op.axis,), sizes)


@backend.lower(WriteWindow)
def write_window(op: WriteWindow, x: Any, window: Any, start: Any) -> Any:
    limit = x.shape[op.axis] - window.shape[op.axis]
    return mx.slice_update(device_array(x), device_array(window), _start(start, limit), (op.axis,))


def _start(start: Any, limit: int) -> Any:
    """Return a start within the array: MLX crashes outside, where a check fails after the run."""
    return mx.reshape(mx.clip(device_array(start), 0, limit).astype(mx.int32), (1,))
