"""Differences of neighbouring elements, and numerical gradients."""

from __future__ import annotations

from typing import Any

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import is_inexact, real_dtype
from graphc.tensor.arrays.broadcast import broadcast_to, one_slice
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.core.axes import expand_dims, slice_at_axis
from graphc.tensor.core.elementwise import cast, not_equal, subtract
from graphc.tensor.core.shape import length, ravel
from graphc.tensor.core.tensor import Axis, Tensor, TensorLike, as_tensor, axes_of, function

__all__ = ["diff", "ediff1d", "gradient"]


@function
def diff(
    x: TensorLike,
    n: int = 1,
    axis: int = -1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """Return each element's difference from the one before it.

    Args:
        x: At least one axis; for bool, the result is whether neighbours differ.
        n: How often to take differences; an axis gets shorter by one each time.
        axis: The axis to take differences along.
        prepend: Values put in front of x along the axis before; a scalar is one value.
        append: Values put behind x.

    Raises:
        ShapeError: ``n`` is negative, or there is no such axis.

    Example:
        >>> diff([1, 4, 9, 16], n=2).eval(mode="NUMPY").tolist()
        [2, 2]
    """
    x = as_tensor(x)
    (at,) = axes_of("diff", axis, x.ndim)
    if n < 0:
        raise ShapeError(f"diff: n={n} is negative.", "Pass 0 or more.")
    if n == 0:
        return x
    pieces = [_beside(prepend, x, at), x, _beside(append, x, at)]
    x = concatenate([part for part in pieces if part is not None], at)
    minus = not_equal if x.dtype == "bool" else subtract
    for _ in range(n):
        x = minus(x[slice_at_axis(slice(1, None), at)], x[slice_at_axis(slice(None, -1), at)])
    return x


def _beside(value: Any, x: Tensor, axis: int) -> Tensor | None:
    if value is None:
        return None
    y = as_tensor(value)
    if y.ndim:
        return y
    return one_slice(y, x, axis)


@function
def ediff1d(
    x: TensorLike, to_end: TensorLike | None = None, to_begin: TensorLike | None = None
) -> Tensor:
    """Return the differences of neighbours among all elements in row-major order.

    Args:
        x: Any shape.
        to_end: Values put behind the differences, in x's dtype.
        to_begin: Values put in front of them.

    Returns:
        A vector.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.ediff1d([1, 2, 4], to_end=9).eval(mode="NUMPY").tolist()
        [1, 2, 9]
    """
    x = ravel(x)
    ends = [
        None if end is None else ravel(as_tensor(end, dtype=x.dtype)) for end in (to_begin, to_end)
    ]
    pieces = [ends[0], x[1:] - x[:-1], ends[1]]
    return concatenate([part for part in pieces if part is not None])


@function
def gradient(
    x: TensorLike, *varargs: TensorLike, axis: Axis = None, edge_order: int = 1
) -> Tensor | tuple[Tensor, ...]:
    """Return the derivative along axes by central differences, one-sided at the ends.

    Args:
        x: Numbers, ``edge_order + 1`` elements at least on each axis; integers become float64.
        varargs: The distance of neighbours: none for 1, one number for all axes, or one for each
            axis, a number or a vector of coordinates.
        axis: One axis or several, all by default.
        edge_order: 1: the difference from the one neighbour; 2: exact for parabolas.

    Returns:
        An array of x's shape, or a tuple of them, one for each axis where there are several.

    Raises:
        ShapeError: There is no such axis, or it is too short.
        ArgumentError: The numbers of distances and axes differ, or ``edge_order`` is not 1 or 2.

    Example:
        >>> gradient([1.0, 4.0, 9.0, 16.0], edge_order=2).eval(mode="NUMPY").tolist()
        [2.0, 4.0, 6.0, 8.0]
    """
    x = as_tensor(x)
    x = x if is_inexact(x.dtype) else cast(x, "float64")
    axes = axes_of("gradient", axis, x.ndim)
    distances = list(varargs) or [1.0]
    distances = distances * len(axes) if len(distances) == 1 else distances
    if len(distances) != len(axes) or edge_order not in {1, 2}:
        raise ArgumentError(
            f"gradient: got {len(varargs)} distances for {len(axes)} axes and "
            f"edge_order={edge_order}.",
            "Pass one distance, or one for each axis, and 1 or 2 as edge_order.",
        )
    derivatives = [_derivative(x, at, h, edge_order) for at, h in zip(axes, distances, strict=True)]
    return derivatives[0] if len(derivatives) == 1 else tuple(derivatives)


def _derivative(x: Tensor, axis: int, distance: Any, edge_order: int) -> Tensor:
    n = x.type.shape[axis]
    if n is not None and n <= edge_order:
        raise ShapeError(
            f"gradient({x!r}): axis {axis} has only {n} elements.",
            f"edge_order={edge_order} needs at least {edge_order + 1}.",
        )
    steps = _neighbour_distances(x, axis, distance)
    first, last = _part(steps, slice(None, -1), axis), _part(steps, slice(1, None), axis)
    rise = _part(x, slice(1, None), axis) - _part(x, slice(None, -1), axis)
    # The derivative between two neighbours, and of the parabola through three: each weighted by
    # the other's distance.
    secant = rise / steps
    before, after = _part(secant, slice(None, -1), axis), _part(secant, slice(1, None), axis)
    middle = (before * last + after * first) / (first + last)
    ends = [_part(secant, slice(0, 1), axis), _part(secant, slice(-1, None), axis)]
    if edge_order == 2:
        bend = (after - before) / (first + last)
        start, stop = slice(0, 1), slice(-1, None)
        ends[0] = ends[0] - _part(bend * first, start, axis)
        ends[1] = ends[1] + _part(bend * last, stop, axis)
    return concatenate([ends[0], middle, ends[1]], axis)


def _neighbour_distances(x: Tensor, axis: int, distance: Any) -> Tensor:
    distance = as_tensor(distance, dtype=real_dtype(x.dtype))
    shape = (length(x, axis) - 1,)
    steps = diff(distance) if distance.ndim == 1 else broadcast_to(distance, shape)
    others = [i for i in range(x.ndim) if i != axis]
    return expand_dims(steps, others) if others else steps


def _part(x: Tensor, part: slice, axis: int) -> Tensor:
    return x[slice_at_axis(part, axis)]
