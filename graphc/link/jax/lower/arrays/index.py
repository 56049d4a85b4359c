"""Indexing in ``jax.lax`` where the index is static, in ``jax.numpy`` otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.arrays.index import Hole, Index, IndexUpdate, selection


@dataclass(frozen=True)
class Box:
    """A basic index with known lengths: what to slice, reverse, drop and add on each axis."""

    starts: tuple[int, ...]
    counts: tuple[int, ...]
    steps: tuple[int, ...]
    reversed: tuple[int, ...]
    shape: tuple[int, ...]

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
            places = (
                range(n)[entry] if isinstance(entry, slice) else range(n)[entry : entry + 1 or n]
            )
            count = len(places)
            step = places.step
            starts.append((places[-1] if step < 0 else places[0]) if count else 0)
            counts.append(count)
            steps.append(abs(step))
            if step < 0 and count > 1:
                back.append(axis)
            if isinstance(entry, slice):
                shape.append(count)
            elif not count:
                raise IndexError(f"index {entry} is out of bounds for axis {axis} of length {n}")
            axis += 1
        return cls(tuple(starts), tuple(counts), tuple(steps), tuple(back), tuple(shape))

    def read(self, x: Any) -> Any:
        """Read that part of an array."""
        whole = self.counts == x.shape
        if not whole:
            ends = (
                start + (count - 1) * step + 1 if count else start
                for start, count, step in zip(self.starts, self.counts, self.steps, strict=True)
            )
            x = lax.slice(x, self.starts, tuple(ends), self.steps)
        if self.reversed:
            x = lax.rev(x, self.reversed)
        return x if x.shape == self.shape else lax.reshape(x, self.shape)

    def spread(self, value: Any, lengths: Sequence[int]) -> Any:
        """Pad a part's value to the array's shape with zeros."""
        value = lax.reshape(jnp.broadcast_to(value, self.shape), self.counts)
        if self.reversed:
            value = lax.rev(value, self.reversed)
        padding = []
        for start, count, step, n in zip(
            self.starts, self.counts, self.steps, lengths, strict=True
        ):
            end = start + (count - 1) * step + 1 if count else start
            padding.append((start, n - end, step - 1 if count > 1 else 0))
        return lax.pad(value, np.zeros((), value.dtype), padding)


def is_basic(op: Index | IndexUpdate) -> bool:
    """Whether an index holds no integer array and no symbolic integer."""
    return not any(isinstance(entry, Hole) for entry in op.entries)


def _filled(op: Index | IndexUpdate, x: Any, symbolic: Sequence[Any]) -> Any:
    """Fill symbolic parts of an index in; known ones must be within bounds."""
    # jax.numpy counts a negative index from the end in its own dtype, which may be too narrow.
    wide = [i.astype(np.int32) if i.dtype.itemsize < 4 and i.dtype != bool else i for i in symbolic]
    index = selection(op.entries, wide)
    axes = (entry for entry in index if entry is not None)
    for axis, (entry, n) in enumerate(zip(axes, x.shape, strict=True)):
        if not n and getattr(entry, "size", None):
            raise IndexError(f"an index is out of bounds for axis {axis} of length 0")
        if isinstance(entry, np.ndarray) and entry.size:
            for i in (entry.min(), entry.max()):
                if not -n <= i < n:
                    raise IndexError(f"index {i} is out of bounds for axis {axis} of length {n}")
    return index


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
        if op.accumulate:
            # Of bools, the sum is "or".
            add = lax.bitwise_or if x.dtype == bool else lax.add
            return add(x, box.spread(value, x.shape))
        if all(step == 1 for step in box.steps) and not box.reversed:
            value = lax.reshape(jnp.broadcast_to(value, box.shape), box.counts)
            return lax.dynamic_update_slice(x, value, [np.int32(start) for start in box.starts])
        return lax.select(box.spread(np.True_, x.shape), box.spread(value, x.shape), x)
    place = jnp.asarray(x).at[index]
    if not op.accumulate:
        return place.set(value)
    return place.max(value) if x.dtype == bool else place.add(value)
