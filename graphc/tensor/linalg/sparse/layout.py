"""Where the rows and the elements of a sparse matrix are in the fronts of its factor."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from graphc.tensor.linalg.sparse.symbolic import Fronts

Array = np.ndarray[Any, Any]


class Layout:
    """The rows of the fronts of a tree, and the elements of the matrix in each.

    Attributes:
        order: The places in a vector of the columns, in the order of elimination.
        tree: The fronts.
        k: For each, the number of columns that it eliminates.
        m: The number of rows below them.
        children: The fronts whose parent it is.
        starts: Where its rows begin among those of all fronts.
        rows: Those, in the order of elimination.
        element_starts: Where its elements begin among those of all fronts.
        element: Those, as numbers of stored values.
        element_row: The row of each in its front.
        element_column: The column of each.
    """

    def __init__(self, order: Array, tree: Fronts, elements: tuple[Array, Array, Array]) -> None:
        self.n, self.order, self.tree = len(order), order, tree
        self.k = np.array([len(x) for x in tree.columns], np.int64)
        self.m = np.array([len(x) for x in tree.borders], np.int64)
        self.children: list[list[int]] = [[] for _ in tree.parents]
        for front, parent in enumerate(tree.parents):
            if parent >= 0:
                self.children[parent].append(front)
        self._number()
        self._elements(*elements)

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

    def find(self, front: Array, rows: Array) -> Array:
        """The places of rows in fronts that have them, not padded."""
        found: Array = self.local[self.sorted[np.searchsorted(self.keys, front * self.n + rows)]]
        return found

    def _elements(self, stored: Array, first: Array, last: Array) -> None:
        """Sort the matrix's elements by the fronts that they belong to."""
        front = self.eliminated_by[first]
        by_front = np.argsort(front, kind="stable")
        self.element_starts = np.searchsorted(front[by_front], np.arange(len(self.k) + 1))
        self.element = stored[by_front]
        self.element_row = self.find(front, last)[by_front]
        self.element_column = self.find(front, first)[by_front]

    @cached_property
    def in_parents(self) -> Array:
        """The places of the rows of all borders, one after the other, in the parents' fronts."""
        rows = self.rows[ranges(self.starts[:-1] + self.k, self.m)]
        return self.find(np.repeat(np.array(self.tree.parents, np.int64), self.m), rows)


def ranges(starts: Array, counts: Array) -> Array:
    """The numbers from each start on, as many as its count."""
    ends = np.cumsum(counts)
    places: Array = np.repeat(starts - ends + counts, counts)
    return places + np.arange(len(places))
