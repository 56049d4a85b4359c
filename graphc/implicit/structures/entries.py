"""Stored elements of stacks of sparse matrices: indices, sums by segment, merging, extremes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import BoundsError, MaterializeError
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.stacked import product, reduce_in_dtype
from graphc.implicit.treedef import dtype_of
from graphc.ir import is_inexact

Entries = tuple[Any, Any, Any]
"""Values, rows and columns, each (..., nse); an index equal to the length marks no element."""


def as_indices(xp: Any, x: Any) -> Any:
    """Cast integers to the library's dtype for indices."""
    dtype = dtype_of(xp.arange(1))
    return x if dtype_of(x) == dtype else xp.cast(x, dtype)


def largest_index(x: Any) -> int:
    """Return the largest number that an array of integers can hold."""
    return int(np.iinfo(dtype_of(x)).max)


def segment_sum(xp: Any, values: Any, ids: Any, n: int) -> Any:
    """Sum values (..., m, k) by ids (..., m) to an array (..., n, k).

    Values with an id out of range are ignored.
    """
    *batch, m, k = xp.shape_of(values)
    if not batch:
        return _flat_segment_sum(xp, values, ids, n)
    count = math.prod(batch)
    _check_row_count(ids, count, n)
    inside = (ids >= 0) & (ids < n)
    offsets = xp.reshape(xp.arange(count) * n, (*batch, 1))
    flat = xp.reshape(xp.where(inside, ids + offsets, count * n), (count * m,))
    sums = _flat_segment_sum(xp, xp.reshape(values, (count * m, k)), flat, count * n)
    return xp.reshape(sums, (*batch, n, k))


def _flat_segment_sum(xp: Any, values: Any, ids: Any, n: Any) -> Any:
    """Sum by segment; the sum of bools is a logical or."""
    if dtype_of(values).kind != "b":
        return xp.segment_sum(values, ids, n)
    return xp.not_equal(xp.segment_sum(as_indices(xp, values), ids, n), 0)


def take_rows(xp: Any, x: Any, ids: Any) -> Any:
    """Return rows ``ids`` (..., m), within bounds, of matrices (..., n, k)."""
    *batch, n, k = xp.shape_of(x)
    if not batch:
        return x[ids]
    count = math.prod(batch)
    _check_row_count(ids, count, n)
    offsets = xp.reshape(xp.arange(count) * n, (*batch, 1))
    return xp.reshape(x, (count * n, k))[ids + offsets]


def _check_row_count(ids: Any, count: Any, n: Any) -> None:
    if isinstance(count, int) and isinstance(n, int) and count * n > largest_index(ids):
        raise MaterializeError(
            f"{count} matrices of {n} rows each have more elements than {dtype_of(ids)} counts.",
            "Enable 64-bit integers, for JAX by jax.config.update('jax_enable_x64', True).",
        )


def check_range(name: str, field: str, indices: Any, n: int) -> None:
    """Check that NumPy indices are in range; n is allowed, and marks no element.

    Raises:
        BoundsError: If an index is negative or greater than n.
    """
    if not isinstance(indices, np.ndarray) or not indices.size:
        return
    for index in (int(indices.min()), int(indices.max())):
        if not 0 <= index <= n:
            raise BoundsError(
                f"{name}: {field} has {index}, and the length is {n}.",
                f"Indices are from 0 to {n - 1}; {n} marks a value to be ignored.",
            )


def mark_outside(data: Any, rows: Any, columns: Any, lengths: tuple[int, int]) -> Entries:
    """Return entries with row m and column n where an index is out of range."""
    xp = numpy_like(data, rows, columns)
    rows, columns = as_indices(xp, rows), as_indices(xp, columns)
    m, n = lengths
    inside = (rows >= 0) & (rows < m) & (columns >= 0) & (columns < n)
    return data, xp.where(inside, rows, m), xp.where(inside, columns, n)


def find_duplicate(rows: Any, columns: Any, m: int) -> tuple[int, int] | None:
    """Return the row and column of an element that a matrix stores twice, else None."""
    inside = rows < m
    batch_indices = np.indices(rows.shape)[:-1].reshape(rows.ndim - 1, *rows.shape)
    indices = np.stack([*[axis[inside] for axis in batch_indices], rows[inside], columns[inside]])
    unique, counts = np.unique(indices, axis=1, return_counts=True)
    if unique.shape[1] == indices.shape[1]:
        return None
    *_, row, column = unique[:, np.argmax(counts)].tolist()
    return row, column


def extreme_values(dtype: Any) -> tuple[Any, Any]:
    """Return the largest and the smallest value of a dtype."""
    if is_inexact(str(dtype)):
        return np.inf, -np.inf
    bounds = np.iinfo(dtype)
    return int(bounds.max), int(bounds.min)


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


def all_true(x: Any, axes: tuple[int, ...]) -> Any:
    """Return whether all elements are true, if each is stored once."""
    xp = x.xp
    counts = x.with_values(as_indices(xp, x.values)).reduce_matrix("sum", axes)
    return xp.equal(counts, product(*[x.matrix[axis] for axis in axes]))


def extreme(x: Any, name: str) -> Any:
    """Return the ``"max"`` or ``"min"`` of each matrix, if each element is stored once."""
    xp = x.xp
    data, rows, _ = x.entries()
    inside = rows < x.matrix[0]
    with_zero = xp.where(inside, data, xp.zeros((), x.dtype))
    # A matrix may store no value, so a zero is appended.
    zero = xp.zeros((*xp.shape_of(data)[:-1], 1), x.dtype)
    y = reduce_in_dtype(xp, name, xp.concatenate([with_zero, zero], -1), (-1,))
    m, n = x.matrix
    if x.nse is not None and x.nse < m * n:
        return y
    count = reduce_in_dtype(xp, "sum", as_indices(xp, inside), (-1,))
    identity = extreme_values(x.dtype)[name == "max"]
    of_stored = reduce_in_dtype(
        xp, name, xp.where(inside, data, xp.full((), identity, x.dtype)), (-1,)
    )
    return xp.where(xp.equal(count, m * n), of_stored, _pairwise(xp, name)(y, of_stored))


def extreme_along(x: Any, name: str, axis: int) -> Any:
    """Return the extremes of rows or columns: the last of each, sorted by index and value."""
    xp = x.xp
    data, rows, columns = x.entries()
    m, n = x.matrix
    ids, count, length = (columns, n, m) if axis == -2 else (rows, m, n)
    ids = xp.where(rows < m, ids, count)
    # A matrix may store no value, so one outside is appended.
    lead = xp.shape_of(data)[:-1]
    last_id = xp.zeros((*lead, 1), dtype_of(ids)) + count
    ids = xp.concatenate([ids, last_id], -1)
    data = xp.concatenate([data, xp.zeros((*lead, 1), x.dtype)], -1)
    order = as_indices(xp, xp.order_of(_sort_key(xp, name, data)))
    by_id = as_indices(xp, xp.order_of(take_last(xp, ids, order)))
    ordered = take_last(xp, data, take_last(xp, order, by_id))
    counts = segment_sum(xp, xp.ones_like(ids)[..., None], ids, count)[..., 0]
    last_positions = xp.maximum(xp.cumsum(counts, -1) - 1, 0)
    y = take_last(xp, ordered, as_indices(xp, last_positions))
    zero = xp.zeros_like(y)
    y = xp.where(counts < length, _pairwise(xp, name)(y, zero), y)
    return xp.where(counts > 0, y, zero)


def _pairwise(xp: Any, name: str) -> Any:
    return xp.maximum if name == "max" else xp.minimum


def _sort_key(xp: Any, name: str, x: Any) -> Any:
    """Return numbers that ascend towards the extreme, with NaN last."""
    if dtype_of(x).kind == "b":
        x = as_indices(xp, x)
    if name == "max":
        return x
    return xp.negative(x) if is_inexact(str(dtype_of(x))) else xp.invert(x)
