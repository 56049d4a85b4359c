"""What a sparse matrix's pattern decides of its factor: orders, fronts, and where elements go."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from graphc.tensor.linalg.sparse.ordering import fill_reducing
from graphc.tensor.linalg.sparse.symbolic import Fronts, fronts

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


@dataclass(frozen=True)
class Analysis:
    """The pattern of a symmetric matrix, of which one triangle is read.

    Attributes:
        n: The number of rows.
        count: How many values are stored.
        doubled: The stored values that stand for two elements, one in each triangle.
        batches: The fronts, children before their parents.
        updates: The number of elements of all updates, and of the stored values.
        inverses: The number of elements of all fronts.
    """

    n: int
    count: int
    doubled: Array
    batches: tuple[Batch, ...]
    updates: int
    inverses: int

    @classmethod
    def of(cls, rows: Array, columns: Array, n: int, lower: bool) -> Analysis:
        """Analyse a matrix, given the row and column of each value; rows from n on are left out."""
        rows, columns = rows.astype(np.int64), columns.astype(np.int64)
        inside = (rows < n) & ((rows >= columns) if lower else (rows <= columns))
        stored = np.flatnonzero(inside)
        i, j = rows[inside], columns[inside]
        order = fill_reducing(i, j, n)
        place = np.empty(n, np.int64)
        place[order] = np.arange(n)
        first, last = np.minimum(place[i], place[j]), np.maximum(place[i], place[j])
        made = _Builder(len(rows), order, _fronts(first, last, n), (stored, first, last))
        doubled = np.zeros(len(rows), bool)
        doubled[stored] = i != j
        return cls(n, len(rows), doubled, tuple(made.batches()), made.updates, made.inverses)

    @cached_property
    def size(self) -> int:
        """The number of elements of a factor."""
        return sum(b * k * (2 * k + m) for b, k, m in (x.shape for x in self.batches))

    @cached_property
    def scratch(self) -> int:
        """The most elements of a batch's fronts."""
        return max([b * (k + m) ** 2 for b, k, m in (x.shape for x in self.batches)], default=0)


def _fronts(first: Array, last: Array, n: int) -> Fronts:
    below = first != last
    keys = np.unique(first[below] * n + last[below]) if n else first
    indptr = np.searchsorted(keys, np.arange(n + 1) * n)
    return fronts(indptr.tolist(), (keys % max(n, 1)).tolist())


def _rounded(x: int) -> int:
    """A size that fronts are padded to: at most an eighth more, from 16 on."""
    step = max(2, 1 << max(x.bit_length() - 4, 0))
    return -(-x // step) * step


class _Builder:
    """The batches of a tree of fronts, one after the other."""

    def __init__(
        self, count: int, order: Array, tree: Fronts, elements: tuple[Array, Array, Array]
    ) -> None:
        self.n, self.order, self.tree = len(order), order, tree
        self.stored, first, last = elements
        self.updates, self.inverses = count, 0
        self.k = np.array([len(x) for x in tree.columns], np.int64)
        self.m = np.array([len(x) for x in tree.borders], np.int64)
        self.children: list[list[int]] = [[] for _ in tree.parents]
        for front, parent in enumerate(tree.parents):
            if parent >= 0:
                self.children[parent].append(front)
        size = len(tree.parents)
        # Of each front once it is in a batch: where it begins among all, and its padded sizes.
        self.update_at, self.inverse_at = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.padded_k, self.padded_m = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._number()
        self._elements(first, last)

    def _number(self) -> None:
        """List the rows of all fronts, and sort them, to find the place of a row in a front."""
        tree, size = self.tree, len(self.k)
        self.starts = np.concatenate([[0], np.cumsum(self.k + self.m)])
        pairs = zip(tree.columns, tree.borders, strict=True)
        self.rows = np.array([row for pair in pairs for part in pair for row in part], np.int64)
        self.owner = np.repeat(np.arange(size), self.k + self.m)
        self.local = np.arange(len(self.rows)) - self.starts[self.owner]
        keys = self.owner * self.n + self.rows
        self.sorted = np.argsort(keys)
        self.keys = keys[self.sorted]
        eliminated = self.local < self.k[self.owner]
        self.eliminated_by = np.empty(self.n, np.int64)
        self.eliminated_by[self.rows[eliminated]] = self.owner[eliminated]

    def _find(self, front: Array, rows: Array) -> Array:
        """The places of rows in fronts that have them, not padded."""
        found: Array = self.local[self.sorted[np.searchsorted(self.keys, front * self.n + rows)]]
        return found

    def _elements(self, first: Array, last: Array) -> None:
        """Sort the matrix's elements by the fronts that they belong to."""
        front = self.eliminated_by[first]
        by_front = np.argsort(front, kind="stable")
        self.element_starts = np.searchsorted(front[by_front], np.arange(len(self.k) + 1))
        self.element = by_front
        self.element_row = self._find(front, last)[by_front]
        self.element_column = self._find(front, first)[by_front]

    def batches(self) -> list[Batch]:
        """Make all of them."""
        levels = [0] * len(self.k)
        for front, parent in enumerate(self.tree.parents):
            if parent >= 0:
                levels[parent] = max(levels[parent], levels[front] + 1)
        found: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for front, level in enumerate(levels):
            found[level, _rounded(int(self.k[front])), _rounded(int(self.m[front]))].append(front)
        groups = [
            np.array(found[level, k, m][i : i + step])
            for level, k, m in sorted(found)
            for step in [max(1, TOGETHER // (k + m) ** 2)]
            for i in range(0, len(found[level, k, m]), step)
        ]
        shapes = [self._place(group) for group in groups]
        return [self._batch(group, *at) for group, at in zip(groups, shapes, strict=True)]

    def _place(self, group: Array) -> tuple[int, int, slice, slice]:
        """Where a batch's updates and inverses are; padded as far as its largest front needs."""
        k, m, b = int(self.k[group].max()), int(self.m[group].max()), len(group)
        size = (k + m) ** 2 if any(self.children[front] for front in group) else 0
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
        real_k, real_m = self.k[group, None], self.m[group, None]
        to_columns, to_border = np.arange(k) < real_k, np.arange(m) < real_m
        columns, border = np.full((b, k), self.n), np.full((b, m), self.n)
        starts = self.starts[group, None]
        columns[to_columns] = self.order[self.rows[(starts + np.arange(k))[to_columns]]]
        rows = self.rows[(starts + real_k + np.arange(m))[to_border]]
        border[to_border] = self.order[rows]
        fronts_of, pads = np.nonzero(~to_columns)
        padded = fronts_of * h * f + pads * (f + 1)
        stored, index, row, column = self._stored(group)
        elements = _place(index, row, column, k, h, f)
        own = (elements, self.stored[stored], np.where(row < k, 1.0, -1.0))
        sums = _sums(b * h * f, own, self._updates(group, k, h, f))
        above = self._above(group, m, to_border, rows)
        return Batch(
            (b, k, m), h, columns, border, padded, sums, update, above, inverse,
            self.stored[stored], elements,
        )  # fmt: skip

    def _padded(self, front: Array, local: Array) -> Array:
        """The place of a row in a padded front, where those of the border begin at k."""
        return np.where(local < self.k[front], local, local - self.k[front] + self.padded_k[front])

    def _stored(self, group: Array) -> tuple[Array, Array, Array, Array]:
        """The matrix's elements in fronts of a batch: their numbers, fronts, rows and columns."""
        counts = self.element_starts[group + 1] - self.element_starts[group]
        which = _ranges(self.element_starts[group], counts)
        index = np.repeat(np.arange(len(group)), counts)
        row = self._padded(group[index], self.element_row[which])
        return self.element[which], index, row, self.element_column[which]

    def _above(self, group: Array, m: int, real: Array, rows: Array) -> tuple[Array, Array]:
        """Where the inverse of the border is in the parents' inverses; padded rows anywhere."""
        parents = np.array([self.tree.parents[front] for front in group])
        local = np.zeros((len(group), m), np.int64)
        owner = np.repeat(parents, real.sum(1))
        local[real] = self._padded(owner, self._find(owner, rows))
        size = (self.padded_k + self.padded_m)[parents]
        at = self.inverse_at[parents]
        return at[:, None, None] + (local * size[:, None])[:, :, None], local[:, None, :]

    def _updates(self, group: Array, k: int, h: int, f: int) -> tuple[Array, Array, Array]:
        """The lower triangles of children's updates: places in fronts and the pool, and signs."""
        children = [(i, c) for i, front in enumerate(group) for c in self.children[front]]
        if not children:
            none = np.zeros(0, np.int64)
            return none, none, np.zeros(0)
        index, child = np.array(children).T
        m = self.m[child]
        entry = _ranges(self.starts[child] + self.k[child], m)
        owner = np.repeat(group[index], m)
        local = self._padded(owner, self._find(owner, self.rows[entry]))
        # Each row with all columns up to its own.
        row = np.arange(len(entry)) - np.repeat(np.cumsum(m) - m, m)
        pair = np.repeat(np.arange(len(entry)), row + 1)
        column = _ranges(np.zeros(len(entry), np.int64), row + 1)
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


def _ranges(starts: Array, counts: Array) -> Array:
    """The numbers from each start on, as many as its count."""
    ends = np.cumsum(counts)
    places: Array = np.repeat(starts - ends + counts, counts)
    return places + np.arange(len(places))


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
