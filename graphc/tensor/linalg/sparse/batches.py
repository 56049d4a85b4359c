"""Fronts of a sparse factor that are worked on at once, padded to equal sizes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.tensor.linalg.sparse.layout import Layout, ranges

Array = np.ndarray[Any, Any]

TOGETHER = 2**17
"""The number of elements of fronts in a batch, about as many as a processor's cache has."""


@dataclass(frozen=True)
class Batch:
    """Fronts of equal size, none of which waits for another.

    A front is a symmetric matrix ``[[a, b.T], [b, c]]`` of size k + m: first come the columns that
    it eliminates, then its border, the rows below them. Fronts that are smaller are padded, the
    columns by those of the identity and the border by zeros. An array of fronts has ``h`` rows for
    each: k + m, and k for leaves, whose c is zero.

    Attributes:
        shape: The number of fronts, k and m.
        h: The number of rows.
        columns: For each front, the places of its columns in a vector, n for those that are padded.
        border: As well of the rows of its border.
        padded: The places of padded diagonal elements among those of the fronts.
        sums: The fronts as sums of elements of a pool, of the matrix's values and the updates of
            fronts below: a sparse matrix of 1 and -1. It gives ``[[a, -b.T], [0, -c]]``, and of
            a and c the lower triangles.
        update: Where this batch's updates are in the pool, behind the matrix's values.
        above: Where the inverse of the border is among the inverses of the fronts above: for each
            front and row two numbers to add, for the row and the column.
        inverse: Where this batch's inverses are among them; none for leaves.
        stored: The elements of the matrix that are in these fronts, as numbers of stored values.
        elements: Their places among the elements of the fronts.
    """

    shape: tuple[int, int, int]
    h: int
    columns: Array
    border: Array
    padded: Array
    sums: Any
    update: slice
    above: tuple[Array, Array]
    inverse: slice
    stored: Array
    elements: Array

    def fronts(self, pool: Array) -> Array:
        """What ``sums`` gives, (fronts, h, k + m)."""
        b, k, m = self.shape
        found: Array = self.sums @ pool[: self.sums.shape[1]]
        return found.reshape(b, self.h, k + m)


def _rounded(x: int) -> int:
    """A size that fronts are padded to: at most an eighth more, from 16 on."""
    step = max(2, 1 << max(x.bit_length() - 4, 0))
    return -(-x // step) * step


class Batches:
    """All fronts in batches, children before their parents.

    Args:
        count: The number of stored values.
        layout: The fronts.

    Attributes:
        all: The batches.
        updates: The number of elements of all updates, and of the stored values.
        inverses: The number of elements of all fronts but leaves.
        size: The number of elements of a factor.
        scratch: The most elements of a batch's fronts.
    """

    def __init__(self, count: int, layout: Layout) -> None:
        self.layout = layout
        self.updates, self.inverses = count, 0
        size = len(layout.k)
        # Of each front once it is in a batch: where it begins among all, and its padded sizes.
        self.update_at, self.inverse_at = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.padded_k, self.padded_m = np.zeros(size, np.int64), np.zeros(size, np.int64)
        placed = [(group, *self._place(group)) for group in self._groups()]
        self.all = tuple([self._batch(*x) for x in placed])
        shapes = [batch.shape for batch in self.all]
        self.size = sum(b * k * (2 * k + m) for b, k, m in shapes)
        self.scratch = max([b * (k + m) ** 2 for b, k, m in shapes], default=0)

    def _groups(self) -> list[Array]:
        """The fronts of equal height and similar size, as many as are worked on at once."""
        levels = [0] * len(self.layout.k)
        for front, parent in enumerate(self.layout.tree.parents):
            if parent >= 0:
                levels[parent] = max(levels[parent], levels[front] + 1)
        found: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for front, level in enumerate(levels):
            found[
                level, _rounded(int(self.layout.k[front])), _rounded(int(self.layout.m[front]))
            ].append(front)
        return [
            np.array(found[level, k, m][i : i + step])
            for level, k, m in sorted(found)
            for step in [max(1, TOGETHER // (k + m) ** 2)]
            for i in range(0, len(found[level, k, m]), step)
        ]

    def _place(self, group: Array) -> tuple[int, int, slice, slice]:
        """Where a batch's updates and inverses are; padded as far as its largest front needs."""
        k, m, b = int(self.layout.k[group].max()), int(self.layout.m[group].max()), len(group)
        size = (k + m) ** 2 if any(self.layout.children[front] for front in group) else 0
        self.padded_k[group], self.padded_m[group] = k, m
        self.update_at[group] = self.updates + np.arange(b) * m * m
        self.inverse_at[group] = self.inverses + np.arange(b) * size
        update = slice(self.updates, self.updates + b * m * m)
        inverse = slice(self.inverses, self.inverses + b * size)
        self.updates, self.inverses = update.stop, inverse.stop
        return k, m, update, inverse

    def _batch(self, group: Array, k: int, m: int, update: slice, inverse: slice) -> Batch:
        b, f = len(group), k + m
        h = k if inverse.start == inverse.stop else f
        real_k, real_m = self.layout.k[group, None], self.layout.m[group, None]
        to_columns, to_border = np.arange(k) < real_k, np.arange(m) < real_m
        columns, border = np.full((b, k), self.layout.n), np.full((b, m), self.layout.n)
        starts = self.layout.starts[group, None]
        columns[to_columns] = self.layout.order[
            self.layout.rows[(starts + np.arange(k))[to_columns]]
        ]
        rows = self.layout.rows[(starts + real_k + np.arange(m))[to_border]]
        border[to_border] = self.layout.order[rows]
        fronts_of, pads = np.nonzero(~to_columns)
        padded = fronts_of * h * f + pads * (f + 1)
        stored, index, row, column = self._stored(group)
        elements = _place(index, row, column, k, h, f)
        own = (elements, stored, np.where(row < k, 1.0, -1.0))
        sums = _sums(b * h * f, own, self._updates(group, k, h, f))
        above = self._above(group, m, to_border, rows)
        return Batch(
            (b, k, m), h, columns, border, padded, sums, update, above, inverse,
            stored, elements,
        )  # fmt: skip

    def _padded(self, front: Array, local: Array) -> Array:
        """The place of a row in a padded front, where those of the border begin at k."""
        return np.where(
            local < self.layout.k[front], local, local - self.layout.k[front] + self.padded_k[front]
        )

    def _stored(self, group: Array) -> tuple[Array, Array, Array, Array]:
        """The matrix's elements in fronts of a batch: their numbers, fronts, rows and columns."""
        counts = self.layout.element_starts[group + 1] - self.layout.element_starts[group]
        which = ranges(self.layout.element_starts[group], counts)
        index = np.repeat(np.arange(len(group)), counts)
        row = self._padded(group[index], self.layout.element_row[which])
        return self.layout.element[which], index, row, self.layout.element_column[which]

    def _above(self, group: Array, m: int, real: Array, rows: Array) -> tuple[Array, Array]:
        """Where the inverse of the border is in the parents' inverses; padded rows anywhere."""
        parents = np.array([self.layout.tree.parents[front] for front in group])
        local = np.zeros((len(group), m), np.int64)
        owner = np.repeat(parents, real.sum(1))
        local[real] = self._padded(owner, self.layout.find(owner, rows))
        size = (self.padded_k + self.padded_m)[parents]
        at = self.inverse_at[parents]
        return at[:, None, None] + (local * size[:, None])[:, :, None], local[:, None, :]

    def _updates(self, group: Array, k: int, h: int, f: int) -> tuple[Array, Array, Array]:
        """The lower triangles of children's updates: places in fronts and the pool, and signs."""
        children = [(i, c) for i, front in enumerate(group) for c in self.layout.children[front]]
        if not children:
            none = np.zeros(0, np.int64)
            return none, none, np.zeros(0)
        index, child = np.array(children).T
        m = self.layout.m[child]
        entry = ranges(self.layout.starts[child] + self.layout.k[child], m)
        owner = np.repeat(group[index], m)
        local = self._padded(owner, self.layout.find(owner, self.layout.rows[entry]))
        # Each row with all columns up to its own.
        row = np.arange(len(entry)) - np.repeat(np.cumsum(m) - m, m)
        pair = np.repeat(np.arange(len(entry)), row + 1)
        column = ranges(np.zeros(len(entry), np.int64), row + 1)
        one = np.repeat(np.arange(len(child)), m)[pair]
        source = self.update_at[child][one] + row[pair] * self.padded_m[child][one] + column
        low, left = local[pair], local[pair - row[pair] + column]
        signs = np.where((low < k) & (left < k), -1.0, 1.0)
        return _place(index[one], low, left, k, h, f), source, signs


def _place(front: Array, row: Array, column: Array, k: int, h: int, f: int) -> Array:
    """The places of elements of lower triangles: of a and c as they are, of b in its transpose."""
    turned = (row >= k) & (column < k)
    first, last = np.where(turned, column, row), np.where(turned, row, column)
    places: Array = (front * h + first) * f + last
    return places


def _sums(size: int, *parts: tuple[Array, Array, Array]) -> Any:
    """A sparse matrix of so many rows: of each element the row, the column and the value."""
    from scipy import sparse

    rows, columns, values = (np.concatenate(x) for x in zip(*parts, strict=True))
    by_row = np.argsort(rows, kind="stable")
    indptr = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=size), out=indptr[1:])
    width = int(columns.max(initial=-1)) + 1
    index = np.int32 if max(width, len(rows)) < 2**31 else np.int64
    fields = (values[by_row], columns[by_row].astype(index), indptr.astype(index))
    return sparse.csr_array(fields, shape=(size, width))
