"""Indexing with unknown lengths: slices shift the buffer, and index arrays are clamped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from typing import Any

import numpy as np

from graphc.ir import Node
from graphc.link.padding.counts import Count, is_known, is_known_to_backend, is_same, least, most
from graphc.link.padding.graph import rule
from graphc.link.padding.padded import (
    PaddedArray,
    align,
    as_node,
    at_least,
    extend,
    make_padded,
    outside,
    shape_of,
    unknown_length,
)
from graphc.link.padding.slices import clamp, from_start, slice_buffer
from graphc.tensor.arrays.index import EVERYTHING, HOLE, Entry, Hole, Index, Range
from graphc.tensor.core.tensor import Tensor

Entries = Sequence[tuple[int | None, Any]]
"""For each entry of an index the axis and an integer, a slice whose bounds may be counts, or an
index array; None and None for a new axis."""


def fill_entries(node: Node, entries: Sequence[Entry], symbolic: Sequence[Any]) -> Entries:
    """Return the entries of an index, with its symbolic numbers and arrays filled in."""
    operands = (int(i) if is_known(i) and not np.ndim(i) else i for i in symbolic)
    filled: list[tuple[int | None, Any]] = []
    axis = 0
    for entry in entries:
        value: Any = next(operands) if isinstance(entry, Hole) else entry
        if isinstance(entry, Range):
            value = slice(*[next(operands) if isinstance(p, Hole) else p for p in entry.parts])
            if not isinstance(value.step, int | None) or value.step == 0:
                raise unknown_length(node)
        filled.append((None if entry is None else axis, value))
        axis += entry is not None
    return filled


def is_dynamic(entry: Any, n: Any) -> bool:
    """Return whether an entry is a slice that a backend cannot apply to an axis of length n."""
    if not isinstance(entry, slice):
        return False
    parts = (entry.start, entry.stop, n)
    return not all(part is None or is_known_to_backend(part) for part in parts)


def position(node: Node, i: int, n: Any) -> Any:
    """Return a static index counted from the start, after a check against the length."""
    at_least(n, i + 1 if i >= 0 else -i, outside(node, i))
    return i if i >= 0 else most(n + i, 0)


@dataclass(frozen=True)
class IndexedPart:
    """A part of an array: a slice of its buffer, and an index of the slice.

    Attributes:
        buffer: The slice.
        lengths: The length of each axis of the slice.
        index: The index, with known or exact bounds.
        operands: A value for each hole of the index.
        arrays: The positions of the index arrays among the operands, and their axes.
    """

    buffer: Tensor
    lengths: Sequence[Any]
    index: Index
    operands: Sequence[Any]
    arrays: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, node: Node, x: Any, entries: Entries) -> IndexedPart:
        """Return the part of an array that an index selects.

        Args:
            node: The node, for errors.
            x: The array.
            entries: The index.
        """
        buffer, lengths = as_node(x), list(shape_of(x))
        static: list[Entry] = []
        operands: list[Any] = []
        arrays: list[tuple[int, int]] = []
        for axis, entry in entries:
            if axis is None:
                static.append(None)
                continue
            n = lengths[axis]
            if is_dynamic(entry, n):
                buffer, lengths[axis] = slice_buffer(buffer, n, axis, entry)
                static.append(EVERYTHING)
            elif isinstance(entry, slice):
                bounds = (entry.start, entry.stop, entry.step)
                operands += [i.node for i in bounds if isinstance(i, Count)]
                static.append(Range(*[HOLE if isinstance(i, Count) else i for i in bounds]))
            elif isinstance(entry, int) and is_known_to_backend(n):
                static.append(entry)
            else:
                if isinstance(entry, int):
                    entry = position(node, entry, n)
                else:
                    # Empty index arrays may select elements of an empty axis.
                    at_least(n, least(prod(shape_of(entry)), 1), outside(node, 0))
                static.append(HOLE)
                arrays.append((len(operands), axis))
                operands.append(entry)
        return cls(buffer, lengths, Index(tuple(static)), operands, arrays)

    @property
    def array_shape(self) -> list[Any]:
        """The lengths of the index arrays' axes in the result."""
        shapes = [reversed(shape_of(self.operands[k])) for k, _ in self.arrays]
        axes = zip_longest(*shapes, fillvalue=1)
        return [next((n for n in axis if not is_same(n, 1)), 1) for axis in axes][::-1]

    def shape(self, y: Tensor) -> list[Any]:
        """Return the lengths of the part, given its buffer."""
        lengths: list[Any] = []
        axis = 0
        for entry in self.index.entries:
            if entry is None or isinstance(entry, Range):
                lengths.append(self.lengths[axis] if entry == EVERYTHING else None)
            axis += entry is not None
        if self.arrays:
            first = self.index.array_axis()
            lengths[first:first] = self.array_shape
        return [m if n is None else n for n, m in zip(lengths, shape_of(y), strict=True)]


@rule(Index)
def index(op: Index, node: Node, values: Sequence[Any]) -> Any:
    """Slice along the axes of unknown lengths first, then index as usual."""
    x, *symbolic = align(node, values)
    part = IndexedPart.of(node, x, fill_entries(node, op.entries, symbolic))
    buffer, operands = part.buffer, list(part.operands)
    for k, axis in part.arrays:
        i, n = operands[k], part.lengths[axis]
        if isinstance(i, PaddedArray) or not is_known_to_backend(n):
            operands[k] = clamp(from_start(as_node(i), n), n)
            if buffer.type.shape[axis] == 0:
                buffer = extend(buffer, {axis: 1})
    y = Tensor.make(part.index, buffer, *map(as_node, operands))
    return make_padded(y, part.shape(y))
