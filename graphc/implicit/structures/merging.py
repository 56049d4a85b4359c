"""Stored elements in the order of their indices, with equal indices merged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphc.implicit.structures.segments import (
    Entries,
    as_indices,
    largest_index,
    segment_sum,
    take_rows,
)
from graphc.implicit.treedef import dtype_of


@dataclass(frozen=True)
class SortedIndices:
    """Rows and columns (..., k) of entries in row-major order, grouped by equal indices.

    Attributes:
        order: The number of each entry before it was sorted.
        rows: The sorted rows.
        columns: The sorted columns.
        first: Whether an entry is the first of its group.
        group: The number of the entry's group.
    """

    order: Any
    rows: Any
    columns: Any
    first: Any
    group: Any

    @classmethod
    def of(cls, xp: Any, rows: Any, columns: Any, lengths: tuple[int, int]) -> SortedIndices:
        """Sort indices of matrices of these lengths."""
        m, n = lengths
        if m * n + n <= largest_index(rows):
            order = as_indices(xp, xp.order_of(rows * n + columns))
        else:  # sorts are stable
            order = as_indices(xp, xp.order_of(columns))
            by_row = as_indices(xp, xp.order_of(take_last(xp, rows, order)))
            order = take_last(xp, order, by_row)
        rows, columns = take_last(xp, rows, order), take_last(xp, columns, order)
        first = xp.logical_or(_changes(xp, rows), _changes(xp, columns))
        group = xp.cumsum(as_indices(xp, first), -1) - 1
        return cls(order, rows, columns, first, as_indices(xp, group))

    def sum_groups(self, xp: Any, values: Any) -> Any:
        """Sum unsorted values (..., k, c) by group; each sorted entry gets the sum of its group."""
        last: Any = xp.shape_of(self.group)[-1]
        sums = segment_sum(xp, take_rows(xp, values, self.order), self.group, last)
        return take_rows(xp, sums, self.group)

    def to_entries(self, xp: Any, values: Any, lengths: tuple[int, int]) -> Entries:
        """Return entries with sorted values, of which only the first of each group counts."""
        m, n = lengths
        return values, xp.where(self.first, self.rows, m), xp.where(self.first, self.columns, n)

    def unsort(self, xp: Any, values: Any) -> Any:
        """Return sorted values in the original order of the entries."""
        back = as_indices(xp, xp.order_of(self.order))
        return take_last(xp, values, back)


def take_last(xp: Any, x: Any, order: Any) -> Any:
    return xp.take_along_axis(x, order, -1)


def _changes(xp: Any, indices: Any) -> Any:
    """Return whether each index differs from the one before."""
    before = xp.concatenate([indices[..., :1] - 1, indices[..., :-1]], -1)
    return xp.not_equal(indices, before)


def coalesce(xp: Any, entries: Entries, lengths: tuple[int, int]) -> Entries:
    """Return entries with each element stored once: duplicates are summed, the first is kept."""
    data, rows, columns = entries
    indices = SortedIndices.of(xp, rows, columns, lengths)
    sums = indices.sum_groups(xp, data[..., None])[..., 0]
    return indices.to_entries(xp, sums, lengths)


def union(
    xp: Any, a: Entries, b: Entries, lengths: tuple[int, int]
) -> tuple[SortedIndices, Any, Any]:
    """Return the indices of two sets of entries, sorted, and the values of each set there."""
    rows, columns = [xp.concatenate([x, y], -1) for x, y in zip(a[1:], b[1:], strict=True)]
    indices = SortedIndices.of(xp, rows, columns, lengths)
    a_values = xp.concatenate([a[0], xp.zeros_like(b[0])], -1)
    b_values = xp.concatenate([xp.zeros_like(a[0]), b[0]], -1)
    return indices, *[indices.sum_groups(xp, x[..., None])[..., 0] for x in (a_values, b_values)]


def look_up(xp: Any, a: Entries, b: Entries, lengths: tuple[int, int]) -> Any:
    """Return the values of entries b at the index of each entry of a; zero where b has none."""
    k: Any = xp.shape_of(a[0])[-1]
    rows, columns = [xp.concatenate([x, y], -1) for x, y in zip(a[1:], b[1:], strict=True)]
    indices = SortedIndices.of(xp, rows, columns, lengths)
    values = xp.concatenate([xp.zeros(xp.shape_of(a[0]), dtype_of(b[0])), b[0]], -1)
    return indices.unsort(xp, indices.sum_groups(xp, values[..., None])[..., 0])[..., :k]
