"""Medians and quantiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import Constant, Leaf, is_inexact, promote
from graphc.tensor.arrays.reduce import any, as_floating, merge_axes, restore_axes, sum
from graphc.tensor.arrays.select import take, take_along_axis
from graphc.tensor.arrays.sort import sort
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import expand_dims, moveaxis, squeeze
from graphc.tensor.core.rounding import rint
from graphc.tensor.core.shape import length, lengths, ravel, reshape
from graphc.tensor.core.tensor import Axis, Tensor, TensorLike, as_tensor, axes_of, function
from graphc.tensor.statistics.statistics import mean

__all__ = [
    "median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
]  # fmt: skip


def _sort_last(op: str, x: Tensor, axis: Axis) -> tuple[Tensor, tuple[int, ...]]:
    """Return the elements over axes as one last axis, sorted, and these axes."""
    axes = axes_of(op, axis, x.ndim)
    return sort(merge_axes(x, axes), -1), axes


@function
def median(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the middle element in sorted order, or the mean of the two middle ones.

    Args:
        x: Real numbers of any shape; integers and bool become float64.
        axis: Axes to reduce, all by default.
        keepdims: Keep the reduced axes, of length 1.

    Returns:
        A floating array without ``axis``; NaN for a slice that is empty or holds NaN.

    Raises:
        ShapeError: x has no such axis.

    Example:
        >>> import graphc.tensor as gt
        >>> float(gt.median([7, 1, 4, 2]).eval(mode="NUMPY"))
        3.0
    """
    ordered, axes = _sort_last("median", as_floating(x), axis)
    n = length(ordered, -1)
    # Of an odd number a single element, of none no element: its mean is NaN.
    start = (n - 1) // 2 if isinstance(n, int) and n else ew.clip((as_tensor(n) - 1) // 2, 0)
    middle = ordered[..., start : n // 2 + 1]
    y = ew.where(any(ew.isnan(ordered), -1), np.nan, mean(middle, -1))
    return restore_axes(y, axes) if keepdims else y


@function
def nanmedian(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return ``median`` ignoring NaN; arguments as there; NaN where nothing is left.

    Raises:
        ShapeError: x has no such axis, or a slice is empty.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.nanmedian([1.0, gt.nan, 3.0]).eval(mode="NUMPY").tolist()
        2.0
    """
    ordered, axes = _sort_last("nanmedian", as_floating(x), axis)
    _refuse_empty("nanmedian", ordered, axes)
    n = _count_numbers(ordered)
    below = take_along_axis(ordered, ew.maximum(n - 1, 0) // 2, -1)
    y = squeeze((below + take_along_axis(ordered, n // 2, -1)) / 2, -1)
    return restore_axes(y, axes) if keepdims else y


def _count_numbers(ordered: Tensor) -> Tensor:
    """Return the number of elements of each slice that are not NaN, int64; these come first."""
    return sum(ew.logical_not(ew.isnan(ordered)), -1, keepdims=True)


def _refuse_empty(op: str, ordered: Tensor, axes: tuple[int, ...]) -> None:
    if ordered.type.shape[-1] == 0:
        raise ShapeError(
            f"{op} over axes {axes}: a slice is empty.",
            "Test the length first: an empty slice has no quantiles.",
        )


# Quantiles.

Position = Callable[[Any, Any], Any]
"""The position of the quantile q among n sorted elements; between two, they are interpolated."""


def _spread(alpha: float, beta: float) -> Position:
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _averaged_position(n: Any, q: Any) -> Any:
    position = n * q - 1
    return ew.where(ew.equal(position, ew.floor(position)), position + 0.5, ew.ceil(position))


def _closest_position(n: Any, q: Any) -> Any:
    position = n * q - 1.5
    below = ew.floor(position)
    return ew.where(
        ew.equal(position, below) & ew.equal(ew.remainder(below, 2), 1), below, below + 1
    )


METHODS: dict[str, Position] = {
    "inverted_cdf": lambda n, q: ew.ceil(n * q - 1),
    "averaged_inverted_cdf": _averaged_position,
    "closest_observation": _closest_position,
    "interpolated_inverted_cdf": _spread(0, 1),
    "hazen": _spread(0.5, 0.5),
    "weibull": _spread(0, 0),
    "linear": lambda n, q: (n - 1) * q,
    "median_unbiased": _spread(1 / 3, 1 / 3),
    "normal_unbiased": _spread(3 / 8, 3 / 8),
    "lower": lambda n, q: ew.floor((n - 1) * q),
    "higher": lambda n, q: ew.ceil((n - 1) * q),
    "midpoint": lambda n, q: (ew.floor((n - 1) * q) + ew.ceil((n - 1) * q)) / 2,
    "nearest": lambda n, q: rint((n - 1) * q),
}
"""The methods of Hyndman and Fan by their order, then others; names as in NumPy."""


ELEMENTS = {"inverted_cdf", "closest_observation", "lower", "higher", "nearest"}
"""The methods that return elements, in x's own dtype."""


@function
def quantile(
    x: TensorLike, q: TensorLike, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Return the values below which given fractions of the elements lie.

    Args:
        x: Real numbers of any shape.
        q: Fractions from 0 to 1, of any shape; differentiable.
        axis: Axes to reduce, all by default.
        method: The value between two elements: ``"linear"``, ``"lower"``, ``"higher"``,
            ``"midpoint"``, ``"nearest"``, or a name of one of Hyndman and Fan's, as in NumPy.
        keepdims: Keep the reduced axes, of length 1.

    Returns:
        An array of q's axes, then x's without ``axis``; NaN for a slice that holds NaN. The
        dtype is floating, or x's for methods that return elements.

    Raises:
        ArgumentError: The method is unknown, or a q is outside of 0 to 1.
        ShapeError: x has no such axis, or a slice is empty.

    Source: Hyndman & Fan, The American Statistician 50(4), 1996.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.quantile([1, 2, 3, 5], [0.5, 1.0]).eval(mode="NUMPY").tolist()
        [2.5, 5.0]
    """
    return _quantile("quantile", x, q, axis, method, keepdims, _of_all)


@function
def nanquantile(
    x: TensorLike, q: TensorLike, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Return ``quantile`` ignoring NaN; arguments and errors as there; NaN if nothing is left.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.nanquantile([1.0, gt.nan, 3.0], 0.5).eval(mode="NUMPY").tolist()
        2.0
    """
    return _quantile("nanquantile", x, q, axis, method, keepdims, _of_numbers)


@function
def percentile(
    x: TensorLike, q: TensorLike, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Return ``quantile`` with q from 0 to 100; arguments and errors as for ``quantile``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.percentile([1.0, 2.0, 3.0], 25).eval(mode="NUMPY").tolist()
        1.5
    """
    return _quantile("percentile", x, _hundredth(q), axis, method, keepdims, _of_all)


@function
def nanpercentile(
    x: TensorLike, q: TensorLike, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """Return ``nanquantile`` with q from 0 to 100; arguments and errors as for ``quantile``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.nanpercentile([1.0, gt.nan, 3.0], 50).eval(mode="NUMPY").tolist()
        2.0
    """
    return _quantile("nanpercentile", x, _hundredth(q), axis, method, keepdims, _of_numbers)


def _hundredth(q: Any) -> Any:
    return q / 100 if type(q) in {int, float} else as_tensor(q) / 100


Values = Callable[[Tensor, Tensor, str, str], Tensor]
"""The quantiles of slices in order by a method and in a dtype, along last axes that are q's."""


def _quantile(  # noqa: PLR0913, PLR0917 (those of the public functions)
    op: str, x: Any, q: Any, axis: Axis, method: str, keepdims: bool, values: Values
) -> Tensor:
    if method not in METHODS:
        raise ArgumentError(
            f"{op}: unknown method={method!r}.", f"Use one of {', '.join(METHODS)}."
        )
    x = as_tensor(x) if method in ELEMENTS else as_floating(x)
    ordered, axes = _sort_last(op, x, axis)
    _refuse_empty(op, ordered, axes)
    q, dtype = _fractions(op, q, ordered.dtype)
    y = values(ordered, q, method, dtype)
    y = moveaxis(y, _last(q.ndim, ordered.ndim - 1), list(range(q.ndim))) if q.ndim else y
    return restore_axes(y, tuple(q.ndim + i for i in axes)) if keepdims else y


def _of_all(ordered: Tensor, q: Tensor, method: str, dtype: str) -> Tensor:
    """Return the quantile, NaN where a slice holds NaN."""
    n = as_tensor(length(ordered, -1), dtype="float64")
    position = ew.clip(METHODS[method](n, q), 0, n - 1)
    y = _values(partial(take, ordered, axis=-1), position, method, dtype)
    if not is_inexact(ordered.dtype):
        return y
    hidden = expand_dims(any(ew.isnan(ordered), -1), _last(q.ndim, ordered.ndim - 1))
    return ew.where(hidden, np.nan, y)


def _of_numbers(ordered: Tensor, q: Tensor, method: str, dtype: str) -> Tensor:
    n = ew.cast(_count_numbers(ordered), "float64")
    position = ew.clip(METHODS[method](n, ravel(q)), 0, ew.maximum(n - 1, 0))
    y = _values(partial(take_along_axis, ordered, axis=-1), position, method, dtype)
    return reshape(y, (*lengths(ordered)[:-1], *lengths(q)))


def _values(at: Callable[..., Tensor], position: Tensor, method: str, dtype: str) -> Tensor:
    """Return the values at positions in sorted order, interpolated between integer positions."""
    below = ew.floor(position)
    low = at(indices=ew.cast(below, "int64"))
    if method in ELEMENTS:
        return low
    high = at(indices=ew.cast(ew.ceil(position), "int64"))
    return _interpolate(ew.cast(low, dtype), ew.cast(high, dtype), ew.cast(position - below, dtype))


def _last(count: int, after: int) -> list[int]:
    return list(range(after, after + count))


def _fractions(op: str, q: Any, dtype: str) -> tuple[Tensor, str]:
    """Return the fractions in float64, and the result's dtype: Python numbers are weak."""
    # A NumPy scalar is an int or a float too, and not weak.
    weak = type(q) in {int, float}
    q = as_tensor(q)
    if isinstance(q.op, Constant | Leaf):
        numbers = q.op.value if isinstance(q.op, Constant) else q.op.array
        if not np.all((numbers >= 0) & (numbers <= 1)):
            raise ArgumentError(f"{op}: q={numbers} is outside its range.")
    return ew.cast(q, "float64"), dtype if weak else promote(dtype, ew.quotient(q.dtype)[0])  # type: ignore[index]


def _interpolate(low: Tensor, high: Tensor, part: Tensor) -> Tensor:
    """Interpolate from low to high; exact at both ends, also where they are infinite."""
    # Where low and high are equal numbers, each still has its part of the derivative.
    rise = ew.where(ew.equal(low, high) & ew.isinf(low), 0, high - low)
    mixed = ew.where(ew.less(part, 0.5), low + rise * part, high - rise * (1 - part))
    return ew.where(ew.equal(part, 0), low, mixed)
