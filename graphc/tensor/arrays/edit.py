"""Slices inserted into an array or deleted from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.split import parts_of
from graphc.tensor.core.axes import atleast_Nd, moveaxis, slice_at_axis
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.shape import length, lengths, ravel
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, axes_of, function

__all__ = ["append", "delete", "insert"]


@function
def append(arr: TensorLike, values: TensorLike, axis: int | None = None) -> Tensor:
    """Return an array with values appended to it.

    Args:
        arr: Any shape and dtype.
        values: An array of arr's shape but for the axis.
        axis: The axis to join along; by default both are taken as vectors.

    Raises:
        ShapeError: Shapes do not fit.

    Example:
        >>> append([1, 2], [[3], [4]]).eval(mode="NUMPY").tolist()
        [1, 2, 3, 4]
    """
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


def _flatten_by_default(op: str, arr: Any, axis: int | None) -> tuple[Tensor, int]:
    x = as_tensor(arr)
    if axis is None:
        x, axis = ravel(x), 0
    return x, axes_of(op, axis, x.ndim)[0]


def _static(op: str, x: Tensor, axis: int) -> int:
    n = x.type.shape[axis]
    if n is None:
        raise ShapeError(
            f"{op}({x!r}): the length of axis {axis} is unknown.",
            "Use a single place, or declare it, as with gt.specify_shape(x, (3, None)).",
        )
    return n


def _parse_positions(op: str, obj: Any) -> Any:
    if isinstance(obj, Tensor):
        raise ArgumentError(
            f"{op}: the position {obj!r} is symbolic.",
            "Use Python's or NumPy's integers; for others, join slices with gt.concatenate.",
        )
    if isinstance(obj, slice):
        return obj
    positions = np.asarray(obj)
    if not positions.size:
        positions = positions.astype(np.int64)
    if positions.dtype.kind not in "iub" or (positions.dtype.kind == "b" and not positions.ndim):
        raise DTypeError(f"{op}: {obj!r} are not positions.", "Use integers.")
    return positions if positions.ndim else int(positions)


def _check_position(op: str, i: int, n: int | Tensor, last: int = 0) -> None:
    """Raise if a position is not one of n, or one of n + 1 with ``last``."""
    if isinstance(n, int) and not -n <= i < n + last:
        raise BoundsError(f"{op}: position {i} is outside an axis of length {n}.")


@function
def delete(arr: TensorLike, obj: Any, axis: int | None = None) -> Tensor:
    """Return an array without some of its slices.

    Args:
        arr: Any shape and dtype.
        obj: The positions: an integer, a slice, or several integers or a mask, not symbolic. The
            axis's length is static unless this is a single integer.
        axis: The axis to delete from; by default elements are deleted, from all as a vector.

    Raises:
        ShapeError: No such axis, or its length is unknown.
        BoundsError: A position is outside the axis.
        ArgumentError: A position is symbolic.

    Example:
        >>> delete([1, 2, 3, 4], [0, -1]).eval(mode="NUMPY").tolist()
        [2, 3]
    """
    x, at = _flatten_by_default("delete", arr, axis)
    positions, n = _parse_positions("delete", obj), length(x, at)
    if isinstance(positions, int):
        _check_position("delete", positions, n)
        sizes = (
            (positions, 1, n - positions - 1)
            if positions >= 0
            else (n + positions, 1, -positions - 1)
        )
        first, _, rest = parts_of(x, sizes, at)
        return concatenate([first, rest], at)
    mask = np.ones(_static("delete", x, at), bool)
    try:
        mask[positions] = False
    except IndexError as error:
        raise BoundsError(f"delete: {error}.") from None
    return x[slice_at_axis(np.flatnonzero(mask), at)]


@function
def insert(arr: TensorLike, obj: Any, values: TensorLike, axis: int | None = None) -> Tensor:
    """Return an array with values inserted between its slices.

    Args:
        arr: Any shape and dtype.
        obj: The positions to insert before: an integer, a slice, or several integers or a mask, not
            symbolic. The axis's length is static unless this is a single integer.
        values: A value that broadcasts to the slices that are inserted; cast to arr's dtype.
        axis: The axis to insert along; by default elements are inserted, among all as a vector.

    Raises:
        ShapeError: No such axis, its length is unknown, or values that do not fit.
        BoundsError: A position is outside the axis.
        ArgumentError: A position is symbolic.

    Example:
        >>> insert([1, 2, 3], [0, 2], 9).eval(mode="NUMPY").tolist()
        [9, 1, 2, 9, 3]
    """
    x, at = _flatten_by_default("insert", arr, axis)
    positions, n = _parse_positions("insert", obj), length(x, at)
    shape = lengths(x)
    values = atleast_Nd(cast(values, x.dtype), n=x.ndim)
    if isinstance(positions, int):
        _check_position("insert", positions, n, last=1)
        # As in NumPy: the values for a single position lie along the first axis.
        values = moveaxis(values, 0, at)
        new = broadcast_to(values, (*shape[:at], length(values, at), *shape[at + 1 :]))
        sizes = (positions, n - positions) if positions >= 0 else (n + positions, -positions)
        first, rest = parts_of(x, sizes, at)
        return concatenate([first, new, rest], at)
    where_new, order = _merge_order(positions, _static("insert", x, at))
    count = len(where_new)
    new = broadcast_to(values, (*shape[:at], count, *shape[at + 1 :]))
    return concatenate([x, new], at)[slice_at_axis(order, at)]


def _merge_order(positions: Any, n: int) -> tuple[Any, Any]:
    """Return the positions of new slices, and the old or new slice at each position."""
    if isinstance(positions, slice) or positions.dtype == bool:
        positions = np.arange(n)[positions]
    for i in positions:
        _check_position("insert", int(i), n, last=1)
    positions = np.where(positions < 0, positions + n, positions)
    order = np.argsort(positions, kind="stable")
    new_positions = np.empty(len(positions), np.int64)
    new_positions[order] = positions[order] + np.arange(len(positions))
    total = np.full(n + len(positions), -1)
    total[new_positions] = n + np.arange(len(positions))
    total[total < 0] = np.arange(n)
    return new_positions, total
