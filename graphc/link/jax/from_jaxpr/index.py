"""Primitives that read and write at indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Constant, is_inexact, is_integer
from graphc.link.jax.from_jaxpr.equation import Converter, Equation, Refusal
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length


def _dynamic_slice(eqn: Equation, x: Tensor, *starts: Tensor) -> Tensor:
    sizes = tuple(map(eqn.lengths, eqn["slice_sizes"]))
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=False)):
        x = _part(x, axis, start, size)
    return x


def _part(x: Tensor, axis: int, start: Tensor, size: Any) -> Tensor:
    """Elements from a start on, which is moved to where there are so many."""
    n = length(x, axis)
    if n is size or (isinstance(n, int) and n == size):
        return x
    where = (slice(None),) * axis
    if isinstance(start.op, Constant) and isinstance(n, int) and isinstance(size, int):
        at = int(np.clip(int(start.op.value), 0, n - size))
        return x[(*where, slice(at, at + size))]
    first = _within(start, n - size)
    if isinstance(size, int) and size == 1:
        return gt.expand_dims(x[(*where, first)], axis)
    return gt.take(x, first + gt.arange(size, dtype="int64"), axis=axis)


def _within(start: Any, last: Any) -> Tensor:
    """A start as int64, moved to 0, ..., last."""
    return gt.clip(gt.cast(start, "int64"), 0, last)


def _dynamic_update_slice(_: Equation, x: Tensor, update: Tensor, *starts: Tensor) -> Tensor:
    if not x.ndim:
        return update
    places: list[Any] = []
    for axis, start in enumerate(starts):
        n, size = length(x, axis), length(update, axis)
        if n is size or (isinstance(n, int) and n == size):
            places.append(slice(None))
            continue
        first = _within(start, n - size)
        if isinstance(first.op, Constant) and isinstance(size, int):
            at = int(first.op.value)
            places.append(slice(at, at + size))
        else:
            places.append(first + gt.arange(size, dtype="int64"))
    if sum(not isinstance(place, slice) for place in places) > 1:
        places = _open(places, x)
    return gt.set_subtensor(x[tuple(places)], update)


def _open(places: Sequence[Any], x: Tensor) -> list[Any]:
    """Places along each axis as indices that broadcast to all combinations."""
    opened = []
    for axis, place in enumerate(places):
        if isinstance(place, slice):
            start, stop = place.start or 0, place.stop
            place = gt.arange(start, length(x, axis) if stop is None else stop, dtype="int64")
        opened.append(gt.dimshuffle(place, [0 if i == axis else "x" for i in range(x.ndim)]))
    return opened


@dataclass(frozen=True)
class Windows:
    """The windows of an array that a gather reads, or a scatter writes, one for each start.

    Attributes:
        axes: The array's axes along which windows have not all elements.
        places: The indices along these axes, which broadcast together: of the axes of the starts,
            then of those of the windows among ``axes``.
        inside: Whether a window is inside of the array, an array of the starts; None: all are.
        starts: How many axes the starts have.
        kept: The array's axes that the windows have.
    """

    axes: tuple[int, ...]
    places: tuple[Tensor, ...]
    inside: Tensor | None
    starts: int
    kept: tuple[int, ...]

    def rest(self, ndim: int) -> tuple[int, ...]:
        """The array's axes of which windows have all elements."""
        return tuple(axis for axis in range(ndim) if axis not in self.axes)

    def order(self, ndim: int, window_axes: Sequence[int]) -> list[int]:
        """Where the axes (starts, then windows by ``axes`` and by the rest) are in an array.

        Args:
            ndim: Of the array that is indexed.
            window_axes: The places of the windows' axes in that array, in the order of ``kept``.
        """
        n = self.starts + len(self.kept)
        of_starts = [i for i in range(n) if i not in window_axes]
        place = dict(zip(self.kept, window_axes, strict=True))
        walked = [*self.axes, *self.rest(ndim)]
        return [*of_starts, *[place[axis] for axis in walked if axis in place]]

    def mask(self, ndim: int) -> Tensor | None:
        """Whether a window is inside, to be broadcast over ``ndim`` axes, those of starts first."""
        if self.inside is None:
            return None
        return gt.dimshuffle(self.inside, [*range(self.starts), *["x"] * (ndim - self.starts)])


@dataclass(frozen=True)
class Numbers:
    """The dimension numbers of a gather or scatter, under one name for both.

    Attributes:
        windows: The axes of windows in the array of all windows.
        dropped: The array's axes that windows lack.
        starts: The array's axis of each coordinate of a start.
        batches: The array's axes that are batches, and the starts'.
    """

    windows: tuple[int, ...]
    dropped: tuple[int, ...]
    starts: tuple[int, ...]
    batches: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of_gather(cls, n: Any) -> Numbers:
        batches = (n.operand_batching_dims, n.start_indices_batching_dims)
        return cls(n.offset_dims, n.collapsed_slice_dims, n.start_index_map, batches)

    @classmethod
    def of_scatter(cls, n: Any) -> Numbers:
        batches = (n.operand_batching_dims, n.scatter_indices_batching_dims)
        starts = n.scatter_dims_to_operand_dims
        return cls(n.update_window_dims, n.inserted_window_dims, starts, batches)

    def kept(self, ndim: int) -> tuple[int, ...]:
        """The array's axes that windows have."""
        gone = {*self.dropped, *self.batches[0]}
        return tuple(axis for axis in range(ndim) if axis not in gone)


def _windows(
    x: Tensor, indices: Tensor, numbers: Numbers, sizes: Sequence[Any], clips: bool
) -> Windows:
    """The windows of an array at starts, whose coordinates are the last axis of ``indices``."""
    kept, n = numbers.kept(x.ndim), indices.ndim - 1
    full = [a for a in kept if _is_same(sizes[a], length(x, a))]
    axes = tuple(a for a in range(x.ndim) if a not in full)
    shown = [a for a in axes if a in kept]
    first, inside = _starts(x, indices, numbers, sizes, clips)
    places = []
    for axis in axes:
        begin = gt.as_tensor(first.get(axis, 0))
        place = gt.dimshuffle(begin, [*range(begin.ndim), *["x"] * len(shown)])
        if axis in shown and not _is_same(sizes[axis], 1):
            counted = gt.arange(sizes[axis], dtype="int64")
            at = n + shown.index(axis)
            order = [0 if i == at else "x" for i in range(n + len(shown))]
            place = place + gt.dimshuffle(counted, order)
        places.append(place)
    return Windows(axes, _whole(places, x, axes), inside, n, kept)


def _whole(places: Sequence[Tensor], x: Tensor, axes: Sequence[int]) -> tuple[Tensor, ...]:
    """Indices with as many axes as all of them together have."""
    ndim = max((p.ndim for p in places), default=0)
    return tuple(p if p.ndim == ndim else gt.dimshuffle(p, ["x"] * (ndim - p.ndim)) for p in places)


def _starts(
    x: Tensor, indices: Tensor, numbers: Numbers, sizes: Sequence[Any], clips: bool
) -> tuple[dict[int, Tensor], Tensor | None]:
    """Where windows start along axes of the array; and which windows are inside of it."""
    n = indices.ndim - 1
    first: dict[int, Tensor] = {}
    inside: Tensor | None = None
    for i, axis in enumerate(numbers.starts):
        start = gt.cast(indices[..., i], "int64")
        last = length(x, axis) - sizes[axis]
        first[axis] = gt.clip(start, 0, last)
        is_inside = gt.eq(start, first[axis])
        inside = is_inside if inside is None else inside & is_inside
    for axis, of_starts in zip(*numbers.batches, strict=True):
        counted = gt.arange(length(x, axis), dtype="int64")
        first[axis] = gt.dimshuffle(counted, [0 if i == of_starts else "x" for i in range(n)])
    return first, None if clips else inside


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def _mode(eqn: Equation) -> str:
    return str(getattr(eqn["mode"], "name", eqn["mode"]))


def _gather(eqn: Equation, x: Tensor, indices: Tensor) -> Tensor:
    numbers = Numbers.of_gather(eqn["dimension_numbers"])
    sizes = tuple(map(eqn.lengths, eqn["slice_sizes"]))
    fills = _mode(eqn) == "FILL_OR_DROP"
    if indices.ndim == 1 and not fills:
        for i, axis in enumerate(numbers.starts):
            x = _part(x, axis, indices[i], sizes[axis])
        return gt.squeeze(_beginnings(x, sizes), numbers.dropped) if x.ndim else x
    found = _windows(x, indices, numbers, sizes, clips=not fills)
    order = (*found.axes, *found.rest(x.ndim))
    taken = gt.transpose(x, order)[found.places] if found.axes else gt.transpose(x, order)
    mask = found.mask(taken.ndim)
    if mask is not None:
        taken = gt.where(mask, taken, _fill(eqn["fill_value"], x.dtype))
    places = found.order(x.ndim, numbers.windows)
    return gt.transpose(taken, tuple(np.argsort(places).tolist()))


def _beginnings(x: Tensor, sizes: Sequence[Any]) -> Tensor:
    """Each axis up to a size."""
    cuts = [
        slice(None) if _is_same(size, length(x, axis)) else slice(0, size)
        for axis, size in enumerate(sizes)
    ]
    return x[tuple(cuts)]


def _fill(value: Any, dtype: str) -> Any:
    """What a gather gives for windows outside of the array."""
    if value is None:
        if is_inexact(dtype):
            value = np.nan
        elif is_integer(dtype):
            bounds = np.iinfo(dtype)
            value = bounds.max if dtype.startswith("u") else bounds.min
        else:
            value = True
    return np.array(value, dtype)


def _scatter(write: str) -> Converter:
    """A scatter that sets, adds or combines otherwise."""

    def convert(eqn: Equation, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        if write == "set" and eqn["update_jaxpr"] is not None:
            raise Refusal
        numbers = Numbers.of_scatter(eqn["dimension_numbers"])
        kept = numbers.kept(x.ndim)
        lengths = eqn.operand_shape(2)
        sizes: list[Any] = [1] * x.ndim
        for axis, place in zip(kept, numbers.windows, strict=True):
            sizes[axis] = lengths[place]
        found = _windows(x, indices, numbers, sizes, clips=_mode(eqn) == "CLIP")
        is_unique = eqn["unique_indices"] or not found.starts
        values = gt.transpose(updates, tuple(found.order(x.ndim, numbers.windows)))
        return _written(x, values, found, WRITES[write] if is_unique or write in SAFE else None)

    return convert


def _written(x: Tensor, values: Tensor, found: Windows, write: Any) -> Tensor:
    if write is None:
        raise Refusal
    order = (*found.axes, *found.rest(x.ndim))
    moved = gt.transpose(x, order)
    if not found.axes:  # every window is all of the array
        if found.starts:
            raise Refusal
        new = write(moved, values)
        mask = found.mask(new.ndim)
        changed = new if mask is None else gt.where(mask, new, moved)
    elif found.inside is None:
        changed = write(moved[found.places], values)
    else:
        changed = _dropping(moved, values, found, write)
    return gt.transpose(changed, tuple(np.argsort(order).tolist()))


def _dropping(moved: Tensor, values: Tensor, found: Windows, write: Any) -> Tensor:
    """Write windows that are inside; the others go to a row that is cut off."""
    n = length(moved, 0)
    inside = found.mask(found.places[0].ndim)
    assert inside is not None
    places = (gt.where(inside, found.places[0], n), *found.places[1:])
    row = gt.zeros((1, *[length(moved, i) for i in range(1, moved.ndim)]), moved.dtype)
    changed: Tensor = write(gt.concatenate([moved, row])[places], values)
    return changed[:n]


SAFE = ("set", "add", "sub")
"""How a scatter may combine what it writes where windows overlap."""

WRITES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "set": gt.set_subtensor,
    "add": gt.inc_subtensor,
    "sub": lambda part, values: gt.inc_subtensor(part, -values),
    "mul": lambda part, values: gt.set_subtensor(part, part * values),
    "min": lambda part, values: gt.set_subtensor(part, gt.minimum(part, values)),
    "max": lambda part, values: gt.set_subtensor(part, gt.maximum(part, values)),
}

INDEX: dict[str, Converter] = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter("set"),
    "scatter-add": _scatter("add"),
    "scatter-sub": _scatter("sub"),
    "scatter-mul": _scatter("mul"),
    "scatter-min": _scatter("min"),
    "scatter-max": _scatter("max"),
}
"""Converters of primitives that read or write at indices."""
