"""Running sums, products and extremes along an axis, and functions made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import Op, TensorType, is_complex, is_inexact
from graphc.ir.lengths import agree
from graphc.tensor.arrays import reduce
from graphc.tensor.arrays.broadcast import broadcast_batch, one_slice
from graphc.tensor.arrays.create import arange, zeros_like
from graphc.tensor.arrays.difference import diff
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.select import put_along_axis
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import expand_dims, slice_at_axis
from graphc.tensor.core.exponential import exp, log
from graphc.tensor.core.shape import AxisOp, length, ravel
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, axes_of, function

__all__ = [
    "cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum",
    "logcumsumexp", "trapezoid", "unwrap",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cumulative(AxisOp):
    """The reduction of the elements up to and including each one along an axis.

    Attributes:
        axis: From 0 on.
        reverse: The elements from each one on, instead.
    """

    axis: int
    reverse: bool = False
    reduction: ClassVar[type[reduce.Reduction]]

    def infer(self, x: TensorType) -> TensorType:
        return x

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        """Accumulate along the axis, half-width floats in float32."""
        x = np.flip(x, self.axis) if self.reverse else x
        y = self.running_values(x).astype(x.dtype, copy=False)
        return np.flip(y, self.axis) if self.reverse else y

    def running_values(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        raise NotImplementedError

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        return self.reduction((self.axis,)).padding_for(i, axis, type) if self.reverse else "any"


class CumSum(Cumulative):
    """The sum of the elements up to each one."""

    __slots__ = ()
    reduction = reduce.Sum
    is_linear = True

    def running_values(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.cumsum(x, self.axis, ew.wide_dtype(x.dtype))

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Add up over the later sums, all of which contain the element."""
        return (Tensor.make(CumSum(self.axis, not self.reverse), g),)


class CumProd(Cumulative):
    """The product of the elements up to each one."""

    __slots__ = ()
    reduction = reduce.Prod

    def running_values(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.cumprod(x, self.axis, ew.wide_dtype(x.dtype))

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Return the product before, times a sum over later elements.

        The sum, of g times the product between, is a recurrence. Without divisions, zeros need no
        care.
        """
        follows = -1 if self.reverse else 1
        between = shift_along(ew.conj(x), self.axis, follows, 0)
        after = Tensor.make(Recurrence(self.axis, not self.reverse), between, g)
        return (after * ew.conj(shift_along(y, self.axis, -follows, 1)),)


class CumExtreme(Cumulative):
    """The extreme of the elements up to each one; NaN from the first NaN on."""

    __slots__ = ()

    def infer(self, x: TensorType) -> TensorType:
        if is_complex(x.dtype):
            raise DTypeError(f"{self.name}({x!r}): complex numbers are not ordered.")
        return x

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Send each gradient to the element that was the extreme, the first of equal ones."""
        follows = -1 if self.reverse else 1
        n = length(x, self.axis)
        before = shift_along(y, self.axis, -follows, 0)
        beats = (ew.greater if isinstance(self, CumMax) else ew.less)(x, before)
        record = beats | (ew.isnan(x) & ew.logical_not(ew.isnan(before)))
        shape = (-1, *(1,) * (x.ndim - 1 - self.axis))
        positions = arange(n).reshape(shape)
        first = as_tensor(n, dtype="int64") - 1 if self.reverse else 0
        records = ew.where(record, positions, first)
        sources = Tensor.make(
            (CumMin if self.reverse else CumMax)(self.axis, self.reverse), records
        )
        return (put_along_axis(zeros_like(x), sources, g, self.axis, accumulate=True),)


class CumMax(CumExtreme):
    """The largest of the elements up to each one."""

    __slots__ = ()
    reduction = reduce.Max

    def running_values(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.maximum.accumulate(x, self.axis)


class CumMin(CumExtreme):
    """The smallest of the elements up to each one."""

    __slots__ = ()
    reduction = reduce.Min

    def running_values(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.minimum.accumulate(x, self.axis)


@dataclass(frozen=True, slots=True)
class Recurrence(Op):
    """``y[i] = a[i] * y[i - 1] + b[i]`` along an axis, from 0; or ``y[i + 1]``, from the end.

    The derivative is a recurrence in the other direction.
    """

    axis: int
    reverse: bool = False
    name = "recurrence"

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        if not all(agree(n, m) for n, m in zip(a.shape, b.shape, strict=True)):
            raise ShapeError(f"{self.name}({a!r}, {b!r}): expected two arrays of one shape.")
        return b

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        return 0 if self.reverse and axis == self.axis else "any"

    def perform(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
        y = np.array(b, ew.wide_dtype(b.dtype))
        steps = range(b.shape[self.axis])
        along, factors = np.moveaxis(y, self.axis, 0), np.moveaxis(a, self.axis, 0)
        steps = steps[::-1] if self.reverse else steps
        for before, i in pairwise(steps):
            along[i] += factors[i] * along[before]
        return y.astype(b.dtype, copy=False)

    def pullback(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        follows = -1 if self.reverse else 1
        factors = shift_along(ew.conj(a), self.axis, follows, 0)
        by_b = Tensor.make(Recurrence(self.axis, not self.reverse), factors, g)
        return by_b * ew.conj(shift_along(y, self.axis, -follows, 0)), by_b

    def batch(self, size: Any, batched: Sequence[bool], a: Tensor, b: Tensor) -> Tensor:
        a, b = broadcast_batch(size, batched, (a, b))
        return Tensor.make(Recurrence(self.axis + 1, self.reverse), a, b)


class LogCumSumExp(reduce.AxisComposite):
    """``log(cumsum(exp(x)))`` along its axis, without overflow."""

    __slots__ = ()

    def expand(self, x: Tensor) -> Tensor:
        """Scan with a sum that shrinks when the running maximum rises."""
        (axis,) = self.axes
        peak = cummax(x, axis)
        shift = ew.where(ew.isfinite(peak), peak, 0)
        shrink = exp(shift_along(peak, axis, -1, -np.inf) - shift)
        return log(Tensor.make(Recurrence(axis), shrink, exp(x - shift))) + shift

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Return each element's share of its sum, times that sum's share of the next."""
        (axis,) = self.axes
        y = ew.where(ew.equal(y, -np.inf), 0, y)
        rise = exp(y - shift_along(y, axis, 1, np.inf))
        return (Tensor.make(Recurrence(axis, True), rise, g) * exp(x - y),)


def shift_along(x: Tensor, axis: int, by: int, fill: Any) -> Tensor:
    """Return each element's successor along an axis, or predecessor (``by=-1``), then fill."""
    if by < 0:
        return _prepend(x, axis, fill)[slice_at_axis(slice(None, -1), axis)]
    ended = concatenate([x, one_slice(np.array(fill, x.type.numpy_dtype), x, axis)], axis)
    return ended[slice_at_axis(slice(1, None), axis)]


def _along(op: type[Cumulative], x: Tensor, axis: int | None) -> Tensor:
    if axis is None:
        return Tensor.make(op(0), ravel(x))
    (at,) = axes_of(op.__name__.lower(), (axis,), x.ndim)
    return Tensor.make(op(at), x)


@function
def cumsum(x: TensorLike, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Return the sum of the elements up to and including each one.

    Args:
        x: Any shape and dtype.
        axis: The axis to add up along; by default all elements in row-major order.
        dtype: The dtype to add up in and of the result; by default x's, and the 64-bit integer
            for narrower ones and bool.

    Returns:
        An array of x's shape, or a vector where there is no axis.

    Raises:
        ShapeError: x has no such axis.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.cumsum([1, 2, 3]).eval(mode="NUMPY").tolist()
        [1, 3, 6]
    """
    return _along(CumSum, reduce.summed_dtype(as_tensor(x), dtype), axis)


@function
def cumprod(x: TensorLike, axis: int | None = None, dtype: Any = None) -> Tensor:
    """Return the product of the elements up to each one; arguments as for ``cumsum``.

    All its derivatives are right where elements are zero.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.cumprod([1, 2, 3]).eval(mode="NUMPY").tolist()
        [1, 2, 6]
    """
    return _along(CumProd, reduce.summed_dtype(as_tensor(x), dtype), axis)


@function
def cummax(x: TensorLike, axis: int | None = None) -> Tensor:
    """Return the largest of the elements up to each one; NaN from the first one on.

    Args:
        x: Real numbers or bool of any shape.
        axis: The axis to go along; by default all elements in row-major order.

    Raises:
        ShapeError: x has no such axis.
        DTypeError: x is complex.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.cummax([1, 3, 2]).eval(mode="NUMPY").tolist()
        [1, 3, 3]
    """
    return _along(CumMax, as_tensor(x), axis)


@function
def cummin(x: TensorLike, axis: int | None = None) -> Tensor:
    """Return the smallest of the elements up to each one; arguments as for ``cummax``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.cummin([3.0, 1.0, 2.0]).eval(mode="NUMPY").tolist()
        [3.0, 1.0, 1.0]
    """
    return _along(CumMin, as_tensor(x), axis)


@function
def logcumsumexp(x: TensorLike, axis: int | None = None) -> Tensor:
    """Return ``log(cumsum(exp(x)))`` without overflow, by subtracting the running maximum.

    Args:
        x: Logarithms, in nats; real, any shape.
        axis: The axis to go along; by default all elements in row-major order.

    Returns:
        A floating array of x's shape, or a vector where there is no axis.

    Raises:
        ShapeError: x has no such axis.
        DTypeError: x is complex.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.logcumsumexp([1000.0, 1000.0]).eval(mode="NUMPY").tolist()
        [1000.0, 1000.693147180...]
    """
    return (
        reduce.apply_composite(LogCumSumExp, ravel(x), 0)
        if axis is None
        else reduce.apply_composite(LogCumSumExp, x, axis)
    )


@function
def cumulative_sum(
    x: TensorLike, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Return ``cumsum``; an array of several axes requires ``axis``.

    Args:
        x: Any shape and dtype.
        axis: The axis to add up along; of a vector, its only one by default.
        dtype: As for ``cumsum``.
        include_initial: Prepend the empty sum, 0.

    Raises:
        ArgumentError: There are several axes, and none is named.
        ShapeError: x has no such axis.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.cumulative_sum([1, 2, 3], include_initial=True).eval(mode="NUMPY").tolist()
        [0, 1, 3, 6]
    """
    x = as_tensor(x)
    at = _only_axis("cumulative_sum", x, axis)
    y = cumsum(x, at, dtype)
    return _prepend(y, at, 0) if include_initial else y


@function
def cumulative_prod(
    x: TensorLike, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Return ``cumprod``; an array of several axes requires ``axis``.

    Arguments and errors as for ``cumulative_sum``; the empty product is 1.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.cumulative_prod([1.0, 2.0, 3.0]).eval(mode="NUMPY").tolist()
        [1.0, 2.0, 6.0]
    """
    x = as_tensor(x)
    at = _only_axis("cumulative_prod", x, axis)
    y = cumprod(x, at, dtype)
    return _prepend(y, at, 1) if include_initial else y


def _only_axis(op: str, x: Tensor, axis: int | None) -> int:
    if axis is None and x.ndim != 1:
        raise ArgumentError(
            f"{op}({x!r}): an array of several axes requires axis=.", "Pass axis=0, for example."
        )
    return axes_of(op, (0 if axis is None else axis,), x.ndim)[0]


def _prepend(x: Tensor, axis: int, first: Any) -> Tensor:
    return concatenate([one_slice(np.array(first, x.type.numpy_dtype), x, axis), x], axis)


@function
def trapezoid(y: TensorLike, x: TensorLike | None = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """Return the area under a curve through given heights, by the trapezoidal rule.

    Args:
        y: The heights; any shape.
        x: The positions: a vector, or an array of y's shape.
        dx: The distance between positions, without x.
        axis: The axis to integrate along.

    Returns:
        A floating array without that axis.

    Example:
        >>> import graphc.tensor as gt
        >>> float(gt.trapezoid([1, 2, 4], [0, 1, 3]).eval(mode="NUMPY"))
        7.5
    """
    y = reduce.as_floating(y)
    (at,) = axes_of("trapezoid", axis, y.ndim)
    width = dx if x is None else _widths(reduce.as_floating(x), at, y.ndim)
    after, before = (y[slice_at_axis(part, at)] for part in (slice(1, None), slice(None, -1)))
    return reduce.sum(width * (after + before) / 2, at)


def _widths(x: Tensor, axis: int, ndim: int) -> Tensor:
    if x.ndim == ndim:
        return diff(x, axis=axis)
    if x.ndim != 1:
        raise ShapeError(f"trapezoid: expected a vector of places, got {x!r}.", "Pass a vector.")
    return expand_dims(diff(x), tuple(i for i in range(ndim) if i != axis))


@function
def unwrap(
    p: TensorLike, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi
) -> Tensor:
    """Return angles with multiples of the period added, so that neighbours differ by at most half.

    Args:
        p: Real numbers of any shape, in radians by default.
        discont: Steps below this stay as they are; half the period by default, and at least.
        axis: The axis of neighbours.
        period: The period, an integer for integers to stay such.

    Returns:
        An array of p's shape.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.unwrap([0.0, 2.0, 4.0, 1.0], period=5.0).eval(mode="NUMPY").tolist()
        [0.0, 2.0, 4.0, 6.0]
    """
    p = as_tensor(p)
    (at,) = axes_of("unwrap", axis, p.ndim)
    steps = diff(p, axis=at)
    whole = not is_inexact(p.dtype) and isinstance(period, int)
    half = period // 2 if whole else period / 2
    low = -half
    wrapped = ew.remainder(steps - low, period) + low
    if not whole or period % 2 == 0:
        wrapped = ew.where(ew.equal(wrapped, low) & ew.greater(steps, 0), half, wrapped)
    least = half if discont is None else discont
    added = cumsum(ew.where(ew.less(ew.abs(steps), least), 0, wrapped - steps), at)
    return p + _prepend(added, at, 0)
