"""Updates of arrays of unknown lengths: masks, and scatters of the valid elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from graphc.ir import Node
from graphc.link.padding.counts import Count, is_known, is_known_to_backend, is_same
from graphc.link.padding.graph import apply, rule
from graphc.link.padding.padded import (
    PaddedArray,
    agree,
    align,
    along,
    as_node,
    extend,
    index_axis,
    indices,
    length_of_buffer,
    make_padded,
    ndim_of,
    number,
    shape_of,
    unequal,
)
from graphc.link.padding.rules.index import Entries, IndexedPart, fill_entries, is_dynamic, position
from graphc.link.padding.slices import clamp, from_start, slice_span, take
from graphc.tensor.arrays.index import IndexUpdate, Range
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import equal, logical_and, logical_or, where
from graphc.tensor.core.tensor import Tensor, constant

ALL = slice(None)


@rule(IndexUpdate)
def index_update(op: IndexUpdate, node: Node, values: Sequence[Any]) -> Any:
    """Update by a mask, or by a scatter where the index has arrays."""
    x, value, *symbolic = align(node, values)
    value = as_node(value, node.inputs[1]) if isinstance(value, Count) else value
    entries = fill_entries(node, op.entries, symbolic)
    dynamic = [axis is not None and is_dynamic(i, shape_of(x)[axis]) for axis, i in entries]
    if not any(isinstance(v, PaddedArray) for v in (x, value, *symbolic)) and not any(dynamic):
        return apply(node, [x, value, *symbolic])
    if all(i is None or isinstance(i, int | slice) for _, i in entries):
        buffer = _update_by_mask(node, x, value, entries, accumulate=op.accumulate)
    else:
        part = IndexedPart.of(node, x, entries)
        buffer = _scatter(node, part, value)
        if any(dynamic):
            # The slices were read; their elements, some of them changed, are written back.
            pairs = zip(entries, dynamic, strict=True)
            outer = [(axis, i if flag else ALL) for (axis, i), flag in pairs if axis is not None]
            block = make_padded(buffer, part.lengths)
            buffer = _update_by_mask(node, x, block, outer, accumulate=False)
    return make_padded(buffer, shape_of(x))


def _update_by_mask(
    node: Node, x: Any, value: Any, entries: Entries, *, accumulate: bool
) -> Tensor:
    """Return the buffer of an array updated at an index without arrays."""
    buffer, mask = as_node(x), constant(np.True_)
    new, lengths = _along_axes(node, value, entries)
    for axis, entry in entries:
        if axis is None or (isinstance(entry, slice) and _is_all(entry)):
            continue
        size, n = length_of_buffer(buffer, axis), shape_of(x)[axis]
        if isinstance(entry, int):
            selected = equal(indices(size), as_node(position(node, entry, n)))
        else:
            span = slice_span(entry, n)
            selected = _slice_mask(size, span)
            if not is_same(lengths[axis], 1):
                agree(span[1], lengths[axis], unequal(node))
                new = _spread(new, axis, size, span)
        mask = logical_and(mask, along(selected, axis, buffer.ndim))
    if accumulate:
        new = logical_or(buffer, new) if buffer.type.dtype == "bool" else buffer + new
    return where(mask, new, buffer)


def _is_all(entry: slice) -> bool:
    return entry.start is None and entry.stop is None and entry.step in {None, 1}


def _along_axes(node: Node, value: Any, entries: Entries) -> tuple[Tensor, list[Any]]:
    """Return a value of an index without arrays, and its lengths, by the axes of the array.

    An integer's axis gets length 1; a new axis of the index is removed.
    """
    missing = sum(not isinstance(entry, int) for _, entry in entries) - ndim_of(value)
    own = iter([None] * missing + [*range(ndim_of(value))])
    moves: list[tuple[int | None, Any]] = []
    for axis, entry in entries:
        value_axis = None if isinstance(entry, int) else next(own)
        if axis is not None or value_axis is not None:
            moves.append((value_axis, 0 if axis is None else ALL))
    part = IndexedPart.of(node, value, moves)
    new = Tensor.make(part.index, part.buffer)
    return new, part.shape(new)


def _slice_mask(size: Any, span: tuple[Any, Any, int]) -> Tensor:
    """Return the mask of the elements of an axis that a slice selects."""
    start, count, step = span
    first, stride = as_node(start), abs(step)
    distance = indices(size) - first if step > 0 else first - indices(size)
    mask = logical_and(distance >= 0, distance < as_node(count * stride))
    return mask if stride == 1 else logical_and(mask, equal(distance % stride, 0))


def _spread(value: Tensor, axis: int, size: Any, span: tuple[Any, Any, int]) -> Tensor:
    """Move the elements of a slice to their positions along an axis of the given length."""
    start, _, step = span
    if is_known(start) and int(start) == 0 and step == 1 and isinstance(size, int):
        return extend(value, {axis: size})
    if value.type.shape[axis] == 0:
        return extend(value, {axis: 1})
    return take(value, (indices(size) - as_node(start)) // step, axis)


def _scatter(node: Node, part: IndexedPart, value: Any) -> Tensor:
    """Return the buffer of a part's array, updated at the valid elements of index arrays.

    Zeros are added for other elements of index arrays; a set writes these to a spare element, which
    is then dropped.
    """
    op: Any = node.op
    buffer, operands = part.buffer, [*map(as_node, part.operands)]
    if any(buffer.type.shape[axis] == 0 for _, axis in part.arrays):
        return buffer
    y = Tensor.make(part.index, buffer, *operands)
    value = _fit(node, value, part.shape(y), y)
    valid: list[Tensor] = []
    spare = None
    for k, axis in part.arrays:
        i, n = part.operands[k], part.lengths[axis]
        if isinstance(i, PaddedArray) or not is_known_to_backend(n):
            positions = from_start(operands[k], n)
            valid += [positions >= 0, positions < as_node(n)]
            valid += [i.inside()] if isinstance(i, PaddedArray) else []
            operands[k] = clamp(positions, n)
            spare = k, axis
    update = IndexUpdate(part.index.entries, op.accumulate)
    if spare is None:
        return Tensor.make(update, buffer, value, *operands)
    mask = reduce(logical_and, valid)
    if op.accumulate:
        last = mask.ndim + y.ndim - part.index.array_axis() - len(part.array_shape)
        mask = expand_dims(mask, tuple(range(mask.ndim, last))) if last > mask.ndim else mask
        return Tensor.make(update, buffer, where(mask, value, number(0, value)), *operands)
    k, axis = spare
    size = length_of_buffer(buffer, axis)
    operands[k] = where(mask, operands[k], as_node(size))
    extended = extend(buffer, {axis: size + 1})
    return index_axis(Tensor.make(update, extended, value, *operands), axis, Range(None, -1))


def _fit(node: Node, value: Any, lengths: Sequence[Any], part: Tensor) -> Tensor:
    """Cut or extend a value so that it broadcasts to the buffer of a part of these lengths."""
    new = as_node(value)
    sizes = {}
    for axis, n in enumerate(shape_of(value), -new.ndim):
        size = part.type.shape[axis]
        if not is_same(n, 1) and isinstance(size, int):
            agree(lengths[axis], n, unequal(node))
            sizes[axis % new.ndim] = size
    return extend(new, sizes)
