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


@function
def append(arr: TensorLike, values: TensorLike, axis: int | None = None) -> Tensor:
    """Return an array with values appended to it.

    Args:
        arr: Any shape and dtype.
        values: Of arr's shape but for the axis.
        axis: The axis to join along; by default both are taken as vectors.

    Raises:
        ShapeError: Shapes that do not fit.

    Example:
        >>> append([1, 2], [[3], [4]]).eval(mode="NUMPY").tolist()
        [1, 2, 3, 4]
    """
    if axis is None:
        return concatenate([ravel(arr), ravel(values)], 0)
    return concatenate([arr, values], axis)


def _along(op: str, arr: Any, axis: int | None) -> tuple[Tensor, int]:
    """The array and the axis: by default all elements as a vector."""
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


def _places(op: str, obj: Any) -> Any:
    """The positions as a Python integer, a slice or a NumPy array."""
    if isinstance(obj, Tensor):
        raise ArgumentError(
            f"{op}: the position {obj!r} is symbolic.",
            "Use Python's or NumPy's integers; for others, join slices with gt.concatenate.",
        )
    if isinstance(obj, slice):
        return obj
    places = np.asarray(obj)
    if not places.size:
        places = places.astype(np.int64)
    if places.dtype.kind not in "iub" or (places.dtype.kind == "b" and not places.ndim):
        raise DTypeError(f"{op}: {obj!r} are not positions.", "Use integers.")
    return places if places.ndim else int(places)


def _within(op: str, i: int, n: int | Tensor, last: int = 0) -> None:
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
        axis: The axis to delete from; by default elements are, from all as a vector.

    Raises:
        ShapeError: No such axis, or its length is unknown.
        BoundsError: A position outside the axis.
        ArgumentError: A symbolic position.

    Example:
        >>> delete([1, 2, 3, 4], [0, -1]).eval(mode="NUMPY").tolist()
        [2, 3]
    """
    x, at = _along("delete", arr, axis)
    places, n = _places("delete", obj), length(x, at)
    if isinstance(places, int):
        _within("delete", places, n)
        sizes = (places, 1, n - places - 1) if places >= 0 else (n + places, 1, -places - 1)
        first, _, rest = parts_of(x, sizes, at)
        return concatenate([first, rest], at)
    kept = np.ones(_static("delete", x, at), bool)
    try:
        kept[places] = False
    except IndexError as error:
        raise BoundsError(f"delete: {error}.") from None
    return x[slice_at_axis(np.flatnonzero(kept), at)]


@function
def insert(arr: TensorLike, obj: Any, values: TensorLike, axis: int | None = None) -> Tensor:
    """Return an array with values inserted between its slices.

    Args:
        arr: Any shape and dtype.
        obj: The positions to insert before: an integer, a slice, or several integers or a mask, not
            symbolic. The axis's length is static, but where it is a single integer.
        values: A value that broadcasts to the slices that are inserted; cast to arr's dtype.
        axis: The axis to insert along; by default elements are, among all as a vector.

    Raises:
        ShapeError: No such axis, its length is unknown, or values that do not fit.
        BoundsError: A position outside the axis.
        ArgumentError: A symbolic position.

    Example:
        >>> insert([1, 2, 3], [0, 2], 9).eval(mode="NUMPY").tolist()
        [9, 1, 2, 9, 3]
    """
    x, at = _along("insert", arr, axis)
    places, n = _places("insert", obj), length(x, at)
    own = lengths(x)
    values = atleast_Nd(cast(values, x.dtype), n=x.ndim)
    if isinstance(places, int):
        _within("insert", places, n, last=1)
        # As in NumPy: the values for a single place stand along the first axis.
        values = moveaxis(values, 0, at)
        new = broadcast_to(values, (*own[:at], length(values, at), *own[at + 1 :]))
        sizes = (places, n - places) if places >= 0 else (n + places, -places)
        first, rest = parts_of(x, sizes, at)
        return concatenate([first, new, rest], at)
    where_new, order = _merged(places, _static("insert", x, at))
    count = len(where_new)
    new = broadcast_to(values, (*own[:at], count, *own[at + 1 :]))
    return concatenate([x, new], at)[slice_at_axis(order, at)]


def _merged(places: Any, n: int) -> tuple[Any, Any]:
    """Where new slices stand, and which of the n old or new slices stands at each position."""
    if isinstance(places, slice) or places.dtype == bool:
        places = np.arange(n)[places]
    for i in places:
        _within("insert", int(i), n, last=1)
    places = np.where(places < 0, places + n, places)
    order = np.argsort(places, kind="stable")
    standing = np.empty(len(places), np.int64)
    standing[order] = places[order] + np.arange(len(places))
    total = np.full(n + len(places), -1)
    total[standing] = n + np.arange(len(places))
    total[total < 0] = np.arange(n)
    return standing, total
