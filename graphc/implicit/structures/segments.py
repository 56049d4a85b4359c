"""Indices in stacks of matrices: checks, gathers, and sums by segment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.errors import BoundsError, MaterializeError
from graphc.implicit.namespace import numpy_like
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
