"""What a sparse matrix's pattern decides of its factor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from graphc.tensor.linalg.sparse.batches import Batches
from graphc.tensor.linalg.sparse.layout import Layout
from graphc.tensor.linalg.sparse.ordering import fill_reducing
from graphc.tensor.linalg.sparse.symbolic import Fronts, fronts
from graphc.tensor.linalg.sparse.traversal import Traversal

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Analysis:
    """The pattern of a symmetric matrix, of which one triangle is read.

    Attributes:
        n: The number of rows.
        count: How many values are stored.
        weights: For each stored value the number of elements that it stands for: 2 for one in each
            triangle, else 1.
        layout: The fronts, and what of the matrix is in each.
    """

    n: int
    count: int
    weights: Array
    layout: Layout

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
        layout = Layout(order, _fronts(first, last, n), (stored, first, last))
        weights = np.ones(len(rows))
        weights[stored[i != j]] = 2.0
        return cls(n, len(rows), weights, layout)

    @cached_property
    def size(self) -> int:
        """The number of elements of a factor."""
        k, m = self.layout.k, self.layout.m
        return int((k * (2 * k + m)).sum())

    @cached_property
    def batched(self) -> Batches:
        """The fronts in batches."""
        return Batches(self.count, self.layout)

    @cached_property
    def traversal(self) -> Traversal:
        """The fronts one after the other."""
        return Traversal(self.layout)


def _fronts(first: Array, last: Array, n: int) -> Fronts:
    below = first != last
    keys = np.unique(first[below] * n + last[below]) if n else first
    indptr = np.searchsorted(keys, np.arange(n + 1) * n)
    return fronts(indptr.tolist(), (keys % max(n, 1)).tolist())
