"""Places in the matrices of a stack: their range, gathers and sums by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import BoundsError, MaterializeError
from graphc.implicit.namespace import numpy_like
from graphc.implicit.treedef import dtype_of
from graphc.ir import is_inexact

Entries = tuple[Any, Any, Any]
"""Values, rows and columns, each (..., nse); one behind the last where there is no element."""


def as_places(xp: Any, x: Any) -> Any:
    """Integers in the dtype that the library has for places."""
    dtype = dtype_of(xp.arange(1))
    return x if dtype_of(x) == dtype else xp.cast(x, dtype)


def largest_place(x: Any) -> int:
    """The largest number that an array of integers can hold."""
    return int(np.iinfo(dtype_of(x)).max)


def segments(xp: Any, values: Any, ids: Any, n: int) -> Any:
    """Sums by number: of values (..., m, k) and ids (..., m) an array (..., n, k).

    What has an id out of range is left out.
    """
    *batch, m, k = xp.shape_of(values)
    if not batch:
        return _summed(xp, values, ids, n)
    count = _product(batch)
    _check(ids, count, n)
    inside = (ids >= 0) & (ids < n)
    before = xp.reshape(xp.arange(count) * n, (*batch, 1))
    flat = xp.reshape(xp.where(inside, ids + before, count * n), (count * m,))
    sums = _summed(xp, xp.reshape(values, (count * m, k)), flat, count * n)
    return xp.reshape(sums, (*batch, n, k))


def _summed(xp: Any, values: Any, ids: Any, n: Any) -> Any:
    """Sum by segment; the sum of bools is "or"."""
    if dtype_of(values).kind != "b":
        return xp.segment_sum(values, ids, n)
    return xp.not_equal(xp.segment_sum(as_places(xp, values), ids, n), 0)


def taken(xp: Any, x: Any, ids: Any) -> Any:
    """Rows ``ids`` (..., m), within bounds, of matrices (..., n, k): (..., m, k)."""
    *batch, n, k = xp.shape_of(x)
    if not batch:
        return x[ids]
    count = _product(batch)
    _check(ids, count, n)
    before = xp.reshape(xp.arange(count) * n, (*batch, 1))
    return xp.reshape(x, (count * n, k))[ids + before]


def _product(lengths: Any) -> Any:
    y: Any = 1
    for n in lengths:
        y = y * n
    return y


def _check(ids: Any, count: Any, n: Any) -> None:
    if isinstance(count, int) and isinstance(n, int) and count * n > largest_place(ids):
        raise MaterializeError(
            f"{count} matrices of {n} rows each have more elements than {dtype_of(ids)} counts.",
            "Enable 64-bit integers, for JAX by jax.config.update('jax_enable_x64', True).",
        )


def within(name: str, field: str, places: Any, n: int) -> None:
    """Raise where places of NumPy's are neither below n nor n, which stands for none.

    Raises:
        BoundsError: Says which.
    """
    if not isinstance(places, np.ndarray) or not places.size:
        return
    for place in (int(places.min()), int(places.max())):
        if not 0 <= place <= n:
            raise BoundsError(
                f"{name}: {field} has {place}, and the length is {n}.",
                f"Places are from 0 to {n - 1}; {n} marks a value to be left out.",
            )


def cleaned(data: Any, rows: Any, columns: Any, lengths: tuple[int, int]) -> Entries:
    """Values and places: row m and column n, each behind the last, where one is out of range."""
    xp = numpy_like(data, rows, columns)
    rows, columns = as_places(xp, rows), as_places(xp, columns)
    m, n = lengths
    inside = (rows >= 0) & (rows < m) & (columns >= 0) & (columns < n)
    return data, xp.where(inside, rows, m), xp.where(inside, columns, n)


def repeated(rows: Any, columns: Any, m: int) -> tuple[int, int] | None:
    """The row and column of an element, of NumPy's places, that comes twice in a matrix."""
    inside = rows < m
    stack = np.indices(rows.shape)[:-1].reshape(rows.ndim - 1, *rows.shape)
    places = np.stack([*[axis[inside] for axis in stack], rows[inside], columns[inside]])
    found, counts = np.unique(places, axis=1, return_counts=True)
    if found.shape[1] == places.shape[1]:
        return None
    *_, row, column = found[:, np.argmax(counts)].tolist()
    return row, column


def ends_of(dtype: Any) -> tuple[Any, Any]:
    """The largest and the smallest of a dtype."""
    if is_inexact(str(dtype)):
        return np.inf, -np.inf
    bounds = np.iinfo(dtype)
    return int(bounds.max), int(bounds.min)
