"""Updates of arrays of unknown lengths: masks, and scatters that drop unused indices."""

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
    arrays,
    inner,
    ragged,
    rule,
    unequal,
    within,
)
from graphc.link.jax.counts import Count, as_count, is_known, times
from graphc.link.jax.lower.arrays.bounded_index import (
    Part,
    as_array,
    index_arrays,
    parts_of,
    place_of,
    shape_of,
    sliced,
    span_of,
)
from graphc.tensor.arrays.index import Index, IndexUpdate


@rule(IndexUpdate)
def update_of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Update along axes of unknown lengths by masks; by index arrays, scatter."""
    op: Any = node.op
    x, value, *symbolic = values
    parts = parts_of(node, op.entries, symbolic)
    if not any(isinstance(v, Ragged) for v in values) and all(part.is_static for part in parts):
        return lowering(op, *arrays(node, values))
    value = as_array(value)
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
            mask = mask & (places == place_of(node, entry, n))
            given.insert(own)
        elif not part.is_all or isinstance(n, Count):
            span = span_of(entry, n)
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
    return Part(jnp.asarray(place_of(node, part.entry, lengths[part.axis])), part.axis, 0)


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
            buffer, lengths[axis] = sliced(buffer, lengths[axis], axis, part.entry)
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
    pairs, shape = index_arrays(node, parts, x.shape, [*node.inputs[2:]], symbolic)
    buffer = inner(x)
    read = Index(tuple(part.static_entry for part in parts))
    full = np.broadcast_shapes(*[i.shape for i, _ in pairs])
    target = shape_of(read, buffer, x.shape, shape)
    lengths = shape_of(read, buffer, buffer.shape, full)
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
