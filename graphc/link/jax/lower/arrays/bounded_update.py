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
    make_ragged,
    rule,
    unequal,
    within,
)
from graphc.link.jax.counts import Count, as_count, is_known, times
from graphc.link.jax.lower.arrays.bounded_index import (
    AxisIndex,
    as_array,
    axis_indices,
    checked_position,
    gather_index_arrays,
    shape_of,
    slice_buffer,
    slice_span,
)
from graphc.tensor.arrays.index import Index, IndexUpdate


@rule(IndexUpdate)
def ragged_update(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Update by a mask, or by a scatter where the index has arrays."""
    op: Any = node.op
    x, value, *symbolic = values
    indices = axis_indices(node, op.entries, symbolic)
    if not any(isinstance(v, Ragged) for v in values) and all(index.is_static for index in indices):
        return lowering(op, *arrays(node, values))
    value = as_array(value)
    if any(index.is_array for index in indices):
        buffer = _scatter(node, lowering, x, value, indices)
    else:
        single = [n == 1 for n in node.inputs[1].type.shape]
        buffer = _update_by_mask(node, x, value, indices, single, accumulate=op.accumulate)
    return make_ragged(buffer, x.shape)


def _update_by_mask(
    node: Node,
    x: Any,
    value: Any,
    indices: Sequence[AxisIndex],
    single: Sequence[bool],
    *,
    accumulate: bool,
) -> Any:
    """Return the buffer of an array updated at an index without arrays.

    Args:
        node: The update, which errors name.
        x: The array.
        value: The values to write or to add.
        indices: The index.
        single: For each axis of the value whether it is broadcast.
        accumulate: Whether the value is added.
    """
    buffer = inner(x)
    aligned = _Value.of(value, single, sum(not isinstance(index.entry, int) for index in indices))
    mask: Any = np.True_
    value_axis = 0
    for index in indices:
        axis, entry = index.axis, index.entry
        if axis is None:
            aligned.remove(node, value_axis)
            continue
        n = x.shape[axis]
        if isinstance(entry, int):
            positions = lax.broadcasted_iota(np.int64, buffer.shape, axis)
            mask = mask & (positions == checked_position(node, entry, n))
            aligned.insert(value_axis)
        elif not index.is_all or isinstance(n, Count):
            span = slice_span(entry, n)
            mask = mask & _slice_mask(buffer.shape, axis, span)
            aligned.spread(node, value_axis, buffer.shape[axis], span)
        value_axis += 1
    value = aligned.buffer
    if accumulate:
        value = buffer | value if buffer.dtype == bool else buffer + value
    return jnp.where(mask, value, buffer)


def _slice_mask(shape: Sequence[int], axis: int, span: tuple[Any, Any, int]) -> Any:
    """Return the mask of the elements along an axis that a slice selects."""
    start, count, step = span
    stride = abs(step)
    distance = lax.broadcasted_iota(np.int64, shape, axis) - as_count(start).value
    distance = distance if step > 0 else -distance
    mask = (distance >= 0) & (distance < as_count(times(count, stride)).value)
    return mask if stride == 1 else mask & (distance % stride == 0)


@dataclass
class _Value:
    """The value of an update, whose axes become the array's axes one by one.

    Attributes:
        buffer: The elements.
        lengths: The length of each axis.
        single: For each axis whether it is broadcast.
    """

    buffer: Any
    lengths: list[Any]
    single: list[bool]

    @classmethod
    def of(cls, value: Any, single: Sequence[bool], ndim: int) -> _Value:
        """Return a value expanded to ``ndim`` axes."""
        new = ndim - value.ndim
        buffer = jnp.asarray(inner(value))
        return cls(
            lax.expand_dims(buffer, range(new)),
            [1] * new + list(value.shape),
            [True] * new + list(single),
        )

    def remove(self, node: Node, axis: int) -> None:
        """Remove an axis of length 1, which the index adds."""
        agree(self.lengths.pop(axis), 1, unequal(node))
        self.single.pop(axis)
        self.buffer = lax.index_in_dim(self.buffer, 0, axis, keepdims=False)

    def insert(self, axis: int) -> None:
        """Insert an axis that an integer of the index drops."""
        self.lengths.insert(axis, 1)
        self.single.insert(axis, True)
        self.buffer = lax.expand_dims(self.buffer, (axis,))

    def spread(self, node: Node, axis: int, n: int, span: tuple[Any, Any, int]) -> None:
        """Move the elements of a slice to their positions along an axis of length n."""
        if self.single[axis]:
            return
        start, count, step = span
        agree(count, self.lengths[axis], unequal(node))
        size = self.buffer.shape[axis]
        if not size or (is_known(start) and int(start) == 0 and step == 1):
            self.buffer = _resize(self.buffer, n, axis)
            return
        sources = (lax.iota(np.int64, n) - as_count(start).value) // step
        self.buffer = jnp.take(self.buffer, jnp.clip(sources, 0, size - 1), axis, mode="clip")


def _resize(buffer: Any, n: int, axis: int) -> Any:
    """Cut a buffer along an axis, or pad it with zeros."""
    sides = [(0, n - buffer.shape[axis] if i == axis else 0, 0) for i in range(buffer.ndim)]
    return lax.pad(buffer, np.zeros((), buffer.dtype), sides)


def _as_array_index(node: Node, index: AxisIndex, lengths: Sequence[Any]) -> AxisIndex:
    """Return an integer that indexes a ragged axis as an array without axes."""
    if index.axis is None or not isinstance(index.entry, int) or is_known(lengths[index.axis]):
        return index
    return AxisIndex(
        jnp.asarray(checked_position(node, index.entry, lengths[index.axis])), index.axis, 0
    )


def _is_dynamic_slice(lengths: Sequence[Any], index: AxisIndex) -> bool:
    """Return whether an entry is a slice whose start or length is unknown."""
    if not isinstance(index.entry, slice) or index.is_all or index.axis is None:
        return False
    return not (index.is_static and is_known(lengths[index.axis]))


def _scatter_within_slices(
    node: Node,
    lowering: Lowering,
    x: Any,
    value: Any,
    indices: Sequence[AxisIndex],
) -> Any:
    """Read the dynamic slices, scatter into them, and write them back."""
    buffer, lengths = inner(x), list(x.shape)
    inner_indices, outer_indices = [], []
    for index in indices:
        axis = index.axis
        is_dynamic = _is_dynamic_slice(x.shape, index)
        if is_dynamic and axis is not None:
            buffer, lengths[axis] = slice_buffer(buffer, lengths[axis], axis, index.entry)
        inner_indices.append(AxisIndex(slice(None), axis) if is_dynamic else index)
        if axis is not None:
            outer_indices.append(index if is_dynamic else AxisIndex(slice(None), axis))
    block = make_ragged(buffer, lengths)
    changed = make_ragged(_scatter(node, lowering, block, value, inner_indices), block.shape)
    return _update_by_mask(node, x, changed, outer_indices, [False] * x.ndim, accumulate=False)


def _scatter(
    node: Node,
    lowering: Lowering,
    x: Any,
    value: Any,
    indices: Sequence[AxisIndex],
) -> Any:
    """Scatter; indices of unused elements are out of bounds, and JAX drops these."""
    op: Any = node.op
    indices = [_as_array_index(node, index, x.shape) for index in indices]
    if any(map(partial(_is_dynamic_slice, x.shape), indices)):
        return _scatter_within_slices(node, lowering, x, value, indices)
    pairs, shape = gather_index_arrays(node, indices, x.shape, node.inputs[2:])
    buffer = inner(x)
    static = Index(tuple(index.static_entry for index in indices))
    full = np.broadcast_shapes(*[i.shape for i, _ in pairs])
    target = shape_of(static, buffer, x.shape, shape)
    lengths = shape_of(static, buffer, buffer.shape, full)
    new = inner(value)
    for axis in range(value.ndim):
        target_axis = axis - value.ndim + len(target)
        if node.inputs[1].type.shape[axis] != 1:
            agree(target[target_axis], value.shape[axis], unequal(node))
            new = _resize(new, lengths[target_axis], axis)
    axes = [index.axis for index in indices if index.is_array]
    arrays = []
    for (i, n), indexed in zip(pairs, axes, strict=True):
        mask = (i >= 0) & (i < as_count(n).value)
        for axis, m in enumerate(shape):
            array_axis = axis - len(shape) + i.ndim
            if isinstance(m, Count) and array_axis >= 0 and i.shape[array_axis] == full[axis]:
                mask = mask & within(i.shape, array_axis, m)
        arrays.append(jnp.where(mask, i, buffer.shape[indexed]))
    return lowering(IndexUpdate(static.entries, op.accumulate), buffer, new, *arrays)
