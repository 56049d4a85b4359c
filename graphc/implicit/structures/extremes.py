"""Extremes of sparse matrices, in which the zeros that are not stored count."""

from __future__ import annotations

from typing import Any

from graphc.implicit.structures.merging import picked
from graphc.implicit.structures.segments import as_places, ends_of, segments
from graphc.implicit.structures.stacked import kept, product
from graphc.implicit.treedef import dtype_of
from graphc.ir import is_inexact


def all_true(x: Any, axes: tuple[int, ...]) -> Any:
    """Whether as many elements are stored and true as there are; each is stored once."""
    xp = x.xp
    counts = x.with_values(as_places(xp, x.values)).matrix_reduced("sum", axes)
    return xp.equal(counts, product(*[x.matrix[axis] for axis in axes]))


def extreme(x: Any, name: str) -> Any:
    """The ``"max"`` or ``"min"`` of each matrix, of which each element is stored once."""
    xp = x.xp
    data, rows, _ = x.entries()
    inside = rows < x.matrix[0]
    with_zero = xp.where(inside, data, xp.zeros((), x.dtype))
    # One more zero, as there may be no value at all.
    more = xp.zeros((*xp.shape_of(data)[:-1], 1), x.dtype)
    y = kept(xp, name, xp.concatenate([with_zero, more], -1), (-1,))
    m, n = x.matrix
    if x.nse is not None and x.nse < m * n:
        return y
    stored = kept(xp, "sum", as_places(xp, inside), (-1,))
    end = ends_of(x.dtype)[name == "max"]
    alone = kept(xp, name, xp.where(inside, data, xp.full((), end, x.dtype)), (-1,))
    return xp.where(xp.equal(stored, m * n), alone, _join(xp, name)(y, alone))


def extreme_along(x: Any, name: str, axis: int) -> Any:
    """The extremes of rows or columns: the last of each, in order of places and values."""
    xp = x.xp
    data, rows, columns = x.entries()
    m, n = x.matrix
    places, count, across = (columns, n, m) if axis == -2 else (rows, m, n)
    places = xp.where(rows < m, places, count)
    # One more, as there may be none.
    lead = xp.shape_of(data)[:-1]
    last = xp.zeros((*lead, 1), dtype_of(places)) + count
    places = xp.concatenate([places, last], -1)
    data = xp.concatenate([data, xp.zeros((*lead, 1), x.dtype)], -1)
    order = as_places(xp, xp.order_of(_rising(xp, name, data)))
    again = as_places(xp, xp.order_of(picked(xp, places, order)))
    found = picked(xp, data, picked(xp, order, again))
    counts = segments(xp, xp.ones_like(places)[..., None], places, count)[..., 0]
    ends = xp.maximum(xp.cumsum(counts, -1) - 1, 0)
    y = picked(xp, found, as_places(xp, ends))
    zero = xp.zeros_like(y)
    y = xp.where(counts < across, _join(xp, name)(y, zero), y)
    return xp.where(counts > 0, y, zero)


def _join(xp: Any, name: str) -> Any:
    return xp.maximum if name == "max" else xp.minimum


def _rising(xp: Any, name: str, x: Any) -> Any:
    """Numbers by which the extreme comes last, and a NaN behind it."""
    if dtype_of(x).kind == "b":
        x = as_places(xp, x)
    if name == "max":
        return x
    return xp.negative(x) if is_inexact(str(dtype_of(x))) else xp.invert(x)
