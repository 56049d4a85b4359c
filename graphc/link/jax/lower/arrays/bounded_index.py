"""Indexing with unknown lengths: slices shift buffers."""

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
    aligned,
    at_least,
    inner,
    outside,
    ragged,
    refused,
    rule,
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
)
from graphc.tensor.arrays.index import EVERYTHING, HOLE, Entry, Hole, Index, Range

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
                buffer, lengths[axis] = sliced(buffer, lengths[axis], axis, part.entry)
            entries.append(EVERYTHING)
        else:
            start = place_of(node, part.entry, lengths[axis])
            buffer, lengths[axis] = lax.dynamic_slice_in_dim(buffer, start, 1, axis), 1
            entries.append(0)
    places, shape = index_arrays(node, parts, lengths, [*node.inputs[1:]], symbolic)
    found = [jnp.clip(i, 0, jnp.maximum(as_count(n).value - 1, 0)) for i, n in places]
    read = Index(tuple(entries))
    return ragged(lowering(read, buffer, *found), shape_of(read, buffer, lengths, shape))


def shape_of(op: Index, buffer: Any, lengths: Sequence[Any], shape: Sequence[Any]) -> Sequence[Any]:
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


def index_arrays(
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
    found, shape = aligned(node, [as_array(i) for i in given], of)
    pairs = []
    for part, i in zip(used, found, strict=True):
        n = lengths[part.axis]  # type: ignore[index]
        if i.ndim == 0 or 0 not in inner(i).shape:
            at_least(n, 1, outside(node, 0))
        pairs.append((_from_start(inner(i), n), n))
    return pairs, shape


def as_array(i: Any) -> Any:
    return jnp.asarray(i.value) if isinstance(i, Count) else i


def place_of(node: Node, i: int, n: Any) -> Any:
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


def span_of(entry: slice, n: Any) -> tuple[Any, Any, int]:
    """The first place of a slice, how many it has, and the step from one to the next."""
    step = 1 if entry.step is None else int(entry.step)
    if step < 0:
        return (*_backwards(entry, n), step)
    start, stop = _bounds(entry, n)
    count = most(minus(stop, start), NOTHING)
    if entry.stop is None and is_known(entry.start) and entry.start < 0:
        count = least(n, np.asarray(-entry.start, np.int64))
    return start, every(count, step), step


def sliced(buffer: Any, n: Any, axis: int, entry: slice) -> tuple[Any, Any]:
    """Slice a buffer; return the new buffer and its count."""
    start, count, step = span_of(entry, n)
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
