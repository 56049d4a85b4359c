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
from graphc.link.jax.symbolic import at_least, has_symbols, least, most, part as symbolic_slice
from graphc.rewrite.loops.windows import ReadWindow, WriteWindow
from graphc.tensor.arrays.index import Hole, Index, IndexUpdate, selection
from graphc.tensor.arrays.select import CheckedIndices
from graphc.tensor.core.shape import are_equal, target_shape


@dataclass(frozen=True)
class StaticIndex:
    """A basic index of an array of known shape.

    Attributes:
        starts: The first index along each axis; it may be a symbol, like the counts.
        counts: The number of elements along each axis.
        steps: The distance of two elements along each axis, positive.
        reversed: The axes whose elements are then reversed.
        shape: The shape of the result, without integers' axes and with new axes.
    """

    starts: tuple[Any, ...]
    counts: tuple[Any, ...]
    steps: tuple[int, ...]
    reversed: tuple[int, ...]
    shape: tuple[Any, ...]

    @classmethod
    def of(cls, index: Sequence[Any], lengths: Sequence[int]) -> StaticIndex:
        """Return the ``StaticIndex`` of integers, slices and new axes."""
        starts, counts, steps, reversed_axes, shape = [], [], [], [], []
        axis = 0
        for entry in index:
            if entry is None:
                shape.append(1)
                continue
            n = lengths[axis]
            if not isinstance(entry, slice) and not _is_within(entry, n):
                raise IndexError(f"index {entry} is out of bounds for axis {axis} of length {n}")
            start, count, step = _axis_slice(entry, n)
            starts.append(start)
            counts.append(count)
            steps.append(abs(step))
            if step < 0 and count != 1:
                reversed_axes.append(axis)
            if isinstance(entry, slice):
                shape.append(count)
            axis += 1
        return cls(tuple(starts), tuple(counts), tuple(steps), tuple(reversed_axes), tuple(shape))

    @property
    def ends(self) -> tuple[Any, ...]:
        """The index after the last element on each axis; the start for no elements."""
        axes = zip(self.starts, self.counts, self.steps, strict=True)
        return tuple(
            start + (count if step == 1 else most(count * step - step + 1, 0))
            for start, count, step in axes
        )

    def read(self, x: Any) -> Any:
        """Read the indexed elements of an array."""
        if self.counts != x.shape:
            x = lax.slice(x, self.starts, self.ends, self.steps)
        if self.reversed:
            x = lax.rev(x, self.reversed)
        return x if x.shape == self.shape else lax.reshape(x, self.shape)

    def spread(self, value: Any, lengths: Sequence[int]) -> Any:
        """Pad a value of the result's shape with zeros to the array's shape."""
        value = lax.reshape(jnp.broadcast_to(value, self.shape), self.counts)
        if self.reversed:
            value = lax.rev(value, self.reversed)
        sides = zip(self.starts, lengths, self.ends, self.steps, strict=True)
        padding = [(start, n - end, step - 1) for start, n, end, step in sides]
        return lax.pad(value, np.zeros((), value.dtype), padding)


def _is_within(i: int, n: Any) -> bool:
    return at_least(n, -i if i < 0 else i + 1)


def _axis_slice(entry: Any, n: Any) -> tuple[Any, Any, int]:
    """Return the lowest index that an entry selects, the element count and the step."""
    if not isinstance(entry, slice):
        return n + entry if entry < 0 else entry, 1, 1
    if has_symbols((n, entry.start, entry.stop, entry.step)):
        first, count, step = symbolic_slice(entry, n)
        return (first if step > 0 else least(first - (count - 1) * -step, first + 1)), count, step
    positions = range(n)[entry]
    count, step = len(positions), positions.step
    return (positions[-1] if step < 0 else positions[0]) if count else 0, count, step


def _start(start: Any) -> Any:
    return jnp.asarray(start, np.int32) if is_symbolic_dim(start) else np.int32(start)


def is_basic(op: Index | IndexUpdate) -> bool:
    """Return whether an index has neither integer arrays nor symbolic integers."""
    return not any(isinstance(entry, Hole) for entry in op.entries)


def _fill_symbolic(op: Index | IndexUpdate, x: Any, symbolic: Sequence[Any]) -> Any:
    """Fill in the symbolic numbers of an index; check the known ones."""
    # jax.numpy counts a negative index from the end in its own dtype, which may be too narrow.
    wide = [_widen(i) for i in symbolic]
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


def _widen(i: Any) -> Any:
    if is_symbolic_dim(i) or i.dtype == bool or i.dtype.itemsize >= 4:
        return i
    return i.astype(np.int32)


def _check_fit(value: Any, shape: Sequence[Any]) -> None:
    """Raise where a value with symbolic lengths does not fit a shape."""
    pairs = list(zip(reversed(value.shape), reversed(shape), strict=False))
    if has_symbols([value, *shape]) and not all(n == 1 or are_equal(n, m) for n, m in pairs):
        raise ValueError(f"a value of shape {value.shape} for an index of shape {tuple(shape)}")


@backend.lower(Index)
def getitem(op: Index, x: Any, *symbolic: Any) -> Any:
    """Slice for a basic index, else gather."""
    index = _fill_symbolic(op, x, symbolic)
    if is_basic(op):
        return StaticIndex.of(index, x.shape).read(x)
    return jnp.asarray(x)[index]


@backend.lower(IndexUpdate)
def update(op: IndexUpdate, x: Any, value: Any, *symbolic: Any) -> Any:
    """Pad, write a slice or select for a basic index, else scatter."""
    index = _fill_symbolic(op, x, symbolic)
    if is_basic(op):
        selected = StaticIndex.of(index, x.shape)
        _check_fit(value, selected.shape)
        if op.accumulate:
            # The sum of bools is "or".
            add = lax.bitwise_or if x.dtype == bool else lax.add
            return add(x, selected.spread(value, x.shape))
        if all(step == 1 for step in selected.steps) and not selected.reversed:
            value = lax.reshape(jnp.broadcast_to(value, selected.shape), selected.counts)
            return lax.dynamic_update_slice(x, value, list(map(_start, selected.starts)))
        return lax.select(selected.spread(np.True_, x.shape), selected.spread(value, x.shape), x)
    target = jnp.asarray(x).at[index]
    if not op.accumulate:
        return target.set(value)
    return target.max(value) if x.dtype == bool else target.add(value)


@backend.lower(ReadWindow)
def read_window(op: ReadWindow, x: Any, start: Any, *size: Any) -> Any:
    (n,) = target_shape((op.size,), size)
    return lax.dynamic_slice_in_dim(x, start, n, op.axis)


@backend.lower(WriteWindow)
def write_window(op: WriteWindow, x: Any, window: Any, start: Any) -> Any:
    return lax.dynamic_update_slice_in_dim(x, window, start, op.axis)


@backend.lower(CheckedIndices)
def checked_indices(op: CheckedIndices, i: Any, n: Any) -> Any:
    """Check known indices; traced ones are not checked."""
    if isinstance(i, np.ndarray | np.generic) and isinstance(n, np.ndarray | np.generic | int):
        return op.perform(np.asarray(i), np.asarray(n))
    return jnp.broadcast_to(i, jnp.broadcast_shapes(i.shape, jnp.shape(n)))
