"""Indexing in ``jax.lax`` where the index is static, in ``jax.numpy`` otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim

from graphc.link.jax.backend import backend
from graphc.link.jax.symbolic import at_least, has_symbols, least, most, part
from graphc.tensor.arrays.index import Hole, Index, IndexUpdate, selection
from graphc.tensor.core.shape import are_equal


@dataclass(frozen=True)
class Box:
    """A basic index with known lengths: what to slice, reverse, drop and add on each axis.

    Starts and counts, like lengths, may be symbols.
    """

    starts: tuple[Any, ...]
    counts: tuple[Any, ...]
    steps: tuple[int, ...]
    reversed: tuple[int, ...]
    shape: tuple[Any, ...]

    @classmethod
    def of(cls, index: Sequence[Any], lengths: Sequence[int]) -> Box:
        """Make a ``Box`` of an index of integers, slices and new axes."""
        starts, counts, steps, back, shape = [], [], [], [], []
        axis = 0
        for entry in index:
            if entry is None:
                shape.append(1)
                continue
            n = lengths[axis]
            if not isinstance(entry, slice) and not _is_within(entry, n):
                raise IndexError(f"index {entry} is out of bounds for axis {axis} of length {n}")
            start, count, step = _part(entry, n)
            starts.append(start)
            counts.append(count)
            steps.append(abs(step))
            if step < 0 and count != 1:
                back.append(axis)
            if isinstance(entry, slice):
                shape.append(count)
            axis += 1
        return cls(tuple(starts), tuple(counts), tuple(steps), tuple(back), tuple(shape))

    @property
    def ends(self) -> tuple[Any, ...]:
        """The place behind the last element on each axis; the start where there is none."""
        parts = zip(self.starts, self.counts, self.steps, strict=True)
        return tuple(
            start + (count if step == 1 else most(count * step - step + 1, 0))
            for start, count, step in parts
        )

    def read(self, x: Any) -> Any:
        """Read that part of an array."""
        whole = self.counts == x.shape
        if not whole:
            x = lax.slice(x, self.starts, self.ends, self.steps)
        if self.reversed:
            x = lax.rev(x, self.reversed)
        return x if x.shape == self.shape else lax.reshape(x, self.shape)

    def spread(self, value: Any, lengths: Sequence[int]) -> Any:
        """Pad a part's value to the array's shape with zeros."""
        value = lax.reshape(jnp.broadcast_to(value, self.shape), self.counts)
        if self.reversed:
            value = lax.rev(value, self.reversed)
        sides = zip(self.starts, lengths, self.ends, self.steps, strict=True)
        padding = [(start, n - end, step - 1) for start, n, end, step in sides]
        return lax.pad(value, np.zeros((), value.dtype), padding)


def _is_within(i: int, n: Any) -> bool:
    """Whether an index is one of an axis of that length."""
    return at_least(n, -i if i < 0 else i + 1)


def _part(entry: Any, n: Any) -> tuple[Any, Any, int]:
    """The first of the places that an index takes of an axis, how many there are, and the step."""
    if not isinstance(entry, slice):
        return n + entry if entry < 0 else entry, 1, 1
    if has_symbols((n, entry.start, entry.stop, entry.step)):
        first, count, step = part(entry, n)
        return (first if step > 0 else least(first - (count - 1) * -step, first + 1)), count, step
    places = range(n)[entry]
    count, step = len(places), places.step
    return (places[-1] if step < 0 else places[0]) if count else 0, count, step


def _place(start: Any) -> Any:
    return jnp.asarray(start, np.int32) if is_symbolic_dim(start) else np.int32(start)


def is_basic(op: Index | IndexUpdate) -> bool:
    """Whether an index holds no integer array and no symbolic integer."""
    return not any(isinstance(entry, Hole) for entry in op.entries)


def _filled(op: Index | IndexUpdate, x: Any, symbolic: Sequence[Any]) -> Any:
    """Fill symbolic parts of an index in; known ones must be within bounds."""
    # jax.numpy counts a negative index from the end in its own dtype, which may be too narrow.
    wide = [_wide(i) for i in symbolic]
    index = selection(op.entries, wide)
    axes = (entry for entry in index if entry is not None)
    for axis, (entry, n) in enumerate(zip(axes, x.shape, strict=True)):
        if n == 0 and getattr(entry, "size", None):
            raise IndexError(f"an index is out of bounds for axis {axis} of length 0")
        if isinstance(entry, np.ndarray) and entry.size:
            for i in (int(entry.min()), int(entry.max())):
                if not _is_within(i, n):
                    raise IndexError(f"index {i} is out of bounds for axis {axis} of length {n}")
    return index


def _wide(i: Any) -> Any:
    if is_symbolic_dim(i) or i.dtype == bool or i.dtype.itemsize >= 4:
        return i
    return i.astype(np.int32)


def _check_fit(value: Any, shape: Sequence[Any]) -> None:
    """Raise where a value with symbols for lengths does not fit a part of that shape."""
    pairs = list(zip(reversed(value.shape), reversed(shape), strict=False))
    if has_symbols([value, *shape]) and not all(n == 1 or are_equal(n, m) for n, m in pairs):
        raise ValueError(f"a value of shape {value.shape} for a part of shape {tuple(shape)}")


@backend.lower(Index)
def getitem(op: Index, x: Any, *symbolic: Any) -> Any:
    """Read an array: slice for a basic index, else gather."""
    index = _filled(op, x, symbolic)
    if is_basic(op):
        return Box.of(index, x.shape).read(x)
    return jnp.asarray(x)[index]


@backend.lower(IndexUpdate)
def update(op: IndexUpdate, x: Any, value: Any, *symbolic: Any) -> Any:
    """Update an array: pad, write a slice or select for a basic index, else scatter."""
    index = _filled(op, x, symbolic)
    if is_basic(op):
        box = Box.of(index, x.shape)
        _check_fit(value, box.shape)
        if op.accumulate:
            # Of bools, the sum is "or".
            add = lax.bitwise_or if x.dtype == bool else lax.add
            return add(x, box.spread(value, x.shape))
        if all(step == 1 for step in box.steps) and not box.reversed:
            value = lax.reshape(jnp.broadcast_to(value, box.shape), box.counts)
            return lax.dynamic_update_slice(x, value, list(map(_place, box.starts)))
        return lax.select(box.spread(np.True_, x.shape), box.spread(value, x.shape), x)
    place = jnp.asarray(x).at[index]
    if not op.accumulate:
        return place.set(value)
    return place.max(value) if x.dtype == bool else place.add(value)
