"""Interpolation between points on a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphc.errors import ArgumentError, ShapeError
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.reduce import as_floating
from graphc.tensor.arrays.sort import argsort, searchsorted
from graphc.tensor.core.elementwise import abs, clip, greater, less, less_equal, remainder, where
from graphc.tensor.core.shape import length
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function

__all__ = ["interp", "interpolate1d"]

Between = Callable[[Any, Any, Any, Any, Any], Any]


def _linear(at: Any, x0: Any, x1: Any, y0: Any, y1: Any) -> Any:
    return y0 + (at - x0) / (x1 - x0) * (y1 - y0)


def _nearest(at: Any, x0: Any, x1: Any, y0: Any, y1: Any) -> Any:
    return where(less_equal(at - x0, x1 - at), y0, y1)


METHODS: dict[str, Between] = {
    "linear": _linear,
    "nearest": _nearest,
    "mean": lambda at, x0, x1, y0, y1: (y0 + y1) / 2,
}
"""The value at a position between two points."""

STEPS = {"first": -1, "last": 0}
"""Methods that take the value of one point: its offset from the number of points to the left."""


def interpolate1d(
    x: TensorLike,
    y: TensorLike,
    method: str = "linear",
    left_pad: TensorLike | None = None,
    right_pad: TensorLike | None = None,
    extrapolate: bool = True,
) -> Callable[[TensorLike], Tensor]:
    """Return a function that interpolates between points.

    Args:
        x: The points: a vector of at least two, in any order.
        y: The values at the points, a vector.
        method: Between two points: ``"linear"``, ``"nearest"``, the ``"first"`` of their values,
            the ``"last"``, or the ``"mean"``.
        left_pad: The value in front of the first point; by default the first point's.
        right_pad: The value behind the last point; by default the last point's.
        extrapolate: Outside of the points, continue the line or the mean of the outermost two, and
            for other methods take the value of the outermost one; the pads are unused.

    Returns:
        A function of an array of any shape.

    Raises:
        ArgumentError: If there is no such method.
        ShapeError: If x and y are not vectors of one length.

    Example:
        >>> import graphc.tensor as gt
        >>> f = gt.interpolate1d([0, 1, 3], [0, 10, 30], left_pad=-1, extrapolate=False)
        >>> f([-5, 0.5, 2]).eval(mode="NUMPY").tolist()
        [-1.0, 5.0, 20.0]
    """
    if method not in {*METHODS, *STEPS}:
        methods = ", ".join([*METHODS, *STEPS])
        raise ArgumentError(f"interpolate1d: unknown method={method!r}.", f"Use one of {methods}.")
    x, y = _points(as_floating(x), as_floating(y))
    order = argsort(x)
    x, y = x[order], y[order]
    before = y[0] if left_pad is None else left_pad
    behind = y[-1] if right_pad is None else right_pad

    def interpolate(at: Any) -> Tensor:
        at = as_floating(at)
        below, end = searchsorted(x, at), as_tensor(length(x, 0)) - 1
        last = clip(below, 1, end)
        first = last - 1
        between: Tensor = (
            y[clip(below + STEPS[method], 0, end)]
            if method in STEPS
            else METHODS[method](at, x[first], x[last], y[first], y[last])
        )
        if extrapolate:
            return between
        return where(less(at, x[0]), before, where(greater(at, x[-1]), behind, between))

    return interpolate


def _points(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    sizes = {n for t in (x, y) for n in t.type.shape if n is not None}
    if x.ndim != 1 or y.ndim != 1 or len(sizes) > 1:
        raise ShapeError(
            f"interp: expected points and values of one length, got {x!r} and {y!r}.",
            "Pass two vectors of one length.",
        )
    return x, specify_shape(y, (length(x, 0),))


@function
def interp(
    x: TensorLike,
    xp: TensorLike,
    fp: TensorLike,
    left: TensorLike | None = None,
    right: TensorLike | None = None,
    period: TensorLike | None = None,
) -> Tensor:
    """Return the linear interpolation between points.

    Args:
        x: The points to interpolate at; any shape.
        xp: The points: a vector in any order.
        fp: The values at the points.
        left: The value in front of the first point; by default the first point's.
        right: The value behind the last point; by default the last point's.
        period: The points repeat with it; ``left`` and ``right`` are unused.

    Returns:
        A floating array of x's shape.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.interp([0.5, 9], [0, 1, 2], [0, 10, 40]).eval(mode="NUMPY").tolist()
        [5.0, 40.0]
    """
    x, (xp, fp) = as_floating(x), _points(as_floating(xp), as_floating(fp))
    if period is None:
        return interpolate1d(xp, fp, "linear", left, right, extrapolate=False)(x)
    period = abs(as_tensor(period))
    x, xp = remainder(x, period), remainder(xp, period)
    order = argsort(xp)
    xp, fp = xp[order], fp[order]
    xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
    fp = concatenate([fp[-1:], fp, fp[:1]])
    return interpolate1d(xp, fp)(x)
