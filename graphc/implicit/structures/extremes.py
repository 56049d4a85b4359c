"""Extremes of sparse matrices, which include the zeros that are not stored."""

from __future__ import annotations

from typing import Any

from graphc.implicit.structures.merging import take_last
from graphc.implicit.structures.segments import as_indices, extreme_values, segment_sum
from graphc.implicit.structures.stacked import product, reduce_in_dtype
from graphc.implicit.treedef import dtype_of
from graphc.ir import is_inexact


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
