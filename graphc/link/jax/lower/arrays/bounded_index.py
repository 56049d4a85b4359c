"""Indexing with unknown lengths: slices shift buffers, updates use masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import Node, TensorType, dtype_name
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Count,
    Lowering,
    Ragged,
    agree,
    aligned,
    arrays,
    as_count,
    at_least,
    bound,
    every,
    is_known,
    least,
    minus,
    most,
    outside,
    plain,
    plus,
    ragged,
    refused,
    rule,
    settled,
    unequal,
    whole,
)
from graphc.tensor.arrays.index import Hole, Index, IndexUpdate, Range

EVERYTHING = Range()
MARK = 2**62
"""A length that no array has."""


@dataclass(frozen=True)
class RaggedIndex:
    """An index split into its part along the axis of unknown length, and the rest.

    Attributes:
        axis: That axis of the array; None where all lengths and bounds are known.
        entry: What stands there: an integer, an array, or a slice whose parts may be counts.
        rest: The index with all of that axis.
        symbolic: The values of the holes of the rest.
        place: Where the axis stands in the result of the rest.
    """

    axis: int | None
    entry: Any
    rest: Index
    symbolic: tuple[Any, ...]
    place: int

    @classmethod
    def of(
        cls, node: Node, op: Index | IndexUpdate, x: Any, symbolic: Sequence[Any]
    ) -> RaggedIndex:
        """Split the index of an array with a ``Count`` among lengths or index entries."""
        parts, own = _filled_entries(op, symbolic)
        dynamic = {x.axis} if isinstance(x, Ragged) else set()
        axes = [i for i, entry in enumerate(op.entries) if entry is not None]
        for axis, i in enumerate(axes):
            if isinstance(parts[i], slice) and not _is_known_slice(parts[i]):
                dynamic.add(axis)
        if not dynamic:
            return cls(None, None, Index(op.entries), tuple(symbolic), 0)
        if len(dynamic) > 1:
            raise refused(node)
        (axis,) = dynamic
        i = axes[axis]
        rest = Index((*op.entries[:i], EVERYTHING, *op.entries[i + 1 :]))
        left = tuple(v for k, values in enumerate(own) if k != i for v in values)
        lengths = [MARK if k == axis else n for k, n in enumerate(x.shape)]
        kinds = [TensorType(dtype_name(v.dtype), _static(v.shape)) for v in left]
        shape = rest.infer(TensorType("bool", tuple(lengths)), *kinds).shape
        return cls(axis, parts[i], rest, left, shape.index(MARK))


def _filled_entries(
    op: Index | IndexUpdate, symbolic: Sequence[Any]
) -> tuple[list[Any], list[list[Any]]]:
    """Return the entries with their symbolic parts filled in, and these values."""
    left = iter(symbolic)
    parts: list[Any] = []
    own: list[list[Any]] = []
    for entry in op.entries:
        holes = [isinstance(p, Hole) for p in entry.parts] if isinstance(entry, Range) else []
        values = [next(left) for _ in range(sum(holes) + isinstance(entry, Hole))]
        own.append(values)
        if isinstance(entry, Range):
            given = iter(values)
            pairs = zip(entry.parts, holes, strict=True)
            parts.append(slice(*[next(given) if hole else part for part, hole in pairs]))
        else:
            parts.append(values[0] if isinstance(entry, Hole) else entry)
    return parts, own


def _static(shape: Sequence[Any]) -> tuple[int | None, ...]:
    return tuple(None if isinstance(n, Count) else int(n) for n in shape)


def _is_known_slice(entry: slice) -> bool:
    return all(p is None or is_known(p) for p in (entry.start, entry.stop, entry.step))


def _inner(x: Any) -> Any:
    return x.buffer if isinstance(x, Ragged) else jnp.asarray(plain(x))


@rule(Index)
def part_of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Index along the axis of unknown length first, then along the others."""
    op: Any = node.op
    x, *symbolic = values
    if any(isinstance(i, Ragged) for i in symbolic):
        return _gathered(node, lowering, x, symbolic)
    along = RaggedIndex.of(node, op, x, symbolic)
    axis, entry = along.axis, along.entry
    if axis is None:
        return lowering(op, *arrays(node, values))
    rest = [plain(i) for i in along.symbolic]
    n = x.shape[axis]
    if isinstance(entry, slice):
        buffer, count = _sliced(node, _inner(x), n, axis, entry)
        return ragged(lowering(along.rest, buffer, *rest), count, along.place)
    if isinstance(entry, int):
        element = lax.dynamic_slice_in_dim(_inner(x), _place(node, entry, n), 1, axis)
        entries = list(op.entries)
        entries[[i for i, e in enumerate(entries) if e is not None][axis]] = 0
        return lowering(Index(tuple(entries)), element, *rest)
    return lowering(
        op, _inner(x), *[_from_start(i, n) if i is entry else plain(i) for i in symbolic]
    )


def _gathered(node: Node, lowering: Lowering, x: Any, symbolic: Sequence[Any]) -> Any:
    """Gather by index arrays of which at least one has an unknown length."""
    op: Any = node.op
    found, count, axis = _index_arrays(node, op, x, symbolic, node.inputs[1:], 0)
    return ragged(lowering(op, _inner(x), *found), count, op.place() + axis)


def _index_arrays(
    node: Node,
    op: Index | IndexUpdate,
    x: Any,
    symbolic: Sequence[Any],
    known: Sequence[Node],
    fill: int | None,
) -> tuple[list[Any], Any, int]:
    """Align index arrays; return them, their count, and its axis in the result.

    Args:
        node: What indexes.
        op: The index.
        x: The array.
        symbolic: The index arrays.
        known: The nodes that these are the values of.
        fill: What stands where there is no index; by default a place that the array does not have.
    """
    axes = [i for i, e in enumerate(e for e in op.entries if e is not None) if isinstance(e, Hole)]
    if op.host_inputs() or (isinstance(x, Ragged) and x.axis not in axes):
        raise refused(node)
    ndim = max(i.ndim for i in symbolic)
    spots = {i.axis - i.ndim for i in symbolic if isinstance(i, Ragged)}
    if len(spots) > 1:
        raise refused(node)
    (spot,) = spots
    along = [
        i.ndim + spot if i.ndim >= -spot and of.type.shape[spot] != 1 else None
        for i, of in zip(symbolic, known, strict=True)
    ]
    buffers, count = aligned(node, symbolic, along)
    found = []
    for i, of, axis in zip(buffers, along, axes, strict=True):
        places = _from_start(i, x.shape[axis])
        if of is not None:
            other = _inner(x).shape[axis] if fill is None else fill
            places = Ragged(places, count, of).filled(other)
        found.append(places)
    return found, count, ndim + spot


def _place(node: Node, i: int, n: Any) -> Any:
    """Return an element's index from the start, checked against the length."""
    at_least(n, i + 1 if i >= 0 else -i, outside(node, i))
    return as_count(i if i >= 0 else plus(n, np.asarray(i, np.int64))).value


def _from_start(i: Any, n: Any) -> Any:
    i = lax.convert_element_type(plain(i), np.int64)
    return jnp.where(i < 0, i + as_count(n).value, i)


def _bounds(entry: slice, n: Any) -> tuple[Any, Any]:
    """Return a slice's start and stop, counted from the start and clipped to the length."""
    zero = np.asarray(0, np.int64)

    def within(part: Any, default: Any) -> Any:
        if part is None:
            return default
        i = as_count(part)
        if i.low >= 0:
            return least(settled(i), n)
        if i.high < 0:
            return most(plus(n, settled(i)), zero)
        whole = as_count(n)
        value = jnp.clip(_from_start(i, n), 0, whole.value)
        return Count(value, 0, whole.high)

    return within(entry.start, zero), within(entry.stop, settled(as_count(n)))


def _sliced(node: Node, buffer: Any, n: Any, axis: int, entry: slice) -> tuple[Any, Any]:
    """Slice a buffer; return the new buffer and its count."""
    step = 1 if entry.step is None else entry.step
    if not is_known(step) or step == 0:
        raise refused(node)
    if step < 0:
        if (entry.start, entry.stop) != (None, None) or step != -1:
            raise refused(node)
        first = minus(np.asarray(buffer.shape[axis], np.int64), n)
        return _shifted(lax.rev(buffer, (axis,)), first, settled(as_count(n)), axis), n
    start, stop = _bounds(entry, n)
    count = most(minus(stop, start), np.asarray(0, np.int64))
    if entry.stop is None and is_known(entry.start) and entry.start < 0:
        count = least(n, np.asarray(-entry.start, np.int64))
    buffer = _shifted(buffer, start, count, axis)
    if step > 1:
        buffer = lax.slice_in_dim(buffer, 0, buffer.shape[axis], int(step), axis)
    return buffer, every(count, int(step))


def _shifted(buffer: Any, start: Any, count: Any, axis: int) -> Any:
    """Shift a buffer to begin at an element, cut to the largest count."""
    length = buffer.shape[axis]
    if is_known(start):
        return lax.slice_in_dim(buffer, min(int(start), length), length, axis=axis)
    n = bound(count)
    if not is_known(count):
        # JAX would move back a slice that does not fit.
        sides = [(0, n if i == axis else 0, 0) for i in range(buffer.ndim)]
        buffer = lax.pad(buffer, np.zeros((), buffer.dtype), sides)
    return lax.dynamic_slice_in_dim(buffer, start.value, n, axis)


@rule(IndexUpdate)
def update_of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Update along the axis of unknown length by a mask."""
    op: Any = node.op
    x, value, *symbolic = values
    if any(isinstance(i, Ragged) for i in symbolic):
        return _scattered(node, lowering, x, value, symbolic)
    along = RaggedIndex.of(node, op, x, symbolic)
    axis, entry = along.axis, along.entry
    if axis is None:
        return lowering(op, *arrays(node, [x, whole(value, node), *symbolic]))
    buffer, rest, n = _inner(x), [plain(i) for i in along.symbolic], x.shape[axis]
    read = backend.lowering(Index(()))
    assert read is not None
    if not isinstance(entry, slice | int):
        filled = [_from_start(i, n) if i is entry else plain(i) for i in symbolic]
        return _again(lowering(op, buffer, whole(value, node), *filled), x)
    part = read(along.rest, buffer, *rest)
    chosen: Callable[..., Any] = _over if isinstance(entry, slice) else _at
    mask, value = chosen(node, entry, n, part, along.place, value)
    changed = jnp.where(mask, _joined(op, part, value), part)
    if not all(e == EVERYTHING for e in along.rest.entries):
        changed = lowering(IndexUpdate(along.rest.entries, False), buffer, changed, *rest)
    return _again(changed, x)


def _again(buffer: Any, x: Any) -> Any:
    return Ragged(buffer, x.count, x.axis) if isinstance(x, Ragged) else buffer


def _joined(op: IndexUpdate, part: Any, value: Any) -> Any:
    if not op.accumulate:
        return value
    return part | value if part.dtype == bool else part + value


def _numbers(part: Any, place: int) -> Any:
    """Return each element's index along an axis."""
    return lax.broadcasted_iota(np.int64, part.shape, place)


def _at(node: Node, i: int, n: Any, part: Any, place: int, value: Any) -> tuple[Any, Any]:
    """Return the mask and the value for one index."""
    # An array among the indices would move its axis.
    if any(isinstance(e, Hole) for e in node.op.entries):  # type: ignore[attr-defined]
        raise refused(node)
    value = whole(value, node)
    axis = place - (part.ndim - 1 - value.ndim)
    value = jnp.expand_dims(value, axis) if axis >= 0 else value
    return _numbers(part, place) == _place(node, i, n), value


def _forwards(node: Node, entry: slice, value: Any, axis: int) -> tuple[slice, int, Any]:
    """Turn a reversed slice forwards; return it, its step, and the reordered value."""
    step = 1 if entry.step is None else entry.step
    if not is_known(step) or step == 0:
        raise refused(node)
    if step > 0:
        return entry, int(step), value
    if (entry.start, entry.stop, int(step)) != (None, None, -1):
        raise refused(node)
    return slice(None), 1, _turned(node, value, axis)


def _over(node: Node, entry: slice, n: Any, part: Any, place: int, value: Any) -> tuple[Any, Any]:
    """Return the mask and the value for a slice."""
    entry, step, value = _forwards(node, entry, value, place - part.ndim)
    start, stop = _bounds(entry, n)
    numbers = _numbers(part, place)
    first, end = as_count(start).value, as_count(stop).value
    mask = (numbers >= first) & (numbers < end)
    if step > 1:
        mask &= (numbers - first) % step == 0
    axis = place - part.ndim + value.ndim
    own = node.inputs[1].type.shape
    if axis < 0 or own[axis] == 1:
        return mask, whole(value, node)
    if isinstance(value, Ragged) and value.axis != axis:
        raise refused(node)
    count = every(most(minus(stop, start), np.asarray(0, np.int64)), step)
    agree(count, value.shape[axis], unequal(node))
    buffer = _inner(value)
    if not buffer.shape[axis]:
        return jnp.zeros_like(mask), jnp.zeros((), buffer.dtype)
    places = (lax.iota(np.int64, part.shape[place]) - first) // step
    places = jnp.clip(places, 0, buffer.shape[axis] - 1)
    if is_known(start) and int(start) == 0 and step == 1:
        return mask, _of_length(buffer, part.shape[place], axis)
    return mask, jnp.take(buffer, places, axis, mode="clip")


def _of_length(buffer: Any, n: int, axis: int) -> Any:
    """Cut a buffer, or pad it with zeros."""
    sides = [(0, n - buffer.shape[axis] if i == axis else 0, 0) for i in range(buffer.ndim)]
    return lax.pad(buffer, np.zeros((), buffer.dtype), sides)


def _turned(node: Node, value: Any, axis: int) -> Any:
    """Reorder the value of a reversed slice."""
    if value.ndim < -axis or node.inputs[1].type.shape[axis] == 1:
        return value
    axis += value.ndim
    buffer, count = _sliced(node, _inner(value), value.shape[axis], axis, slice(None, None, -1))
    return ragged(buffer, count, axis)


def _scattered(node: Node, lowering: Lowering, x: Any, value: Any, symbolic: Sequence[Any]) -> Any:
    """Scatter to a counted number of indices; unused ones are out of bounds, which JAX drops."""
    op: Any = node.op
    found, count, spot = _index_arrays(node, op, x, symbolic, node.inputs[2:], None)
    places = np.broadcast_shapes(*[i.shape for i in found])
    ndim = node.inputs[0].type.ndim - len(found) + len(places)
    axis = Index(op.entries).place() + spot - ndim + value.ndim
    if isinstance(value, Ragged) and value.axis != axis:
        raise refused(node)
    buffer = _inner(value)
    if axis >= 0 and node.inputs[1].type.shape[axis] != 1:
        agree(count, value.shape[axis], unequal(node))
        buffer = _of_length(buffer, places[spot], axis)
    return _again(lowering(op, _inner(x), buffer, *found), x)
