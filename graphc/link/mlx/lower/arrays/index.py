"""Indexing: views, one copy of what runs backwards, gathers and scatters.

MLX has miscompiled what reads an array whose strides are negative, so no operation ever sees one:
a part that runs backwards is copied as soon as it is taken, and a value that is written backwards
is turned round, by a copy, before it is written. Positive steps stay views.

MLX checks no index. Those that are known on the host are checked here; of the others, what is out
of range is brought into it in reading, and in writing nothing is written for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import numpy as np

from graphc.link.mlx.arrays import contiguous, device_array
from graphc.link.mlx.backend import backend
from graphc.tensor.arrays.index import Index, IndexUpdate, Nonzero, selection

Box = Sequence[range]
"""Places of each axis."""


@backend.lower(Index)
def getitem(op: Index, x: Any, *symbolic: Any) -> Any:
    """A basic index slices; others gather."""
    x = device_array(x)
    place = Place.of(op, x.shape, symbolic)
    x = squeezed(part_of(x, place.box), place.dropped)
    if place.arrays:
        x = gathered(x, place)
    return mx.expand_dims(x, place.new) if place.new else x


@backend.lower(IndexUpdate)
def update(op: IndexUpdate, x: Any, value: Any, *symbolic: Any) -> Any:
    """A basic index writes a slice; others scatter into it, repeated indices adding up."""
    x = device_array(x)
    place = Place.of(op, x.shape, symbolic)
    value = place.turned(device_array(value))
    box = [rising(places) for places in place.box]
    write = with_part_added if op.accumulate else with_part
    if place.arrays:
        part = squeezed(part_of(x, box), place.dropped)
        value, write = scattered(part, place, value, op.accumulate), with_part
    return write(x, box, mx.expand_dims(value, place.dropped) if place.dropped else value)


@backend.lower(Nonzero)
def nonzero(op: Nonzero, x: Any) -> Any:
    """Found by NumPy, between compiled segments: how many places there are decides a shape."""
    return op.perform(x)


# Basic indices: integers, slices and new axes.


def as_slice(places: range) -> slice:
    """The slice that takes these places."""
    if not places:
        return slice(0, 0, 1)
    end = places[-1] + (1 if places.step > 0 else -1)
    return slice(places[0], None if end < 0 else end, places.step)


def rising(places: range) -> range:
    """The same places in rising order."""
    return places[::-1] if places.step < 0 else places


def is_whole(x: Any, box: Box) -> bool:
    """Whether these are all places of an array, in order."""
    return all(places == range(n) for places, n in zip(box, x.shape, strict=True))


def part_of(x: Any, box: Box) -> Any:
    """The places of each axis: a view, and a single copy of it where some run backwards."""
    if is_whole(x, box):
        return x
    part = x[tuple(map(as_slice, box))]
    return part if all(places.step > 0 for places in box) else contiguous(part)


def with_part(x: Any, box: Box, value: Any) -> Any:
    """An array with the places of each axis, which rise, replaced."""
    value = repeated(value, box)
    if not all(box):
        return x
    if is_whole(x, box):
        return value
    # A handle of its own: to assign to it makes it stand for another array, and x for what it did.
    y = x[...]
    y[tuple(map(as_slice, box))] = value
    return y


def with_part_added(x: Any, box: Box, value: Any) -> Any:
    """An array with a value added to the places of each axis, which rise; of bools, "or"."""
    value = repeated(value, box)
    if not all(box):
        return x
    if is_whole(x, box):
        return x | value if x.dtype == mx.bool_ else x + value
    if x.dtype == mx.bool_:
        return with_part(x, box, part_of(x, box) | value)
    return x.at[tuple(map(as_slice, box))].add(value)


def repeated(value: Any, box: Box) -> Any:
    """A value in the shape of the part that it is for; an error if it does not go there."""
    shape = tuple(map(len, box))
    return value if value.shape == shape else mx.broadcast_to(value, shape)


def squeezed(x: Any, axes: Sequence[int]) -> Any:
    """Without these axes, of length 1."""
    return mx.squeeze(x, axes) if axes else x


@dataclass(frozen=True)
class Place:
    """An index of an array of known lengths.

    Attributes:
        box: What slices and integers take of each axis; all of it where an array indexes it.
        dropped: The axes that an integer takes one place of.
        new: The axes of the result that are new.
        arrays: Index arrays, by the axis that they index once the dropped ones are gone.
        depth: How many axes of the result they have together.
        first: Where these stand in the result, the new axes left out.
    """

    box: Box
    dropped: tuple[int, ...]
    new: tuple[int, ...]
    arrays: Mapping[int, Any]
    depth: int
    first: int

    @classmethod
    def of(cls, op: Index | IndexUpdate, lengths: Sequence[int], symbolic: Sequence[Any]) -> Place:
        """That of an operation, given what stands for its holes.

        Raises:
            IndexError: An integer that is known on the host is out of bounds.
        """
        box: list[range] = []
        dropped: list[int] = []
        arrays: dict[int, Any] = {}
        own: list[bool] = []
        for entry in selection(op.entries, symbolic):
            if entry is None:
                own.append(False)
                continue
            axis, places = len(box), range(lengths[len(box)])
            if isinstance(entry, slice):
                own.append(True)
                places = places[entry]
            elif is_number(entry):
                dropped.append(axis)
                i = bounded(int(entry), len(places), axis)
                places = places[i : i + 1]
            else:
                arrays[axis - len(dropped)] = checked(entry, len(places), axis)
            # A single place runs in no direction.
            box.append(places if len(places) > 1 else rising(places))
        first = Index(op.entries).place() if arrays else 0
        depth = max((x.ndim for x in arrays.values()), default=0)
        new = tuple(i + depth * (i >= first) for i, kept in enumerate(own) if not kept)
        return cls(box, tuple(dropped), new, arrays, depth, sum(own[:first]))

    def turned(self, value: Any) -> Any:
        """A value for the part, without the new axes, in rising order of the places."""
        sliced = [
            places for axis, places in enumerate(self.without_dropped()) if axis not in self.arrays
        ]
        sides = sliced[: self.first], sliced[self.first :]
        ndim = len(sliced) + self.depth
        missing = ndim + len(self.new) - value.ndim
        value = mx.expand_dims(value, tuple(range(missing))) if missing else value
        value = squeezed(value, self.new)
        whole = [range(n) for n in value.shape]
        steps = [places.step for places in (*sides[0], *[range(1)] * self.depth, *sides[1])]
        # What is repeated along an axis is the same in either direction.
        return part_of(
            value,
            [
                places[::-1] if step < 0 and len(places) > 1 else places
                for places, step in zip(whole, steps, strict=True)
            ],
        )

    def without_dropped(self) -> Box:
        """The places taken of each axis that is left."""
        return [places for axis, places in enumerate(self.box) if axis not in self.dropped]


def is_number(entry: Any) -> bool:
    """Whether an entry is an integer that is known on the host."""
    return isinstance(entry, int) or (isinstance(entry, np.ndarray | np.generic) and not entry.ndim)


def bounded(i: int, n: int, axis: int) -> int:
    """A place of an axis, counted from its start.

    Raises:
        IndexError: There is no such place.
    """
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for axis {axis} of length {n}")
    return i % n


def checked(places: Any, n: int, axis: int) -> Any:
    """Places of an axis, which must be within it if they are known on the host."""
    if isinstance(places, np.ndarray) and places.size:
        bounded(int(places.min()), n, axis)
        bounded(int(places.max()), n, axis)
    return places


# Index arrays. An index of arrays and whole axes alone is MLX's own ``x[key]``.


@dataclass(frozen=True)
class Key:
    """Index arrays whose places are all within their axes.

    Attributes:
        entries: For each axis of the array, an index array or the slice of everything.
        shape: The shape that the index arrays have together.
        first: Where their axes stand in what MLX gives.
        inside: Which of the places were within their axes; None where all are known to be.
    """

    entries: tuple[Any, ...]
    shape: tuple[int, ...]
    first: int
    inside: Any

    @classmethod
    def of(cls, arrays: Mapping[int, Any], lengths: Sequence[int]) -> Key:
        """The key for an array of these lengths, which are not 0 on axes with index arrays."""
        entries: list[Any] = [slice(None)] * len(lengths)
        inside = None
        for axis, places in arrays.items():
            entries[axis], within = settled(places, lengths[axis])
            inside = within if inside is None else inside if within is None else inside & within
        shape = np.broadcast_shapes(*[x.shape for x in arrays.values()])
        axes = [*arrays]
        together = axes == [*range(axes[0], axes[-1] + 1)]
        return cls(tuple(entries), shape, axes[0] if together else 0, inside)

    @property
    def index(self) -> tuple[Any, ...]:
        """The entries without the slices behind the last array, with which MLX fails to scatter."""
        arrays = [i for i, entry in enumerate(self.entries) if not isinstance(entry, slice)]
        return self.entries[: arrays[-1] + 1]

    def taken(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """The shape of what it takes of an array of these lengths."""
        pairs = zip(lengths, self.entries, strict=True)
        rest = [n for n, entry in pairs if isinstance(entry, slice)]
        return (*rest[: self.first], *self.shape, *rest[self.first :])

    def along(self) -> Any:
        """Which places were within their axes, in a shape that broadcasts against what is taken."""
        behind = sum(isinstance(entry, slice) for entry in self.entries) - self.first
        inside = mx.broadcast_to(self.inside, self.shape)
        return mx.reshape(inside, (*self.shape, *[1] * behind))


def number(n: int, like: Any) -> Any:
    """A length in a dtype; not a literal, for each of which MLX would compile another kernel."""
    return mx.full((), n, like.dtype)


def settled(places: Any, n: int) -> tuple[Any, Any]:
    """Places of an axis of n elements, counted from its start, and which were within it.

    The latter is None where they are known on the host, and thus within it.
    """
    known = isinstance(places, np.ndarray)
    i = device_array(places)
    i = i.astype(mx.int32) if i.dtype.size < 4 else i
    signed = mx.issubdtype(i.dtype, mx.signedinteger)
    if signed and (not known or (places < 0).any()):
        counted = mx.where(i < 0, i + number(n, i), i)
    else:
        counted = i
    if known:
        return counted.astype(mx.int32), None
    # Both from the places as given: so each is one kernel.
    inside = i < number(n, i)
    if signed:
        counted, inside = mx.maximum(counted, 0), inside & (i >= number(-n, i))
    return mx.minimum(counted, number(n - 1, i)).astype(mx.int32), inside


def moved(x: Any, depth: int, source: int, target: int) -> Any:
    """So many axes that stand together, taken to another place among the others."""
    if source == target or not depth:
        return x
    block = [*range(source, source + depth)]
    rest = [axis for axis in range(x.ndim) if axis not in block]
    return mx.transpose(x, (*rest[:target], *block, *rest[target:]))


def gathered(x: Any, place: Place) -> Any:
    """Return the elements of an array that index arrays take.

    Raises:
        IndexError: They take elements of an axis that has none.
    """
    empty = [axis for axis in place.arrays if not x.shape[axis]]
    key = Key.of(place.arrays, x.shape)
    shape = key.taken(x.shape)
    if 0 not in shape and empty:
        raise IndexError(f"an index is out of bounds for axis {empty[0]} of length 0")
    if 0 in shape:
        y = mx.zeros(shape, x.dtype)
    elif len(place.arrays) == 1:
        y = mx.take(x, key.entries[key.first], key.first)
    else:
        y = x[key.index]
    return moved(y, place.depth, key.first, place.first)


def scattered(x: Any, place: Place, value: Any, accumulate: bool) -> Any:
    """An array with the places that index arrays take replaced, or added to."""
    key = Key.of(place.arrays, x.shape)
    if 0 in x.shape or 0 in key.shape:
        return x
    value = moved(value, place.depth, place.first, key.first)
    with on_a_device_that_scatters(x):
        if accumulate:
            return with_added(x, key, value)
        if key.inside is None:
            return with_set(x, key, value)
        if math.prod(key.shape) == 1:
            return with_set(x, key, mx.where(key.along(), value, x[key.index]))
        return part_of(with_set(*with_spare_place(x, key), value), [range(n) for n in x.shape])


def on_a_device_that_scatters(x: Any) -> AbstractContextManager[Any]:
    """Metal's scatter has no elements of 8 bytes; the CPU shares its memory, and has them."""
    return mx.stream(mx.cpu) if x.dtype.size == 8 else nullcontext()


def with_set(x: Any, key: Key, value: Any) -> Any:
    """An array with places replaced."""
    y = x[...]
    y[key.index] = value
    return y


def with_added(x: Any, key: Key, value: Any) -> Any:
    """An array with a value added to places that are within it; of bools, "or"."""
    if key.inside is not None:
        value = mx.where(key.along(), value, mx.zeros((), x.dtype))
    to = x.at[key.index]
    return to.maximum(value) if x.dtype == mx.bool_ else to.add(value)


def with_spare_place(x: Any, key: Key) -> tuple[Any, Key]:
    """An array with one more place on an axis, to which the key goes where it was out of bounds."""
    entries = [*key.entries]
    axis = next(i for i, entry in enumerate(entries) if not isinstance(entry, slice))
    entries[axis] = mx.where(key.inside, entries[axis], number(x.shape[axis], entries[axis]))
    spare = mx.zeros([1 if i == axis else n for i, n in enumerate(x.shape)], x.dtype)
    return mx.concatenate([x, spare], axis), replace(key, entries=tuple(entries))
