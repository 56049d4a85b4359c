"""Indexing with unknown lengths: slices shift buffers, updates use masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.bounded import (
    Lowering,
    Ragged,
    agree,
    aligned,
    arrays,
    at_least,
    inner,
    outside,
    ragged,
    refused,
    rule,
    unequal,
    within,
)
from graphc.link.jax.counts import (
    Count,
    as_count,
    bound,
    every,
    is_known,
    least,
    minus,
    most,
    plain,
    plus,
    settled,
    times,
)
from graphc.tensor.arrays.index import EVERYTHING, HOLE, Entry, Hole, Index, IndexUpdate, Range

NOTHING = np.asarray(0, np.int64)


@dataclass(frozen=True)
class Part:
    """What an index says of one axis of an array, or that there is a new axis.

    Attributes:
        entry: None for a new axis, an integer, a slice whose parts may be counts, or an array.
        axis: The array's axis.
        symbolic: The number of the index array among the inputs' symbolic ones.
    """

    entry: Any
    axis: int | None = None
    symbolic: int | None = None

    @property
    def is_array(self) -> bool:
        """Whether an array indexes the axis."""
        return self.symbolic is not None

    @property
    def is_static(self) -> bool:
        """Whether its numbers are known while JAX traces."""
        if not isinstance(self.entry, slice):
            return True
        return all(n is None or is_known(n) for n in (self.entry.start, self.entry.stop))

    @property
    def is_all(self) -> bool:
        """Whether it is the whole axis, as it is."""
        if not isinstance(self.entry, slice):
            return False
        return self.entry.start is self.entry.stop is None and self.entry.step in {None, 1}

    @property
    def static_entry(self) -> Entry:
        """The same with known numbers in place of symbolic ones; of an array, a place for it."""
        if self.is_array:
            return HOLE
        if not isinstance(self.entry, slice):
            return self.entry  # type: ignore[no-any-return]
        bounds = (self.entry.start, self.entry.stop, self.entry.step)
        return Range(*[None if n is None else int(n) for n in bounds])


def parts_of(node: Node, entries: Sequence[Entry], symbolic: Sequence[Any]) -> list[Part]:
    """The parts of an index, with its symbolic entries filled in."""
    left = iter(enumerate(symbolic))
    found: list[Part] = []
    axis = 0
    for entry in entries:
        if entry is None:
            found.append(Part(None))
            continue
        if isinstance(entry, Hole):
            place, value = next(left)
            if value.dtype == bool:
                raise refused(node)
            found.append(Part(value, axis, place))
        elif isinstance(entry, Range):
            bounds = [next(left)[1] if isinstance(p, Hole) else p for p in entry.parts]
            if bounds[2] is not None and not (is_known(bounds[2]) and int(bounds[2])):
                raise refused(node)
            found.append(Part(slice(*bounds), axis))
        else:
            found.append(Part(entry, axis))
        axis += 1
    return found


# Reading.


@rule(Index)
def part_of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Slice along the axes of unknown lengths first, then index as usual."""
    op: Any = node.op
    x, *symbolic = values
    parts = parts_of(node, op.entries, symbolic)
    buffer, lengths = inner(x), list(x.shape)
    entries: list[Entry] = []
    for part in parts:
        axis = part.axis
        if axis is None or part.is_array or (part.is_static and is_known(lengths[axis])):
            entries.append(part.static_entry)
        elif isinstance(part.entry, slice):
            if not part.is_all:
                buffer, lengths[axis] = _sliced(buffer, lengths[axis], axis, part.entry)
            entries.append(EVERYTHING)
        else:
            start = _place(node, part.entry, lengths[axis])
            buffer, lengths[axis] = lax.dynamic_slice_in_dim(buffer, start, 1, axis), 1
            entries.append(0)
    places, shape = _index_arrays(node, parts, lengths, [*node.inputs[1:]], symbolic)
    found = [jnp.clip(i, 0, jnp.maximum(as_count(n).value - 1, 0)) for i, n in places]
    read = Index(tuple(entries))
    return ragged(lowering(read, buffer, *found), _shape_of(read, buffer, lengths, shape))


def _shape_of(
    op: Index, buffer: Any, lengths: Sequence[Any], shape: Sequence[Any]
) -> Sequence[Any]:
    """The shape of a part, whose ragged axes are read as they are."""
    found: list[Any] = []
    axis = 0
    for entry in op.entries:
        if isinstance(entry, Range):
            is_all = entry == EVERYTHING
            parts: Any = entry.parts
            n = len(range(buffer.shape[axis])[slice(*parts)])
            found.append(lengths[axis] if is_all else n)
        elif entry is None:
            found.append(1)
        axis += entry is not None
    if any(isinstance(entry, Hole) for entry in op.entries):
        place = op.place()
        found[place:place] = shape
    return found


def _index_arrays(
    node: Node,
    parts: Sequence[Part],
    lengths: Sequence[Any],
    known: Sequence[Node],
    symbolic: Sequence[Any],
) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Index arrays counted from the start, each with its axis's length; and their common shape."""
    used = [part for part in parts if part.is_array]
    if not used:
        return [], []
    given = [part.entry for part in used]
    of = [known[part.symbolic] for part in used]  # type: ignore[index]
    found, shape = aligned(node, [_as_array(i) for i in given], of)
    pairs = []
    for part, i in zip(used, found, strict=True):
        n = lengths[part.axis]  # type: ignore[index]
        if i.ndim == 0 or 0 not in inner(i).shape:
            at_least(n, 1, outside(node, 0))
        pairs.append((_from_start(inner(i), n), n))
    return pairs, shape


def _as_array(i: Any) -> Any:
    return jnp.asarray(i.value) if isinstance(i, Count) else i


def _place(node: Node, i: int, n: Any) -> Any:
    """Return an element's index from the start, checked against the length."""
    at_least(n, i + 1 if i >= 0 else -i, outside(node, i))
    return as_count(i if i >= 0 else plus(n, np.asarray(i, np.int64))).value


def _from_start(i: Any, n: Any) -> Any:
    i = lax.convert_element_type(plain(i), np.int64)
    return jnp.where(i < 0, i + as_count(n).value, i)


def _bounds(entry: slice, n: Any) -> tuple[Any, Any]:
    """Return a slice's start and stop, counted from the start and clipped to the length."""

    def within_length(part: Any, default: Any) -> Any:
        if part is None:
            return default
        i = as_count(part)
        if i.low >= 0:
            return least(settled(i), n)
        if i.high < 0:
            return most(plus(n, settled(i)), NOTHING)
        whole = as_count(n)
        value = jnp.clip(_from_start(i, n), 0, whole.value)
        return Count(value, 0, whole.high)

    stop = within_length(entry.stop, settled(as_count(n)))
    return within_length(entry.start, NOTHING), stop


def _backwards(entry: slice, n: Any) -> tuple[Any, Any]:
    """The first place of a slice that goes backwards, and how many it has."""
    last, step = minus(n, 1), -int(entry.step)

    def within_length(part: Any, default: Any) -> Any:
        if part is None:
            return default
        i = as_count(part)
        if i.low >= 0:
            return least(settled(i), last)
        if i.high < 0:
            return most(plus(n, settled(i)), np.asarray(-1, np.int64))
        whole = as_count(n)
        value = jnp.clip(_from_start(i, n), -1, whole.value - 1)
        return Count(value, -1, whole.high - 1)

    start = within_length(entry.start, last)
    stop = within_length(entry.stop, np.asarray(-1, np.int64))
    return start, every(most(minus(start, stop), NOTHING), step)


def _span(entry: slice, n: Any) -> tuple[Any, Any, int]:
    """The first place of a slice, how many it has, and the step from one to the next."""
    step = 1 if entry.step is None else int(entry.step)
    if step < 0:
        return (*_backwards(entry, n), step)
    start, stop = _bounds(entry, n)
    count = most(minus(stop, start), NOTHING)
    if entry.stop is None and is_known(entry.start) and entry.start < 0:
        count = least(n, np.asarray(-entry.start, np.int64))
    return start, every(count, step), step


def _sliced(buffer: Any, n: Any, axis: int, entry: slice) -> tuple[Any, Any]:
    """Slice a buffer; return the new buffer and its count."""
    start, count, step = _span(entry, n)
    if (entry.start, entry.stop, step) == (None, None, -1):
        first = minus(np.asarray(buffer.shape[axis], np.int64), n)
        return shifted(lax.rev(buffer, (axis,)), first, settled(as_count(n)), axis), n
    length = bound(count)
    if step < 0 or (step > 1 and not is_known(start)):
        places = as_count(start).value + step * lax.iota(np.int64, length)
        places = jnp.clip(places, 0, max(buffer.shape[axis] - 1, 0))
        if not buffer.shape[axis]:
            return buffer, NOTHING
        return jnp.take(buffer, places, axis, mode="clip"), count
    if step == 1:
        return shifted(buffer, start, count, axis), count
    buffer = shifted(buffer, start, settled(as_count(buffer.shape[axis])), axis)
    return lax.slice_in_dim(buffer, 0, buffer.shape[axis], step, axis), count


def shifted(buffer: Any, start: Any, count: Any, axis: int) -> Any:
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


# Writing.


@rule(IndexUpdate)
def update_of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Update along axes of unknown lengths by masks; by index arrays, scatter."""
    op: Any = node.op
    x, value, *symbolic = values
    parts = parts_of(node, op.entries, symbolic)
    if not any(isinstance(v, Ragged) for v in values) and all(part.is_static for part in parts):
        return lowering(op, *arrays(node, values))
    value = _as_array(value)
    if any(part.is_array for part in parts):
        buffer = _scattered(node, lowering, x, value, parts, symbolic)
    else:
        single = [n == 1 for n in node.inputs[1].type.shape]
        buffer = _masked(node, x, value, parts, single, accumulate=op.accumulate)
    return ragged(buffer, x.shape)


def _masked(
    node: Node,
    x: Any,
    value: Any,
    parts: Sequence[Part],
    single: Sequence[bool],
    *,
    accumulate: bool,
) -> Any:
    """The buffer of an array updated where an index without arrays says so.

    Args:
        node: The update, for messages.
        x: The array.
        value: What goes there.
        parts: The index.
        single: For each axis of the value whether it is repeated.
        accumulate: Whether the value is added.
    """
    buffer = inner(x)
    given = _Value.of(value, single, sum(not isinstance(part.entry, int) for part in parts))
    mask: Any = np.True_
    own = 0
    for part in parts:
        axis, entry = part.axis, part.entry
        if axis is None:
            given.remove(node, own)
            continue
        n = x.shape[axis]
        if isinstance(entry, int):
            places = lax.broadcasted_iota(np.int64, buffer.shape, axis)
            mask = mask & (places == _place(node, entry, n))
            given.insert(own)
        elif not part.is_all or isinstance(n, Count):
            span = _span(entry, n)
            mask = mask & _chosen(buffer.shape, axis, span)
            given.spread(node, own, buffer.shape[axis], span)
        own += 1
    value = given.buffer
    if accumulate:
        value = buffer | value if buffer.dtype == bool else buffer + value
    return jnp.where(mask, value, buffer)


def _chosen(shape: Sequence[int], axis: int, span: tuple[Any, Any, int]) -> Any:
    """Which elements along an axis a slice has."""
    start, count, step = span
    size = abs(step)
    ahead = lax.broadcasted_iota(np.int64, shape, axis) - as_count(start).value
    ahead = ahead if step > 0 else -ahead
    found = (ahead >= 0) & (ahead < as_count(times(count, size)).value)
    return found if size == 1 else found & (ahead % size == 0)


@dataclass
class _Value:
    """The value of an update, as its axes become those of the array.

    Attributes:
        buffer: Its elements.
        lengths: The length of each axis.
        single: For each axis whether it is repeated.
    """

    buffer: Any
    lengths: list[Any]
    single: list[bool]

    @classmethod
    def of(cls, value: Any, single: Sequence[bool], ndim: int) -> _Value:
        """The value with so many axes."""
        new = ndim - value.ndim
        buffer = jnp.asarray(inner(value))
        return cls(
            lax.expand_dims(buffer, range(new)),
            [1] * new + list(value.shape),
            [True] * new + list(single),
        )

    def remove(self, node: Node, axis: int) -> None:
        """Take away a new axis of the part, which has the length 1."""
        agree(self.lengths.pop(axis), 1, unequal(node))
        self.single.pop(axis)
        self.buffer = lax.index_in_dim(self.buffer, 0, axis, keepdims=False)

    def insert(self, axis: int) -> None:
        """Add an axis that the part does not have."""
        self.lengths.insert(axis, 1)
        self.single.insert(axis, True)
        self.buffer = lax.expand_dims(self.buffer, (axis,))

    def spread(self, node: Node, axis: int, n: int, span: tuple[Any, Any, int]) -> None:
        """Put the elements of a slice at their places in a longer axis."""
        if self.single[axis]:
            return
        start, count, step = span
        agree(count, self.lengths[axis], unequal(node))
        size = self.buffer.shape[axis]
        if not size or (is_known(start) and int(start) == 0 and step == 1):
            self.buffer = _of_length(self.buffer, n, axis)
            return
        places = (lax.iota(np.int64, n) - as_count(start).value) // step
        self.buffer = jnp.take(self.buffer, jnp.clip(places, 0, size - 1), axis, mode="clip")


def _of_length(buffer: Any, n: int, axis: int) -> Any:
    """Cut a buffer, or pad it with zeros."""
    sides = [(0, n - buffer.shape[axis] if i == axis else 0, 0) for i in range(buffer.ndim)]
    return lax.pad(buffer, np.zeros((), buffer.dtype), sides)


def _as_index_array(node: Node, part: Part, lengths: Sequence[Any]) -> Part:
    """An integer that indexes a ragged axis, as an array without axes."""
    if part.axis is None or not isinstance(part.entry, int) or is_known(lengths[part.axis]):
        return part
    return Part(jnp.asarray(_place(node, part.entry, lengths[part.axis])), part.axis, 0)


def _is_moving(lengths: Sequence[Any], part: Part) -> bool:
    """Whether it is a slice whose place or length is not known."""
    if not isinstance(part.entry, slice) or part.is_all or part.axis is None:
        return False
    return not (part.is_static and is_known(lengths[part.axis]))


def _within_slices(
    node: Node,
    lowering: Lowering,
    x: Any,
    value: Any,
    parts: Sequence[Part],
    symbolic: Sequence[Any],
) -> Any:
    """Scatter to a part that slices give, and put it back."""
    buffer, lengths = inner(x), list(x.shape)
    whole, back = [], []
    for part in parts:
        axis = part.axis
        moving = _is_moving(x.shape, part)
        if moving and axis is not None:
            buffer, lengths[axis] = _sliced(buffer, lengths[axis], axis, part.entry)
        whole.append(Part(slice(None), axis) if moving else part)
        if axis is not None:
            back.append(part if moving else Part(slice(None), axis))
    inside = ragged(buffer, lengths)
    changed = ragged(_scattered(node, lowering, inside, value, whole, symbolic), inside.shape)
    return _masked(node, x, changed, back, [False] * x.ndim, accumulate=False)


def _scattered(
    node: Node,
    lowering: Lowering,
    x: Any,
    value: Any,
    parts: Sequence[Part],
    symbolic: Sequence[Any],
) -> Any:
    """Scatter to indices; those that are not used are out of bounds, which JAX drops."""
    op: Any = node.op
    parts = [_as_index_array(node, part, x.shape) for part in parts]
    if any(map(partial(_is_moving, x.shape), parts)):
        return _within_slices(node, lowering, x, value, parts, symbolic)
    pairs, shape = _index_arrays(node, parts, x.shape, [*node.inputs[2:]], symbolic)
    buffer = inner(x)
    read = Index(tuple(part.static_entry for part in parts))
    full = np.broadcast_shapes(*[i.shape for i, _ in pairs])
    target = _shape_of(read, buffer, x.shape, shape)
    lengths = _shape_of(read, buffer, buffer.shape, full)
    written = inner(value)
    for axis in range(value.ndim):
        place = axis - value.ndim + len(target)
        if node.inputs[1].type.shape[axis] != 1:
            agree(target[place], value.shape[axis], unequal(node))
            written = _of_length(written, lengths[place], axis)
    axes = [part.axis for part in parts if part.is_array]
    found = []
    for (i, n), own in zip(pairs, axes, strict=True):
        used = (i >= 0) & (i < as_count(n).value)
        for axis, m in enumerate(shape):
            behind = axis - len(shape) + i.ndim
            if isinstance(m, Count) and behind >= 0 and i.shape[behind] == full[axis]:
                used = used & within(i.shape, behind, m)
        found.append(jnp.where(used, i, buffer.shape[own]))
    return lowering(IndexUpdate(read.entries, op.accumulate), buffer, written, *found)
