"""Medians and quantiles: values at places in the order of the elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import Constant, Leaf, here, is_inexact, promote, where as where_is
from graphc.tensor.axes import expand_dims, moveaxis, squeeze
from graphc.tensor.elementwise import (
    cast,
    ceil,
    clip,
    equal,
    floor,
    isnan,
    less,
    logical_not,
    maximum,
    quotient,
    remainder,
    where,
)
from graphc.tensor.reduce import any, floating, restored, sum, together
from graphc.tensor.rounding import rint
from graphc.tensor.select import take, take_along_axis
from graphc.tensor.shape import length, lengths, ravel, reshape
from graphc.tensor.sort import sort
from graphc.tensor.statistics import mean
from graphc.tensor.tensor import Axis, Tensor, as_tensor, axes_of, function

__all__: list[str] = []


def _sorted(op: str, x: Tensor, axis: Axis) -> tuple[Tensor, tuple[int, ...]]:
    """The elements over axes as one last axis, in order, and these axes."""
    axes = axes_of(op, axis, x.ndim)
    return sort(together(x, axes), -1), axes


@function
def median(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The element in the middle of the order, or the mean of the two there.

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
    ordered, axes = _sorted("median", floating(x), axis)
    n = length(ordered, -1)
    # Of an odd number a single element, of none no element: its mean is NaN.
    start = (n - 1) // 2 if isinstance(n, int) and n else clip((as_tensor(n) - 1) // 2, 0)
    middle = ordered[..., start : n // 2 + 1]
    y = where(any(isnan(ordered), -1), np.nan, mean(middle, -1))
    return restored(y, axes) if keepdims else y


@function
def nanmedian(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """``median`` of what is not NaN; arguments as there; NaN where nothing is left.

    Raises:
        ShapeError: x has no such axis, or a slice is empty.
    """
    ordered, axes = _sorted("nanmedian", floating(x), axis)
    _refuse_empty("nanmedian", ordered, axes)
    n = _numbers(ordered)
    below = take_along_axis(ordered, maximum(n - 1, 0) // 2, -1)
    y = squeeze((below + take_along_axis(ordered, n // 2, -1)) / 2, -1)
    return restored(y, axes) if keepdims else y


def _numbers(ordered: Tensor) -> Tensor:
    """How many of each slice are not NaN, int64; these stand in front."""
    return sum(logical_not(isnan(ordered)), -1, keepdims=True)


def _refuse_empty(op: str, ordered: Tensor, axes: tuple[int, ...]) -> None:
    if ordered.type.shape[-1] == 0:
        raise ShapeError(
            f"{op} over axes {axes}: a slice is empty.",
            "An empty slice has no quantiles; test its length first.",
            where_is(here()),
        )


# Quantiles.

Place = Callable[[Any, Any], Any]
"""Where in the order of n elements, from 0 on, the quantile q lies; between two, they are mixed."""


def _spread(alpha: float, beta: float) -> Place:
    return lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


def _averaged(n: Any, q: Any) -> Any:
    place = n * q - 1
    return where(equal(place, floor(place)), place + 0.5, ceil(place))


def _closest(n: Any, q: Any) -> Any:
    place = n * q - 1.5
    below = floor(place)
    return where(equal(place, below) & equal(remainder(below, 2), 1), below, below + 1)


METHODS: dict[str, Place] = {
    "inverted_cdf": lambda n, q: ceil(n * q - 1),
    "averaged_inverted_cdf": _averaged,
    "closest_observation": _closest,
    "interpolated_inverted_cdf": _spread(0, 1),
    "hazen": _spread(0.5, 0.5),
    "weibull": _spread(0, 0),
    "linear": lambda n, q: (n - 1) * q,
    "median_unbiased": _spread(1 / 3, 1 / 3),
    "normal_unbiased": _spread(3 / 8, 3 / 8),
    "lower": lambda n, q: floor((n - 1) * q),
    "higher": lambda n, q: ceil((n - 1) * q),
    "midpoint": lambda n, q: (floor((n - 1) * q) + ceil((n - 1) * q)) / 2,
    "nearest": lambda n, q: rint((n - 1) * q),
}
"""The methods of Hyndman and Fan by their order, then others; names as in NumPy."""


ELEMENTS = {"inverted_cdf", "closest_observation", "lower", "higher", "nearest"}
"""The methods that give elements, of x's own dtype."""


@function
def quantile(
    x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """The values below which given parts of the elements lie.

    Args:
        x: Real numbers of any shape.
        q: Parts from 0 to 1, of any shape; differentiable.
        axis: Axes to reduce, all by default.
        method: What lies between two elements: ``"linear"``, ``"lower"``, ``"higher"``,
            ``"midpoint"``, ``"nearest"``, or a name of one of Hyndman and Fan's, as in NumPy.
        keepdims: Keep the reduced axes, of length 1.

    Returns:
        An array of q's axes, then x's without ``axis``; NaN for a slice that holds NaN. It is
        floating, but for methods that give elements: these keep x's dtype.

    Raises:
        ArgumentError: No such method, or a q outside.
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
    x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """``quantile`` of what is not NaN; arguments and errors as there; NaN where nothing is left."""
    return _quantile("nanquantile", x, q, axis, method, keepdims, _of_numbers)


@function
def percentile(
    x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """``quantile`` with q from 0 to 100; arguments and errors as for ``quantile``."""
    return _quantile("percentile", x, _hundredth(q), axis, method, keepdims, _of_all)


@function
def nanpercentile(
    x: Any, q: Any, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Tensor:
    """``nanquantile`` with q from 0 to 100; arguments and errors as for ``quantile``."""
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
            f"{op}: there is no method={method!r}.",
            f"Use one of {', '.join(METHODS)}.",
            where_is(here()),
        )
    x = as_tensor(x) if method in ELEMENTS else floating(x)
    ordered, axes = _sorted(op, x, axis)
    _refuse_empty(op, ordered, axes)
    q, dtype = _parts(op, q, ordered.dtype)
    y = values(ordered, q, method, dtype)
    y = moveaxis(y, _last(q.ndim, ordered.ndim - 1), list(range(q.ndim))) if q.ndim else y
    return restored(y, tuple(q.ndim + i for i in axes)) if keepdims else y


def _of_all(ordered: Tensor, q: Tensor, method: str, dtype: str) -> Tensor:
    """NaN where a slice holds one."""
    n = as_tensor(length(ordered, -1), dtype="float64")
    place = clip(METHODS[method](n, q), 0, n - 1)
    y = _values(partial(take, ordered, axis=-1), place, method, dtype)
    if not is_inexact(ordered.dtype):
        return y
    hidden = expand_dims(any(isnan(ordered), -1), _last(q.ndim, ordered.ndim - 1))
    return where(hidden, np.nan, y)  # type: ignore[no-any-return]


def _of_numbers(ordered: Tensor, q: Tensor, method: str, dtype: str) -> Tensor:
    """Each slice has a number of its own of what is not NaN."""
    n = cast(_numbers(ordered), "float64")
    place = clip(METHODS[method](n, ravel(q)), 0, maximum(n - 1, 0))
    y = _values(partial(take_along_axis, ordered, axis=-1), place, method, dtype)
    return reshape(y, (*lengths(ordered)[:-1], *lengths(q)))


def _values(at: Callable[..., Tensor], place: Tensor, method: str, dtype: str) -> Tensor:
    """What stands at places in the order, mixed where these are not whole."""
    below = floor(place)
    low = at(indices=cast(below, "int64"))
    if method in ELEMENTS:
        return low
    high = at(indices=cast(ceil(place), "int64"))
    return _mixed(cast(low, dtype), cast(high, dtype), cast(place - below, dtype))


def _last(count: int, after: int) -> list[int]:
    return list(range(after, after + count))


def _parts(op: str, q: Any, dtype: str) -> tuple[Tensor, str]:
    """The parts in float64, and the result's dtype: Python numbers are weak."""
    # A NumPy scalar is an int or a float too, and not weak.
    weak = type(q) in {int, float}
    q = as_tensor(q)
    if isinstance(q.op, Constant | Leaf):
        known = q.op.value if isinstance(q.op, Constant) else q.op.array
        if not np.all((known >= 0) & (known <= 1)):
            raise ArgumentError(f"{op}: {known} is outside.", "", where_is(here()))
    return cast(q, "float64"), dtype if weak else promote(dtype, quotient(q.dtype)[0])  # type: ignore[index]


def _mixed(low: Tensor, high: Tensor, part: Tensor) -> Tensor:
    """From low to high; at both ends exact, also where they are infinite."""
    rise = where(equal(low, high), 0, high - low)
    mixed = where(less(part, 0.5), low + rise * part, high - rise * (1 - part))
    return where(equal(part, 0), low, mixed)  # type: ignore[no-any-return]
