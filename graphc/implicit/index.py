"""Indexing, joining and splitting of structured arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from graphc.implicit import layout
from graphc.implicit.array import ImplicitArray
from graphc.implicit.known import as_number, is_same_number, number_of
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import Structured
from graphc.implicit.treedef import lengths_of
from graphc.tensor.arrays.index import HOLE, Entry, Hole, Index, Range


def concatenate(xs: Sequence[Any], axis: int) -> Any:
    """Concatenate arrays along an axis; all are implicit, and the first is structured."""
    first, *others = xs
    if not isinstance(first, Structured) or not all(isinstance(x, ImplicitArray) for x in others):
        raise layout.StructureLost
    return layout.require(first.concatenate(others, axis)) if others else first


def split(x: Structured, sizes: Sequence[int], axis: int) -> Any:
    """Split an array along an axis into consecutive slices of these lengths."""
    starts, stops, steps = [0] * x.ndim, [*x.shape], [1] * x.ndim
    slices = []
    for starts[axis], stops[axis] in pairwise(accumulate(sizes, initial=0)):
        slices.append(slice_axes(x, starts, stops, steps))
    return slices


def update(x: Any, value: Any, covers: Sequence[bool], write: Callable[..., Any]) -> Any:
    """Replace a part of an array, structured or not; see ``Structured.map_window``."""
    if isinstance(x, Structured) and is_same_number(x, value):
        return x
    if not isinstance(x, ImplicitArray) and isinstance(value, Structured):
        number = number_of(value)
        if number is None:
            return NotImplemented
        xp = numpy_like(x)
        return write(x, xp.broadcast_to(as_number(number, value), value.shape))
    return x.map_window(write, covers, value) if isinstance(x, Structured) else NotImplemented


def getitem(x: Structured, entries: Sequence[Entry], symbolic: Sequence[Any]) -> Any:
    """Index an array with the entries of an ``Index``; at most one is an integer array."""
    own = [entry for entry in entries if entry is not None]
    holes = [axis for axis, entry in enumerate(own) if isinstance(entry, Hole)]
    if len(holes) == len(symbolic) == len(entries) == x.ndim == 2:
        return _elements(x, *symbolic)
    if len(holes) != len(symbolic) or len(holes) > 1:
        raise layout.StructureLost
    y = _apply_slices(x, own)
    if not holes:
        return _without_integers(y, entries, 0)
    (axis,), (index,) = holes, symbolic
    ndim = numpy_like(index).ndim(index)
    y = take_slices(y, _from_start(index, x.xp.shape_of(x)[axis]), axis)
    # The index's axes come first; move them to the position of the indexed axis.
    behind = range(ndim, y.ndim)
    y = layout.transpose(y, (*behind[:axis], *range(ndim), *behind[axis:]))
    y = _without_integers(y, entries, ndim)
    natural = sum(not isinstance(entry, int) for entry in entries[: entries.index(HOLE)])
    order = [*range(natural), *range(natural + ndim, y.ndim)]
    position = Index(tuple(entries)).array_axis()
    order[position:position] = range(natural, natural + ndim)
    return layout.transpose(y, tuple(order))


def _elements(x: Structured, rows: Any, columns: Any) -> Any:
    """Return elements of a matrix by row and column indices, at most as many as rows."""
    count = math.prod(n for n in lengths_of(rows) if n is not None)
    if lengths_of(rows) != lengths_of(columns) or None in (*x.shape, *lengths_of(rows)):
        raise layout.StructureLost
    if count > x.shape[0]:
        raise layout.StructureLost
    taken = take_slices(x, _from_start(rows, x.shape[0]), 0)
    xp = numpy_like(taken, columns)
    if isinstance(taken, ImplicitArray):
        raise layout.StructureLost
    offsets = _from_start(columns, x.shape[1])
    return xp.squeeze(xp.take_along_axis(taken, xp.expand_dims(offsets, -1), -1), -1)


def _apply_slices(x: Structured, own: Sequence[Entry]) -> Any:
    """Apply the slices of an index; integers become slices of length 1."""
    everything = Range()
    if all(entry in {everything, HOLE} for entry in own):
        return x
    if None in x.shape:
        raise layout.StructureLost
    spans = [_span(entry, n) for entry, n in zip(own, x.shape, strict=True)]
    forwards = [span if span.step > 0 else span[::-1] for span in spans]
    starts = [span.start if len(span) else 0 for span in forwards]
    stops = [span[-1] + 1 if len(span) else 0 for span in forwards]
    y = slice_axes(x, starts, stops, [span.step for span in forwards])
    return flip(y, [axis for axis, span in enumerate(spans) if span.step < 0])


def _span(entry: Entry, n: int) -> range:
    """Return the range of indices that a slice or an integer selects."""
    match entry:
        case int():
            return range(entry % n, entry % n + 1)
        case Range():
            return range(n)[slice(*entry.parts)]  # type: ignore[arg-type]
        case _:
            return range(n)


def _without_integers(y: Any, entries: Sequence[Entry], ndim: int) -> Any:
    """Remove the axes that integers index, and insert new ones."""
    dropped: list[int] = []
    new: list[int] = []
    axis = position = 0
    for entry in entries:
        if entry is None:
            new.append(position)
        elif isinstance(entry, int):
            dropped.append(axis)
        size = ndim if isinstance(entry, Hole) else 1
        axis += 0 if entry is None else size
        position += 0 if isinstance(entry, int) else size
    y = layout.squeeze(y, tuple(dropped)) if dropped else y
    return layout.expand_dims(y, tuple(new)) if new else y


def _from_start(index: Any, n: Any) -> Any:
    """Count indices from the start; those before the start become out of bounds."""
    xp = numpy_like(index, n)
    if numpy_like(index).name == "NumPy" and (index >= 0).all():
        return index
    return xp.where(index < 0, xp.where(index < -n, n, index + n), index)


def slice_axes(x: Any, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int]) -> Any:
    """Slice each axis, within bounds and with positive steps."""
    if not any(starts) and tuple(stops) == x.shape and {*steps} <= {1}:
        return x
    return layout.require(x.window(tuple(map(range, starts, stops, steps))))


def take_slices(x: Any, index: Any, axis: int) -> Any:
    """Take slices along an axis at indices within bounds; the index's axes come first."""
    x = layout.transpose(x, (axis, *[i for i in range(x.ndim) if i != axis]))
    return (
        layout.require(x.take_rows(index))
        if isinstance(x, Structured)
        else numpy_like(x).take(x, index, 0)
    )


def flip(x: Any, axes: Sequence[int]) -> Any:
    """Reverse an array along axes."""
    for axis in axes:
        xp = numpy_like(x)
        if not isinstance(x, Structured):
            x = xp.flip(x, axis)
            continue
        y = take_slices(x, x.shape[axis] - 1 - xp.arange(x.shape[axis]), axis)
        behind = range(1, y.ndim)
        x = layout.transpose(y, (*behind[:axis], 0, *behind[axis:]))
    return x
