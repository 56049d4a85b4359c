"""Indexing with unknown lengths: a slice shifts the buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.bounded import (
    Lowering,
    align_lengths,
    at_least,
    inner,
    make_ragged,
    outside,
    rule,
    unknown_length_error,
)
from graphc.link.jax.counts import (
    Count,
    as_count,
    as_static,
    bound,
    every,
    is_known,
    least,
    minus,
    most,
    plain,
    plus,
)
from graphc.tensor.arrays.index import EVERYTHING, HOLE, Entry, Hole, Index, Range

ZERO = np.asarray(0, np.int64)


@dataclass(frozen=True)
class AxisIndex:
    """The entry of an index for one axis of an array, or for a new axis.

    Attributes:
        entry: None for a new axis, an integer, a slice whose bounds may be counts, or an array.
        axis: The array's axis, or None for a new axis.
        symbolic: The position of an index array among the symbolic operands.
    """

    entry: Any
    axis: int | None = None
    symbolic: int | None = None

    @property
    def is_array(self) -> bool:
        """Whether the entry is an index array."""
        return self.symbolic is not None

    @property
    def is_static(self) -> bool:
        """Whether the entry's numbers are known while JAX traces."""
        if not isinstance(self.entry, slice):
            return True
        return all(n is None or is_known(n) for n in (self.entry.start, self.entry.stop))

    @property
    def is_all(self) -> bool:
        """Whether the entry is ``:``, the full axis."""
        if not isinstance(self.entry, slice):
            return False
        return self.entry.start is self.entry.stop is None and self.entry.step in {None, 1}

    @property
    def static_entry(self) -> Entry:
        """The entry with known integers as bounds; a ``HOLE`` for an index array."""
        if self.is_array:
            return HOLE
        if not isinstance(self.entry, slice):
            return self.entry  # type: ignore[no-any-return]
        bounds = (self.entry.start, self.entry.stop, self.entry.step)
        return Range(*[None if n is None else int(n) for n in bounds])


def axis_indices(node: Node, entries: Sequence[Entry], symbolic: Sequence[Any]) -> list[AxisIndex]:
    """Return the entries of an index, with its symbolic numbers and arrays filled in."""
    operands = iter(enumerate(symbolic))
    indices: list[AxisIndex] = []
    axis = 0
    for entry in entries:
        if entry is None:
            indices.append(AxisIndex(None))
            continue
        if isinstance(entry, Hole):
            position, value = next(operands)
            if value.dtype == bool:
                raise unknown_length_error(node)
            indices.append(AxisIndex(value, axis, position))
        elif isinstance(entry, Range):
            bounds = [next(operands)[1] if isinstance(p, Hole) else p for p in entry.parts]
            if bounds[2] is not None and not (is_known(bounds[2]) and int(bounds[2])):
                raise unknown_length_error(node)
            indices.append(AxisIndex(slice(*bounds), axis))
        else:
            indices.append(AxisIndex(entry, axis))
        axis += 1
    return indices


@rule(Index)
def ragged_index(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Slice along the axes of unknown lengths first, then index as usual."""
    op: Any = node.op
    x, *symbolic = values
    indices = axis_indices(node, op.entries, symbolic)
    buffer, lengths = inner(x), list(x.shape)
    entries: list[Entry] = []
    for index in indices:
        axis = index.axis
        if axis is None or index.is_array or (index.is_static and is_known(lengths[axis])):
            entries.append(index.static_entry)
        elif isinstance(index.entry, slice):
            if not index.is_all:
                buffer, lengths[axis] = slice_buffer(buffer, lengths[axis], axis, index.entry)
            entries.append(EVERYTHING)
        else:
            start = checked_position(node, index.entry, lengths[axis])
            buffer, lengths[axis] = lax.dynamic_slice_in_dim(buffer, start, 1, axis), 1
            entries.append(0)
    pairs, shape = gather_index_arrays(node, indices, lengths, node.inputs[1:])
    arrays = [jnp.clip(i, 0, jnp.maximum(as_count(n).value - 1, 0)) for i, n in pairs]
    static = Index(tuple(entries))
    return make_ragged(lowering(static, buffer, *arrays), shape_of(static, buffer, lengths, shape))


def shape_of(op: Index, buffer: Any, lengths: Sequence[Any], shape: Sequence[Any]) -> Sequence[Any]:
    """Return the shape of a result, in which a full axis keeps its ragged length."""
    result: list[Any] = []
    axis = 0
    for entry in op.entries:
        if isinstance(entry, Range):
            bounds: Any = entry.parts
            n = len(range(buffer.shape[axis])[slice(*bounds)])
            result.append(lengths[axis] if entry == EVERYTHING else n)
        elif entry is None:
            result.append(1)
        axis += entry is not None
    if any(isinstance(entry, Hole) for entry in op.entries):
        position = op.array_axis()
        result[position:position] = shape
    return result


def gather_index_arrays(
    node: Node,
    indices: Sequence[AxisIndex],
    lengths: Sequence[Any],
    nodes: Sequence[Node],
) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Return pairs of an index array and its axis's length, and the arrays' common shape.

    The arrays count from the start; ``nodes`` are the nodes of the symbolic operands.
    """
    entries = [index for index in indices if index.is_array]
    if not entries:
        return [], []
    owners = [nodes[index.symbolic] for index in entries]  # type: ignore[index]
    arrays, shape = align_lengths(node, [as_array(index.entry) for index in entries], owners)
    pairs = []
    for index, i in zip(entries, arrays, strict=True):
        n = lengths[index.axis]  # type: ignore[index]
        if i.ndim == 0 or 0 not in inner(i).shape:
            at_least(n, 1, outside(node, 0))
        pairs.append((_from_start(inner(i), n), n))
    return pairs, shape


def as_array(i: Any) -> Any:
    return jnp.asarray(i.value) if isinstance(i, Count) else i


def checked_position(node: Node, i: int, n: Any) -> Any:
    """Return a static index counted from the start, after a check against the length."""
    at_least(n, i + 1 if i >= 0 else -i, outside(node, i))
    return as_count(i if i >= 0 else plus(n, np.asarray(i, np.int64))).value


def _from_start(i: Any, n: Any) -> Any:
    i = lax.convert_element_type(plain(i), np.int64)
    return jnp.where(i < 0, i + as_count(n).value, i)


def _clip(i: Any, default: Any, n: Any, lowest: int, highest: Any) -> Any:
    """Return a bound of a slice counted from the start, between ``lowest`` and ``highest``."""
    if i is None:
        return default
    i = as_count(i)
    if i.low >= 0:
        return least(as_static(i), highest)
    if i.high < 0:
        return most(plus(n, as_static(i)), np.asarray(lowest, np.int64))
    limit = as_count(highest)
    return Count(jnp.clip(_from_start(i, n), lowest, limit.value), lowest, limit.high)


def slice_span(entry: slice, n: Any) -> tuple[Any, Any, int]:
    """Return the first index of a slice, its element count and its step."""
    step = 1 if entry.step is None else int(entry.step)
    if step < 0:
        last = minus(n, 1)
        start = _clip(entry.start, last, n, -1, last)
        stop = _clip(entry.stop, np.asarray(-1, np.int64), n, -1, last)
        return start, every(most(minus(start, stop), ZERO), -step), step
    start = _clip(entry.start, ZERO, n, 0, n)
    stop = _clip(entry.stop, as_static(as_count(n)), n, 0, n)
    count = most(minus(stop, start), ZERO)
    if entry.stop is None and is_known(entry.start) and entry.start < 0:
        count = least(n, np.asarray(-entry.start, np.int64))
    return start, every(count, step), step


def slice_buffer(buffer: Any, n: Any, axis: int, entry: slice) -> tuple[Any, Any]:
    """Slice a buffer along an axis of length n; return the new buffer and its length."""
    start, count, step = slice_span(entry, n)
    if (entry.start, entry.stop, step) == (None, None, -1):
        first = minus(np.asarray(buffer.shape[axis], np.int64), n)
        return shift(lax.rev(buffer, (axis,)), first, as_static(as_count(n)), axis), n
    length = bound(count)
    if step < 0 or (step > 1 and not is_known(start)):
        positions = as_count(start).value + step * lax.iota(np.int64, length)
        positions = jnp.clip(positions, 0, max(buffer.shape[axis] - 1, 0))
        if not buffer.shape[axis]:
            return buffer, ZERO
        return jnp.take(buffer, positions, axis, mode="clip"), count
    if step == 1:
        return shift(buffer, start, count, axis), count
    buffer = shift(buffer, start, as_static(as_count(buffer.shape[axis])), axis)
    return lax.slice_in_dim(buffer, 0, buffer.shape[axis], step, axis), count


def shift(buffer: Any, start: Any, count: Any, axis: int) -> Any:
    """Drop the elements before an index, and cut the buffer to the largest count."""
    length = buffer.shape[axis]
    if is_known(start):
        return lax.slice_in_dim(buffer, min(int(start), length), length, axis=axis)
    n = bound(count)
    if not is_known(count):
        # JAX shifts back a slice that exceeds the buffer.
        sides = [(0, n if i == axis else 0, 0) for i in range(buffer.ndim)]
        buffer = lax.pad(buffer, np.zeros((), buffer.dtype), sides)
    return lax.dynamic_slice_in_dim(buffer, start.value, n, axis)
