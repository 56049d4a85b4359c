"""Elements moved along axes: rolled, flipped and rotated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir import Constant, is_integer
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.index import flip
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.axes import slice_at_axis, swapaxes
from graphc.tensor.core.elementwise import cast, maximum
from graphc.tensor.core.shape import length, ravel, shape as shape_of
from graphc.tensor.core.tensor import (
    Axis,
    Tensor,
    TensorLike,
    as_tensor,
    axes_of,
    function,
    known_axes,
)

__all__ = ["fliplr", "flipud", "roll", "rot90"]


@function
def roll(x: TensorLike, shift: Any, axis: Axis = None) -> Tensor:
    """Return the elements shifted along axes; those moved out at one end come in at the other.

    Args:
        x: Any shape and dtype.
        shift: The number of positions, a Python or symbolic integer; one for each axis, or one for
            all.
        axis: One axis or several; an axis that occurs twice is moved by both shifts. By default all
            elements are moved in row-major order.

    Raises:
        ShapeError: x has no such axis, or the numbers of shifts and axes differ.
        DTypeError: A shift is not an integer.

    Example:
        >>> import graphc.tensor as gt
        >>> roll(gt.as_tensor([1, 2, 3, 4]), 1).eval(mode="NUMPY").tolist()
        [4, 1, 2, 3]
    """
    x = as_tensor(x)
    if axis is None:
        flat = roll(ravel(x), _total(_list_shifts(shift)), 0)
        return flat if x.ndim == 1 else flat.reshape(shape_of(x))
    shifts = _list_shifts(shift)
    axis = known_axes(axis)
    axes = list(axis) if isinstance(axis, tuple) else [axis]
    if len(shifts) != len(axes) and 1 not in {len(shifts), len(axes)}:
        raise ShapeError(
            f"roll: got {len(shifts)} shifts for {len(axes)} axes.",
            "Pass one for each, or one for all.",
        )
    count = max(len(shifts), len(axes)) if shifts and axes else 0
    shifts, axes = (values * count if len(values) == 1 else values for values in (shifts, axes))
    moves: dict[int, Any] = {}
    for by, a in zip(shifts, axes, strict=True):
        (at,) = axes_of("roll", a, x.ndim)
        moves[at] = moves[at] + by if at in moves else by
    for at, by in moves.items():
        x = _roll_axis(x, by, at)
    return x


def _total(shifts: Sequence[Any]) -> Any:
    total: Any = 0
    for by in shifts:
        total = total + by
    return total


def _list_shifts(shift: Any) -> list[Any]:
    if isinstance(shift, Tensor) and shift.ndim == 1 and shift.type.shape[0] is None:
        raise ShapeError(
            f"roll: the number of shifts in {shift!r} is unknown.",
            "Declare its length: gt.specify_shape(x, (2,)).",
        )
    if isinstance(shift, np.ndarray):
        shift = shift.tolist()
    several = isinstance(shift, list | tuple) or (isinstance(shift, Tensor) and shift.ndim == 1)
    return [_shift(by) for by in (shift if several else [shift])]


def _shift(by: Any) -> Any:
    x = as_tensor(by)
    if not is_integer(x.dtype) or x.ndim:
        raise DTypeError(f"roll: expected integer shifts, got {by!r}.")
    return int(x.op.value) if isinstance(x.op, Constant) else cast(x, "int64")


def _roll_axis(x: Tensor, by: Any, axis: int) -> Tensor:
    n = length(x, axis)
    if not isinstance(by, int):
        return x[slice_at_axis((arange(n) - by) % n, axis)]
    if by == 0 or n in {0, 1}:
        return x
    # The last ones come first; an empty axis has none.
    cut = n - by % n if isinstance(n, int) else n - by % maximum(n, 1)
    if isinstance(cut, int) and cut == n:
        return x
    slices = (slice(cut, None), slice(None, cut))
    return concatenate([x[slice_at_axis(part, axis)] for part in slices], axis)


@function
def fliplr(x: TensorLike) -> Tensor:
    """Return the columns in reverse order: the second axis of at least two.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fliplr([[1, 2], [3, 4]]).eval(mode="NUMPY").tolist()
        [[2, 1], [4, 3]]
    """
    x = as_tensor(x)
    _check_axes("fliplr", x, 2)
    return flip(x, 1)


@function
def flipud(x: TensorLike) -> Tensor:
    """Return the rows in reverse order: the first axis of at least one.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.flipud([[1.0, 2.0], [3.0, 4.0]]).eval(mode="NUMPY").tolist()
        [[3.0, 4.0], [1.0, 2.0]]
    """
    x = as_tensor(x)
    _check_axes("flipud", x, 1)
    return flip(x, 0)


def _check_axes(op: str, x: Tensor, ndim: int) -> None:
    if x.ndim < ndim:
        raise ShapeError(f"{op}: {x!r} has fewer than {ndim} axes.")


@function
def rot90(x: TensorLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Return the array rotated by right angles in the plane of two axes.

    Args:
        x: At least two axes.
        k: The number of right angles, from the first axis towards the second.
        axes: Two different axes.

    Raises:
        ShapeError: The axes are not two different axes of x.

    Example:
        >>> rot90([[1, 2], [3, 4]]).eval(mode="NUMPY").tolist()
        [[2, 4], [1, 3]]
    """
    x = as_tensor(x)
    positions = [axes_of("rot90", a, x.ndim)[0] for a in axes]
    if len(set(positions)) != 2 or len(positions) != 2:
        raise ShapeError(f"rot90: expected two different axes, got {tuple(axes)}.")
    a, b = positions
    turns: dict[int, Any] = {
        0: lambda: x,
        1: lambda: swapaxes(flip(x, b), a, b),
        2: lambda: flip(x, (a, b)),
        3: lambda: flip(swapaxes(x, a, b), b),
    }
    return turns[k % 4]()  # type: ignore[no-any-return]
