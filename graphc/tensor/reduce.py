"""One value for each slice: sums, extremes, and the composites made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import (
    Op,
    TensorType,
    here,
    is_complex,
    is_inexact,
    where as where_is,
)
from graphc.tensor.axes import expand_dims, squeeze, transpose
from graphc.tensor.broadcast import broadcast_to
from graphc.tensor.elementwise import (
    cast,
    conj,
    equal,
    isfinite,
    maximum,
    minimum,
    where,
    widened,
)
from graphc.tensor.exponential import exp, log
from graphc.tensor.shape import (
    behind,
    lengths,
    ravel,
    reshape,
)
from graphc.tensor.tensor import Axis, Tensor, as_tensor, axes_of, function
from graphc.tensor.vectorize import batched as over_batch

__all__ = [
    "All",
    "Any_",
    "ArgMax",
    "ArgMin",
    "Composite",
    "LogSumExp",
    "Max",
    "Min",
    "Named",
    "Peak",
    "Pit",
    "Prod",
    "Reduction",
    "Sum",
    "composed",
    "floating",
    "summed_dtype",
    "together",
]


def restored(y: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The reduced axes back, of length 1."""
    return expand_dims(y, axes) if axes else y


def expand_like(g: Tensor, axes: tuple[int, ...], x: Tensor) -> Tensor:
    """The reduced axes back, of x's lengths."""
    return broadcast_to(restored(g, axes), lengths(x))


@dataclass(frozen=True, slots=True)
class Reduction(Op):
    """One value for each slice along ``axes``, which are distinct, non-negative and sorted."""

    axes: tuple[int, ...]

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def infer(self, x: TensorType) -> TensorType:
        return x.with_shape(tuple(n for axis, n in enumerate(x.shape) if axis not in self.axes))

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(type(self)(behind(self.axes)), x)


class Sum(Reduction):
    """The sum of each slice; half-width floats add up in float32."""

    __slots__ = ()
    rearranges = True

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return np.sum(x, self.axes, widened(x.dtype)).astype(x.dtype)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Every summed element moves the sum equally, so each gets all of ``g``."""
        return (expand_like(g, self.axes, x),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Any:
        return None if tangents[0] is None else Tensor.make(self, tangents[0])


class Prod(Reduction):
    """The product of each slice."""

    __slots__ = ()

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return np.prod(x, self.axes, widened(x.dtype)).astype(x.dtype)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """The product of the others: y / x, but for slices that hold a zero.

        There it is written so that its own derivative is right: with one zero in the slice, the
        sum of the zeros is that element, and with two, the sum less one of them is the other.
        """
        zero = equal(x, 0)
        zeros = restored(sum(cast(zero, "int64"), self.axes), self.axes)
        rest = restored(prod(where(zero, 1, x), self.axes), self.axes)
        total = restored(sum(where(zero, x, 0), self.axes), self.axes)
        one, two = equal(zeros, 1), equal(zeros, 2)
        among_zeros = where(one, 1, where(two, total - x, 0))
        beside_zeros = where(equal(zeros, 0), 1, where(one, total, 0)) / where(zero, 1, x)
        return (restored(g, self.axes) * conj(rest * where(zero, among_zeros, beside_zeros)),)


class Extreme(Reduction):
    """The largest or smallest value of each slice; equal ones share the gradient evenly."""

    __slots__ = ()

    def infer(self, x: TensorType) -> TensorType:
        if is_complex(x.dtype):
            raise DTypeError(
                f"{self.name}({x!r}): complex numbers have no order.", "", where_is(here())
            )
        self.refuse_empty(x.shape)
        return Reduction.infer(self, x)

    def refuse_empty(self, shape: Sequence[int | None]) -> None:
        """Raise where a slice has no element, so that there is no extreme value."""
        if 0 in [shape[axis] for axis in self.axes]:
            raise ShapeError(
                f"{self.name} over axes {self.axes} of shape {tuple(shape)}: a slice is empty.",
                "An empty slice has no such value; test its length first.",
            )

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        chosen = equal(x, restored(y, self.axes))
        share = restored(g / cast(sum(cast(chosen, "int64"), self.axes), g.dtype), self.axes)
        return (where(chosen, share, 0),)


class Max(Extreme):
    """The largest of each slice; NaN where it holds one."""

    __slots__ = ()

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        self.refuse_empty(np.shape(x))
        return np.max(x, self.axes)


class Peak(Max):
    """The largest of each slice, or the lowest value there is of an empty one."""

    __slots__ = ()

    def refuse_empty(self, shape: Sequence[int | None]) -> None:
        """An empty slice has a peak."""

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return np.max(x, self.axes, initial=ends(x.dtype)[0])


class Min(Extreme):
    """The smallest of each slice; NaN where it holds one."""

    __slots__ = ()

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        self.refuse_empty(np.shape(x))
        return np.min(x, self.axes)


class Pit(Min):
    """The smallest of each slice, or the highest value there is of an empty one."""

    __slots__ = ()

    def refuse_empty(self, shape: Sequence[int | None]) -> None:
        """An empty slice has a pit."""

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return np.min(x, self.axes, initial=ends(x.dtype)[1])


def ends(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The lowest and the highest value of a dtype."""
    if dtype.kind == "b":
        return np.False_, np.True_
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return dtype.type(bounds.min), dtype.type(bounds.max)
    return dtype.type(-np.inf), dtype.type(np.inf)


class Logical(Reduction):
    """A truth about each slice of bools."""

    __slots__ = ()

    def infer(self, x: TensorType) -> TensorType:
        if x.dtype != "bool":
            raise DTypeError(f"{self.name}({x!r}): bool is wanted.", "", where_is(here()))
        return Reduction.infer(self, x)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[None]:
        return (None,)


class All(Logical):
    """Whether all of each slice are true."""

    __slots__ = ()

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return np.all(x, self.axes)


class Any_(Logical):  # noqa: N801 (typing has Any)
    """Whether any of each slice is true."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return "any"

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return np.any(x, self.axes)


@dataclass(frozen=True, slots=True)
class ArgExtreme(Op):
    """The place of the first extreme value along an axis, or of the first NaN; int64."""

    axis: int

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def infer(self, x: TensorType) -> TensorType:
        extreme = Max((self.axis,)).infer(x)
        return extreme.with_dtype("int64")

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[None]:
        return (None,)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(type(self)(self.axis + 1), x)


class ArgMax(ArgExtreme):
    """The place of the first largest value along an axis, or of the first NaN."""

    __slots__ = ()

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        Max((self.axis,)).refuse_empty(np.shape(x))
        return np.argmax(x, self.axis)


class ArgMin(ArgExtreme):
    """The place of the first smallest value along an axis, or of the first NaN."""

    __slots__ = ()

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        Min((self.axis,)).refuse_empty(np.shape(x))
        return np.argmin(x, self.axis)


def _reduced(op: type[Reduction], x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    axes = axes_of(op.__name__.lower().rstrip("_"), axis, x.ndim)
    y = Tensor.make(op(axes), x) if axes or op in {All, Any_} else x
    return restored(y, axes) if keepdims else y


def summed_dtype(x: Tensor, dtype: Any) -> Tensor:
    """In the dtype that sums of it have: 64 bits for integers and bool."""
    if dtype is not None:
        return cast(x, dtype)
    if x.dtype.startswith("uint"):
        return cast(x, "uint64")
    return x if is_inexact(x.dtype) else cast(x, "int64")


@function
def sum(
    x: Any,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    *,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """The sum over axes.

    Args:
        x: Any shape and dtype.
        axis: Axes to reduce, all by default; negative axes count from the end.
        dtype: The dtype to add up in and of the result; by default x's, and the 64-bit integer
            for narrower ones and bool.
        keepdims: Keep the reduced axes, of length 1.
        initial: A scalar to start from, 0 by default.
        where: Which elements count, all by default; broadcasts to x.

    Returns:
        An array without ``axis``; ``initial`` for an empty slice.

    Raises:
        ShapeError: x has no such axis.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.sum(gt.tensor("x", shape=(2, 3), dtype="int8"), axis=0).type
        int64[3]
    """
    x = _where(where, summed_dtype(as_tensor(x), dtype), 0)
    y = _reduced(Sum, x, axis, keepdims)
    return y if initial is None else y + cast(initial, y.dtype)


@function
def prod(
    x: Any,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    *,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """The product over axes; arguments as for ``sum``; 1 for an empty slice.

    The first two derivatives are right where elements are zero. Of the third, those by two or three
    elements of one slice that are all zero come out as 0.
    """
    x = _where(where, summed_dtype(as_tensor(x), dtype), 1)
    y = _reduced(Prod, x, axis, keepdims)
    return y if initial is None else y * cast(initial, y.dtype)


@function
def max(
    x: Any, axis: Axis = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """The largest value over axes; NaN where there is one.

    Args:
        x: Real numbers or bool of any shape.
        axis: Axes to reduce, all by default.
        keepdims: Keep the reduced axes, of length 1.
        initial: The least that comes out, also for an empty slice.
        where: Which elements count, all by default; goes with ``initial``, and broadcasts to x.

    Raises:
        ShapeError: x has no such axis, or a slice is empty.
        DTypeError: x is complex.
        ArgumentError: ``where`` without ``initial``.
    """
    if initial is None:
        return _reduced(Max, _unmasked("max", x, where), axis, keepdims)
    x, initial = _with_initial(x, initial)
    return maximum(_reduced(Peak, _where(where, x, initial), axis, keepdims), initial)


@function
def min(
    x: Any, axis: Axis = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """The smallest value over axes; arguments and errors as for ``max``."""
    if initial is None:
        return _reduced(Min, _unmasked("min", x, where), axis, keepdims)
    x, initial = _with_initial(x, initial)
    return minimum(_reduced(Pit, _where(where, x, initial), axis, keepdims), initial)


def _where(mask: Any, x: Tensor, otherwise: Any) -> Tensor:
    return x if mask is None else where(broadcast_to(mask, lengths(x)), x, otherwise)


def _unmasked(op: str, x: Any, mask: Any) -> Tensor:
    if mask is not None:
        raise ArgumentError(
            f"{op} where a mask holds: a slice may have no element.",
            "Say with initial= what it gives then.",
            where_is(here()),
        )
    return as_tensor(x)  # type: ignore[no-any-return]


def _with_initial(x: Any, initial: Any) -> tuple[Tensor, Tensor]:
    x = as_tensor(x)
    return x, as_tensor(initial, dtype=x.dtype)


@function
def all(x: Any, axis: Axis = None, keepdims: bool = False, *, where: Any = None) -> Tensor:
    """Whether all values over axes are true (not zero); true for an empty slice.

    Args:
        x: Any shape and dtype.
        axis: Axes to reduce, all by default.
        keepdims: Keep the reduced axes, of length 1.
        where: Which elements count, all by default; broadcasts to x.
    """
    return _reduced(All, _where(where, cast(x, "bool"), True), axis, keepdims)


@function
def any(x: Any, axis: Axis = None, keepdims: bool = False, *, where: Any = None) -> Tensor:
    """Whether any value over axes is true (not zero); false for an empty slice.

    Arguments as for ``all``.
    """
    return _reduced(Any_, _where(where, cast(x, "bool"), False), axis, keepdims)


def _arg(op: type[ArgExtreme], x: Any, axis: int | None, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    if axis is None:
        y = Tensor.make(op(0), ravel(x))
        return restored(y, tuple(range(x.ndim))) if keepdims else y
    (at,) = axes_of(op.__name__.lower(), (axis,), x.ndim)
    y = Tensor.make(op(at), x)
    return restored(y, (at,)) if keepdims else y


@function
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the first largest value, or of the first NaN.

    Args:
        x: Real numbers or bool of any shape.
        axis: The axis to search along; by default all elements in row-major order.
        keepdims: Keep the reduced axes, of length 1.

    Returns:
        An int64 array without ``axis``.

    Raises:
        ShapeError: x has no such axis, or a slice is empty.
        DTypeError: x is complex.
    """
    return _arg(ArgMax, x, axis, keepdims)


@function
def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the first smallest value; arguments and errors as for ``argmax``."""
    return _arg(ArgMin, x, axis, keepdims)


def together(x: Tensor, axes: Sequence[int]) -> Tensor:
    """These axes as one last axis, in row-major order."""
    rest = [i for i in range(x.ndim) if i not in axes]
    behind = transpose(x, (*rest, *axes))
    n = lengths(behind)
    return reshape(behind, (*n[: len(rest)], math.prod(n[len(rest) :])))


@function
def max_and_argmax(x: Any, axis: Axis = None, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The largest value over axes and its place among them in row-major order.

    Args:
        x: Real numbers or bool of any shape.
        axis: Axes to reduce, all by default.
        keepdims: Keep the reduced axes, of length 1.

    Returns:
        An array of x's dtype and one of int64, both without ``axis``.

    Raises:
        ShapeError: x has no such axis, or a slice is empty.
        DTypeError: x is complex.
    """
    x = as_tensor(x)
    axes = axes_of("max_and_argmax", axis, x.ndim)
    place = argmax(together(x, axes), -1)
    return max(x, axis, keepdims), restored(place, axes) if keepdims else place


def floating(x: Any, dtype: Any = None) -> Tensor:
    """In a dtype that has means: integers and bool become float64."""
    x = as_tensor(x)
    if dtype is not None:
        return cast(x, dtype)
    return x if is_inexact(x.dtype) else cast(x, "float64")


# Composites: named sub-graphs, inlined where a backend has no lowering for the name.


class Named(Op):
    """A function with a name, made of others: ``expand`` says of what.

    Backends that lower the name compute it as one; for the others it is inlined.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def expand(self, *inputs: Any) -> Any:
        """What it is made of; several results are put ``Together``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Composite(Named):
    """Such a function of slices of an array."""

    axes: tuple[int, ...]

    def expand(self, x: Tensor) -> Tensor:
        """What it is made of."""
        raise NotImplementedError

    def infer(self, x: TensorType) -> TensorType:
        if not is_inexact(x.dtype) or is_complex(x.dtype):
            raise DTypeError(
                f"{self.name}({x!r}): real floating numbers are wanted.",
                "Cast it with astype.",
                where_is(here()),
            )
        return x

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        """Of several operands, what it is made of."""
        if len(inputs) == 1:
            return Tensor.make(replace(self, axes=behind(self.axes)), *inputs)
        flags = zip(inputs, batched, strict=True)
        fresh = [x.type.with_shape(x.type.shape[1:])() if flag else x for x, flag in flags]
        swaps = {new: x for new, x in zip(fresh, inputs, strict=True) if new is not x}
        (y,) = over_batch([self.expand(*fresh)], swaps)
        return y


def _shift(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    # The largest of each slice, 0 where that is infinite: inf - inf is never formed.
    largest = Tensor.make(Peak(axes), x)
    return restored(where(isfinite(largest), largest, 0), axes)


class LogSumExp(Composite):
    """``log(sum(exp(x)))`` of each slice, without overflow."""

    __slots__ = ()

    def infer(self, x: TensorType) -> TensorType:
        x = Composite.infer(self, x)
        return Reduction.infer(Sum(self.axes), x)

    def expand(self, x: Tensor) -> Tensor:
        shift = _shift(x, self.axes)
        total = log(sum(exp(x - shift), self.axes, keepdims=True)) + shift
        return squeeze(total, self.axes)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Each element has its share of the sum; in a slice of nothing but -inf, none."""
        y = where(equal(y, -np.inf), 0, y)
        return (restored(g, self.axes) * exp(x - restored(y, self.axes)),)


def composed(op: type[Composite], x: Any, axis: Axis) -> Tensor:
    """A composite of an array over axes; integers and bool become float64."""
    x = floating(x)
    return Tensor.make(op(axes_of(op.__name__.lower(), axis, x.ndim)), x)


@function
def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """``log(sum(exp(x), axis))`` without overflow: the largest element is taken out first.

    Args:
        x: Logarithms, in nats; real, any shape.
        axis: Axes to reduce, all by default; negative axes count from the end.
        keepdims: Keep the reduced axes, of length 1.

    Returns:
        An array of x's dtype without ``axis``; ``-inf`` where every element is ``-inf``, or none is
        there.

    Raises:
        DTypeError: x is complex.
        ShapeError: x has no such axis.

    Source: Blanchard, Higham & Higham, IMA J. Numer. Anal. 41(4), 2021.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> float(gt.logsumexp(x).eval({x: [1000.0, 1000.0]}, mode="NUMPY")) - 1000
        0.69314718055...
    """
    y = composed(LogSumExp, x, axis)
    return restored(y, axes_of("logsumexp", axis, as_tensor(x).ndim)) if keepdims else y
