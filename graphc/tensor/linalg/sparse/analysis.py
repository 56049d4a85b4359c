"""What a sparse matrix's pattern decides of its factor: orders, fronts, and where elements go."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from graphc.tensor.linalg.sparse.ordering import fill_reducing
from graphc.tensor.linalg.sparse.symbolic import Fronts, fronts

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Assembly:
    """Sums of elements of a pool, and where they go.

    Attributes:
        places: The places that are added to, each once.
        sums: For each, what of the pool is added: a sparse matrix of 1 and -1.
    """

    places: Array
    sums: Any

    def into(self, shape: tuple[int, ...], pool: Array) -> Array:
        """An array with the sums in their places, and zeros elsewhere."""
        y = np.zeros(math.prod(shape))
        y[self.places] = self.sums @ pool[: self.sums.shape[1]]
        return y.reshape(shape)


@dataclass(frozen=True)
class Batch:
    """Fronts of equal size, none of which waits for another.

    A front is a symmetric matrix of size k + m: first the columns that it eliminates, its panel,
    then the rows below them, its border. Fronts that are smaller are padded, the panel by columns
    of the identity and the border by zeros.

    Attributes:
        shape: The number of fronts, k and m.
        columns: For each front, the places of its columns in a vector, n for those that are padded.
        border: As well of the rows of its border.
        padded: The places of padded diagonal elements among those of the panels.
        panel: The panels, (k + m, k), of the matrix's values and the updates of fronts below.
        corner: The lower triangles of the borders' own elements, (m, m); None for leaves.
        update: Where this batch's updates are in the pool, behind the matrix's values.
        above: Where the inverse of the border is among the inverses of the fronts above: for each
            front and row two numbers to add, for the row and the column.
        inverse: Where this batch's inverses are among them; none for leaves.
        stored: The elements of the matrix that are in these panels, as numbers of stored values.
        elements: Their places among the elements of the panels.
    """

    shape: tuple[int, int, int]
    columns: Array
    border: Array
    padded: Array
    panel: Assembly
    corner: Assembly | None
    update: slice
    above: tuple[Array, Array]
    inverse: slice
    stored: Array
    elements: Array


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

    def pool(self, values: Array) -> Array:
        """An array of the stored values, with space behind them for all updates."""
        made = np.empty(self.updates)
        made[: self.count] = values
        return made


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
        groups = [np.array(found[key]) for key in sorted(found)]
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
        real_k, real_m = self.k[group, None], self.m[group, None]
        to_columns, to_border = np.arange(k) < real_k, np.arange(m) < real_m
        columns, border = np.full((b, k), self.n), np.full((b, m), self.n)
        starts = self.starts[group, None]
        columns[to_columns] = self.order[self.rows[(starts + np.arange(k))[to_columns]]]
        rows = self.rows[(starts + real_k + np.arange(m))[to_border]]
        border[to_border] = self.order[rows]
        fronts_of, pads = np.nonzero(~to_columns)
        padded = fronts_of * f * k + pads * (k + 1)
        stored, elements = self._stored(group, k, f)
        panel, corner = self._assembly(group, k, m, stored, elements)
        above = self._above(group, m, to_border, rows)
        return Batch(
            (b, k, m), columns, border, padded, panel, corner, update, above, inverse,
            self.stored[stored], elements,
        )  # fmt: skip

    def _padded(self, front: Array, local: Array) -> Array:
        """The place of a row in a padded front, where those of the border begin at k."""
        return np.where(local < self.k[front], local, local - self.k[front] + self.padded_k[front])

    def _stored(self, group: Array, k: int, f: int) -> tuple[Array, Array]:
        """The matrix's elements in fronts of a batch, and their places in the panels."""
        counts = self.element_starts[group + 1] - self.element_starts[group]
        which = _ranges(self.element_starts[group], counts)
        index = np.repeat(np.arange(len(group)), counts)
        row = self._padded(group[index], self.element_row[which])
        return self.element[which], (index * f + row) * k + self.element_column[which]

    def _above(self, group: Array, m: int, real: Array, rows: Array) -> tuple[Array, Array]:
        """Where the inverse of the border is in the parents' inverses; padded rows anywhere."""
        parents = np.array([self.tree.parents[front] for front in group])
        local = np.zeros((len(group), m), np.int64)
        owner = np.repeat(parents, real.sum(1))
        local[real] = self._padded(owner, self._find(owner, rows))
        size = (self.padded_k + self.padded_m)[parents]
        at = self.inverse_at[parents]
        return at[:, None, None] + (local * size[:, None])[:, :, None], local[:, None, :]

    def _assembly(
        self, group: Array, k: int, m: int, stored: Array, elements: Array
    ) -> tuple[Assembly, Assembly | None]:
        """Where stored values, and the lower triangles of children's updates, are added."""
        values = self.stored[stored]
        children = [(i, c) for i, front in enumerate(group) for c in self.children[front]]
        if not children:
            return _sums(elements, values, len(values)), None
        index, child = np.array(children).T
        front, row, column, source = self._updates(index, group[index], child)
        inside = column < k
        places = (front[inside] * (k + m) + row[inside]) * k + column[inside]
        panel = _sums(
            np.concatenate([elements, places]),
            np.concatenate([values, source[inside]]),
            len(values),
        )
        rest = ~inside
        places = (front[rest] * m + row[rest] - k) * m + column[rest] - k
        return panel, _sums(places, source[rest], 0)

    def _updates(
        self, index: Array, parent: Array, child: Array
    ) -> tuple[Array, Array, Array, Array]:
        """The elements of children's updates: front, row and column, and place in the pool."""
        m = self.m[child]
        entry = _ranges(self.starts[child] + self.k[child], m)
        owner = np.repeat(parent, m)
        local = self._padded(owner, self._find(owner, self.rows[entry]))
        # Each row with all columns up to its own.
        row = np.arange(len(entry)) - np.repeat(np.cumsum(m) - m, m)
        pair = np.repeat(np.arange(len(entry)), row + 1)
        column = _ranges(np.zeros(len(entry), np.int64), row + 1)
        one = np.repeat(np.arange(len(child)), m)[pair]
        source = self.update_at[child][one] + row[pair] * self.padded_m[child][one] + column
        return index[one], local[pair], local[pair - row[pair] + column], source


def _ranges(starts: Array, counts: Array) -> Array:
    """The numbers from each start on, as many as its count."""
    ends = np.cumsum(counts)
    places: Array = np.repeat(starts - ends + counts, counts)
    return places + np.arange(len(places))


def _sums(places: Array, sources: Array, positive: int) -> Assembly:
    """What adds elements of a pool, and subtracts those behind the first ones."""
    from scipy import sparse

    signs = np.where(np.arange(len(places)) < positive, 1.0, -1.0)
    by_place = np.argsort(places, kind="stable")
    places, sources, signs = places[by_place], sources[by_place], signs[by_place]
    begins = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]])[: len(places)])
    indptr = np.append(begins, len(places))
    shape = (len(begins), int(sources.max(initial=-1)) + 1)
    return Assembly(places[begins], sparse.csr_array((signs, sources, indptr), shape=shape))
