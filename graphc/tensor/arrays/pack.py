"""Axes merged and split, and arrays of many shapes packed into one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphc.errors import ArgumentError, ShapeError
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.split import parts_of
from graphc.tensor.core.axes import expand_dims, squeeze
from graphc.tensor.core.shape import lengths, list_entries, reshape, shape as shape_of
from graphc.tensor.core.tensor import (
    Axis,
    Tensor,
    TensorLike,
    as_tensor,
    axes_of,
    constant,
    function,
    known_axes,
)

__all__ = ["join_dims", "pack", "split_dims", "unpack"]


@function
def join_dims(x: TensorLike, start_axis: int = 0, n_axes: int | None = None) -> Tensor:
    """Return the array with consecutive axes merged into one, in row-major order.

    Args:
        x: Any shape and dtype.
        start_axis: The first axis to merge; a negative one counts from the end.
        n_axes: The number of axes, by default all from there on; 0 inserts an axis of length 1.

    Raises:
        ShapeError: There are no such axes.

    Example:
        >>> import graphc.tensor as gt
        >>> join_dims(gt.tensor("x", shape=(2, 3, 4, None)), 1, 2).type
        float64[2, 12, ?]
    """
    x, start_axis = as_tensor(x), known_axes(start_axis)
    first = start_axis + x.ndim if start_axis < 0 else start_axis
    count = x.ndim - first if n_axes is None else n_axes
    if first < 0 or count < 0 or first + count > x.ndim:
        raise ShapeError(
            f"join_dims({x!r}): the array does not have {n_axes or ''} axes from {start_axis} on.",
            f"It has {x.ndim} axes.",
        )
    if count == 0:
        return expand_dims(x, first)
    if count == 1:
        return x
    own = lengths(x)
    merged = math.prod(own[first : first + count])
    return reshape(x, (*own[:first], merged, *own[first + count :]))


@function
def split_dims(x: TensorLike, shape: Any, axis: int = 0) -> Tensor:
    """Return the array with an axis split into several, in row-major order.

    Args:
        x: At least one axis.
        shape: The lengths of the new axes: Python or symbolic integers, or an int64 vector of
            static length; one may be -1. With none, the axis, of length 1, is dropped.
        axis: The axis to split; a negative one counts from the end.

    Raises:
        ShapeError: There is no such axis, or the lengths do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> split_dims(gt.tensor("x", shape=(6, None)), (2, 3)).type
        float64[2, 3, ?]
    """
    x = as_tensor(x)
    (at,) = axes_of("split_dims", axis, x.ndim)
    sizes = list_entries("split_dims", shape)
    if not sizes:
        return squeeze(x, at)
    own = lengths(x)
    static = [n for n in (own[at], *sizes) if isinstance(n, int)]
    if len(static) == len(sizes) + 1 and sizes.count(-1) == 1:
        # The length that -1 stands for is known even if other axes of the array are not.
        rest = -math.prod(sizes)
        if rest and not static[0] % rest:
            sizes = [static[0] // rest if n == -1 else n for n in sizes]
    return reshape(x, (*own[:at], *sizes, *own[at + 1 :]))


def _count_kept_axes(op: str, keep_axes: Axis) -> tuple[int, int]:
    if keep_axes is None:
        return 0, 0
    axes = sorted([keep_axes] if isinstance(keep_axes, int) else keep_axes)
    front, back = [a for a in axes if a >= 0], [a for a in axes if a < 0]
    if front != [*range(len(front))] or back != [*range(-len(back), 0)]:
        raise ArgumentError(
            f"{op}: keep_axes={keep_axes!r} are not the first and the last axes.",
            "Pass 0, 1, ... for leading and ..., -2, -1 for trailing axes, without gaps.",
        )
    return len(front), len(back)


@function
def pack(*tensors: TensorLike, keep_axes: Axis = None) -> tuple[Tensor, list[Tensor]]:
    """Return arrays flattened but for some axes and joined along the flattened one.

    Args:
        tensors: At least one array; each may have its own axes beside those kept.
        keep_axes: Axes of all arrays that are kept: leading ones from 0 on, trailing ones from -1
            down. By default none, and vectors are joined.

    Returns:
        The joined array, and the shape of the flattened axes of each array, for ``unpack``.

    Raises:
        ShapeError: There is no array, one lacks the axes kept, or their lengths do not fit.
        ArgumentError: The axes to keep are not the first and the last ones.

    Example:
        >>> import graphc.tensor as gt
        >>> a, b = gt.tensor("a", shape=(2, 3)), gt.tensor("b", shape=(2, 4, 5))
        >>> packed, shapes = pack(a, b, keep_axes=0)
        >>> packed.type
        float64[2, 23]
    """
    front, back = _count_kept_axes("pack", keep_axes)
    flat, shapes = [], []
    for x in map(as_tensor, tensors):
        count = x.ndim - front - back
        if count < 0:
            raise ShapeError(f"pack: {x!r} has fewer than the {front + back} axes that are kept.")
        flat.append(join_dims(x, front, count))
        shapes.append(shape_of(x)[front : front + count] if count else constant([], dtype="int64"))
    return concatenate(flat, front), shapes


@function
def unpack(
    packed_input: TensorLike, packed_shapes: Sequence[Any], keep_axes: Axis = None
) -> list[Tensor]:
    """Return the arrays that ``pack`` joined.

    Args:
        packed_input: The joined array.
        packed_shapes: The shape of the flattened axes of each array: tuples of integers, Python's
            or symbolic, or int64 vectors of static length.
        keep_axes: The argument of ``pack``.

    Returns:
        The arrays, in order.

    Raises:
        ShapeError: The array does not have one axis beside those kept, or lengths do not add up.

    Example:
        >>> import graphc.tensor as gt
        >>> [x.type for x in unpack(gt.vector("x"), [(), (2, 3)])]
        [float64[], float64[2, 3]]
    """
    x = as_tensor(packed_input)
    front, back = _count_kept_axes("unpack", keep_axes)
    if x.ndim != front + back + 1:
        raise ShapeError(
            f"unpack({x!r}, keep_axes={keep_axes!r}): expected one axis beside those kept."
        )
    shapes = [list_entries("unpack", shape) for shape in packed_shapes]
    pieces = parts_of(x, [math.prod(shape) for shape in shapes], front)
    return [split_dims(part, shape, front) for part, shape in zip(pieces, shapes, strict=True)]
