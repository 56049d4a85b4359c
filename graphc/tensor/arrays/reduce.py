"""Reductions: sums, extremes, and composites made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import Node, Op, TensorType, is_complex, is_inexact
from graphc.ir.line import Code, Writer, call
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.vectorize import batched as over_batch
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import expand_dims, squeeze, transpose
from graphc.tensor.core.exponential import exp, log
from graphc.tensor.core.shape import (
    AxisOp,
    lengths,
    ravel,
    reshape,
    shifted_axes,
)
from graphc.tensor.core.tensor import Axis, Tensor, TensorLike, as_tensor, axes_of, function

__all__ = [
    "all", "any", "argmax", "argmin", "logsumexp", "max", "max_and_argmax", "min", "prod",
    "sum",
]  # fmt: skip


def restore_axes(y: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Return the result with the reduced axes back, of length 1."""
    return expand_dims(y, axes) if axes else y


def expand_like(g: Tensor, axes: tuple[int, ...], x: Tensor) -> Tensor:
    """Return the result with the reduced axes back, of x's lengths."""
    return broadcast_to(restore_axes(g, axes), lengths(x))


@dataclass(frozen=True, slots=True)
class Reduction(AxisOp):
    """One value for each slice along ``axes``, which are distinct, non-negative and sorted."""

    axes: tuple[int, ...]
    neutral: ClassVar[Any] = None

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        axes = self.axes[0] if len(self.axes) == 1 else self.axes
        is_whole = len(self.axes) == inputs[0].type.ndim
        return call(self.name, inputs, "" if is_whole else f"axis={axes}", write)

    def infer(self, x: TensorType) -> TensorType:
        return x.with_shape(tuple(n for axis, n in enumerate(x.shape) if axis not in self.axes))

    def identity(self, dtype: np.dtype[Any]) -> Any:
        """Return the identity element."""
        return self.neutral

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        return self.identity(type.numpy_dtype) if axis in self.axes else "any"


class Sum(Reduction):
    """The sum of each slice; half-width floats add up in float32."""

    __slots__ = ()
    rearranges = True
    neutral = 0

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return np.sum(x, self.axes, ew.wide_dtype(x.dtype)).astype(x.dtype)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Send all of ``g`` to every summed element: each moves the sum equally."""
        return (expand_like(g, self.axes, x),)


class Prod(Reduction):
    """The product of each slice."""

    __slots__ = ()
    neutral = 1

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return np.prod(x, self.axes, ew.wide_dtype(x.dtype)).astype(x.dtype)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Return the product of the others: y / x, except for slices that hold a zero.

        There it is written so that the second derivative is right: with one zero in the slice, the
        sum of the zeros is that element, and with two, the sum less one of them is the other.
        """
        zero = ew.equal(x, 0)
        zeros = restore_axes(sum(ew.cast(zero, "int64"), self.axes), self.axes)
        rest = restore_axes(prod(ew.where(zero, 1, x), self.axes), self.axes)
        total = restore_axes(sum(ew.where(zero, x, 0), self.axes), self.axes)
        one, two = ew.equal(zeros, 1), ew.equal(zeros, 2)
        among_zeros = ew.where(one, 1, ew.where(two, total - x, 0))
        beside_zeros = ew.where(ew.equal(zeros, 0), 1, ew.where(one, total, 0)) / ew.where(
            zero, 1, x
        )
        return (
            restore_axes(g, self.axes) * ew.conj(rest * ew.where(zero, among_zeros, beside_zeros)),
        )


class Extreme(Reduction):
    """The largest or smallest value of each slice; equal ones share the gradient evenly."""

    __slots__ = ()

    reference: ClassVar[Callable[..., Any]]
    has_default: ClassVar[bool] = False
    """Whether an empty slice has a value: the one that every other value replaces."""

    def infer(self, x: TensorType) -> TensorType:
        if is_complex(x.dtype):
            raise DTypeError(f"{self.name}({x!r}): complex numbers are not ordered.")
        self.refuse_empty(x.shape)
        return Reduction.infer(self, x)

    def refuse_empty(self, shape: Sequence[int | None]) -> None:
        """Raise if a slice is empty and has no value."""
        if not self.has_default and 0 in [shape[axis] for axis in self.axes]:
            raise ShapeError(
                f"{self.name} over axes {self.axes} of shape {tuple(shape)}: a slice is empty.",
                "Test the length first: an empty slice has no such value.",
            )

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        self.refuse_empty(np.shape(x))
        default = {"initial": self.identity(x.dtype)} if self.has_default else {}
        return self.reference(x, self.axes, **default)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        chosen = ew.equal(x, restore_axes(y, self.axes))
        share = restore_axes(
            g / ew.cast(sum(ew.cast(chosen, "int64"), self.axes), g.dtype), self.axes
        )
        return (ew.where(chosen, share, 0),)


class Max(Extreme):
    """The largest of each slice; NaN where it holds one."""

    __slots__ = ()
    reference = staticmethod(np.max)

    def identity(self, dtype: np.dtype[Any]) -> Any:
        return dtype_range(dtype)[0]


class MaxWithDefault(Max):
    """The largest of each slice; the lowest value of the dtype for an empty one."""

    __slots__ = ()
    has_default = True


class Min(Extreme):
    """The smallest of each slice; NaN where it holds one."""

    __slots__ = ()
    reference = staticmethod(np.min)

    def identity(self, dtype: np.dtype[Any]) -> Any:
        return dtype_range(dtype)[1]


class MinWithDefault(Min):
    """The smallest of each slice; the highest value of the dtype for an empty one."""

    __slots__ = ()
    has_default = True


def dtype_range(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the lowest and the highest value of a dtype."""
    if dtype.kind == "b":
        return np.False_, np.True_
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return dtype.type(bounds.min), dtype.type(bounds.max)
    return dtype.type(-np.inf), dtype.type(np.inf)


class Logical(Reduction):
    """One bool for each slice of bools."""

    __slots__ = ()

    reference: ClassVar[Callable[..., Any]]

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return self.reference(x, self.axes)

    def infer(self, x: TensorType) -> TensorType:
        if x.dtype != "bool":
            raise DTypeError(f"{self.name}({x!r}): expected bool.")
        return Reduction.infer(self, x)


class All(Logical):
    """Whether all of each slice are true."""

    __slots__ = ()
    neutral = 1
    reference = staticmethod(np.all)


class Any_(Logical):  # noqa: N801 (typing has Any)
    """Whether any of each slice is true."""

    __slots__ = ()
    name = "any"
    neutral = 0
    reference = staticmethod(np.any)


@dataclass(frozen=True, slots=True)
class ArgExtreme(AxisOp):
    """The index of the first extreme value along an axis, or of the first NaN; int64."""

    axis: int
    extreme: ClassVar[type[Extreme]]
    reference: ClassVar[Callable[..., Any]]

    def infer(self, x: TensorType) -> TensorType:
        extreme = Max((self.axis,)).infer(x)
        return extreme.with_dtype("int64")

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        return self.extreme((self.axis,)).padding_for(i, axis, type)

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        self.extreme((self.axis,)).refuse_empty(np.shape(x))
        return self.reference(x, self.axis)


class ArgMax(ArgExtreme):
    """The index of the first largest value along an axis, or of the first NaN."""

    __slots__ = ()
    extreme = Max
    reference = staticmethod(np.argmax)


class ArgMin(ArgExtreme):
    """The index of the first smallest value along an axis, or of the first NaN."""

    __slots__ = ()
    extreme = Min
    reference = staticmethod(np.argmin)


def _reduce(op: type[Reduction], x: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    axes = axes_of(op.__name__.lower().rstrip("_"), axis, x.ndim)
    y = Tensor.make(op(axes), x) if axes or op in {All, Any_} else x
    return restore_axes(y, axes) if keepdims else y


def summed_dtype(x: Tensor, dtype: Any) -> Tensor:
    """Return the dtype of sums: 64 bits for integers and bool, others unchanged."""
    if dtype is not None:
        return ew.cast(x, dtype)
    if x.dtype.startswith("uint"):
        return ew.cast(x, "uint64")
    return x if is_inexact(x.dtype) else ew.cast(x, "int64")


@function
def sum(
    x: TensorLike,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    *,
    initial: TensorLike | None = None,
    where: TensorLike | None = None,
) -> Tensor:
    """Return the sum over axes.

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
    x = mask_elements(where, summed_dtype(as_tensor(x), dtype), 0)
    y = _reduce(Sum, x, axis, keepdims)
    return y if initial is None else y + ew.cast(initial, y.dtype)


@function
def prod(
    x: TensorLike,
    axis: Axis = None,
    dtype: Any = None,
    keepdims: bool = False,
    *,
    initial: TensorLike | None = None,
    where: TensorLike | None = None,
) -> Tensor:
    """Return the product over axes; arguments as for ``sum``; 1 for an empty slice.

    The first two derivatives are right where elements are zero. Third derivatives
    with respect to two or three zeros of one slice are 0.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.prod([[1, 2], [3, 4]], axis=1).eval(mode="NUMPY").tolist()
        [2, 12]
    """
    x = mask_elements(where, summed_dtype(as_tensor(x), dtype), 1)
    y = _reduce(Prod, x, axis, keepdims)
    return y if initial is None else y * ew.cast(initial, y.dtype)


@function
def max(
    x: TensorLike,
    axis: Axis = None,
    keepdims: bool = False,
    initial: TensorLike | None = None,
    where: TensorLike | None = None,
) -> Tensor:
    """Return the largest value over axes; NaN where there is one.

    Args:
        x: Real numbers or bool of any shape.
        axis: Axes to reduce, all by default.
        keepdims: Keep the reduced axes, of length 1.
        initial: The least result, also for an empty slice.
        where: Which elements count, all by default; requires ``initial``, and broadcasts to x.

    Raises:
        ShapeError: x has no such axis, or a slice is empty.
        DTypeError: x is complex.
        ArgumentError: ``where`` without ``initial``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.max([[1, 5], [3, 4]], axis=1).eval(mode="NUMPY").tolist()
        [5, 4]
    """
    if initial is None:
        return _reduce(Max, _refuse_mask("max", x, where), axis, keepdims)
    x, initial = _with_initial(x, initial)
    return ew.maximum(
        _reduce(MaxWithDefault, mask_elements(where, x, initial), axis, keepdims), initial
    )


@function
def min(
    x: TensorLike,
    axis: Axis = None,
    keepdims: bool = False,
    initial: TensorLike | None = None,
    where: TensorLike | None = None,
) -> Tensor:
    """Return the smallest value over axes; arguments and errors as for ``max``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.min([[1, 5], [3, 4]], axis=1).eval(mode="NUMPY").tolist()
        [1, 3]
    """
    if initial is None:
        return _reduce(Min, _refuse_mask("min", x, where), axis, keepdims)
    x, initial = _with_initial(x, initial)
    return ew.minimum(
        _reduce(MinWithDefault, mask_elements(where, x, initial), axis, keepdims), initial
    )


def mask_elements(mask: Any, x: Tensor, otherwise: Any) -> Tensor:
    """Return x with ``otherwise`` for the elements that ``where=`` leaves out."""
    return x if mask is None else ew.where(broadcast_to(mask, lengths(x)), x, otherwise)


def _refuse_mask(op: str, x: Any, mask: Any) -> Tensor:
    if mask is not None:
        raise ArgumentError(
            f"{op}: where= may leave a slice without elements.",
            "Pass initial=, the result in that case.",
        )
    return as_tensor(x)


def _with_initial(x: Any, initial: Any) -> tuple[Tensor, Tensor]:
    x = as_tensor(x)
    return x, as_tensor(initial, dtype=x.dtype)


@function
def all(
    x: TensorLike, axis: Axis = None, keepdims: bool = False, *, where: TensorLike | None = None
) -> Tensor:
    """Return whether all values over axes are true (not zero); true for an empty slice.

    Args:
        x: Any shape and dtype.
        axis: Axes to reduce, all by default.
        keepdims: Keep the reduced axes, of length 1.
        where: Which elements count, all by default; broadcasts to x.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.all([[1, 0], [2, 3]], axis=1).eval(mode="NUMPY").tolist()
        [False, True]
    """
    return _reduce(All, mask_elements(where, ew.cast(x, "bool"), True), axis, keepdims)


@function
def any(
    x: TensorLike, axis: Axis = None, keepdims: bool = False, *, where: TensorLike | None = None
) -> Tensor:
    """Return whether any value over axes is true (not zero); false for an empty slice.

    Arguments as for ``all``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.any([[0, 0], [2, 0]], axis=1).eval(mode="NUMPY").tolist()
        [False, True]
    """
    return _reduce(Any_, mask_elements(where, ew.cast(x, "bool"), False), axis, keepdims)


def _arg(op: type[ArgExtreme], x: Any, axis: Axis, keepdims: bool) -> Tensor:
    x = as_tensor(x)
    axes = axes_of(op.__name__.lower(), axis, x.ndim)
    if len(axes) == 1:
        y = Tensor.make(op(axes[0]), x)
    else:
        merged = ravel(x) if len(axes) == x.ndim else merge_axes(x, axes)
        y = Tensor.make(op(merged.ndim - 1), merged)
    return restore_axes(y, axes) if keepdims else y


@function
def argmax(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first largest value, or of the first NaN.

    Args:
        x: Real numbers or bool of any shape.
        axis: The axis to search along, or several, whose elements are counted in row-major order;
            all by default.
        keepdims: Keep the reduced axes, of length 1.

    Returns:
        An int64 array without ``axis``.

    Raises:
        ShapeError: x has no such axis, or a slice is empty.
        DTypeError: x is complex.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.argmax([[1, 5], [4, 3]], axis=1).eval(mode="NUMPY").tolist()
        [1, 0]
    """
    return _arg(ArgMax, x, axis, keepdims)


@function
def argmin(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first smallest value; arguments and errors as for ``argmax``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.argmin([3.0, 1.0, 2.0]).eval(mode="NUMPY").tolist()
        1
    """
    return _arg(ArgMin, x, axis, keepdims)


def merge_axes(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return the array with these axes merged into one last axis, in row-major order."""
    rest = [i for i in range(x.ndim) if i not in axes]
    moved = transpose(x, (*rest, *axes))
    n = lengths(moved)
    return reshape(moved, (*n[: len(rest)], math.prod(n[len(rest) :])))


@function
def max_and_argmax(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> list[Tensor]:
    """Return the largest value over axes and its index among them in row-major order.

    Args:
        x: Real numbers or bool of any shape.
        axis: Axes to reduce, all by default.
        keepdims: Keep the reduced axes, of length 1.

    Returns:
        A list of an array of x's dtype and one of int64, both without ``axis``.

    Raises:
        ShapeError: x has no such axis, or a slice is empty.
        DTypeError: x is complex.

    Example:
        >>> import graphc.tensor as gt
        >>> [y.eval(mode="NUMPY").tolist() for y in gt.max_and_argmax([[1, 5], [4, 3]], axis=1)]
        [[5, 4], [1, 0]]
    """
    x = as_tensor(x)
    axes = axes_of("max_and_argmax", axis, x.ndim)
    return [max(x, axes, keepdims), argmax(x, axes, keepdims)]


def as_floating(x: Any, dtype: Any = None) -> Tensor:
    """Return the array in a dtype that has means: integers and bool become float64."""
    x = as_tensor(x)
    if dtype is not None:
        return ew.cast(x, dtype)
    return x if is_inexact(x.dtype) else ew.cast(x, "float64")


# Composites: named sub-graphs, inlined where a backend has no lowering for the name.


class Composite(Op):
    """A named function defined by others, which ``expand`` returns.

    Backends that lower the name compute it as one; for the others it is inlined.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def expand(self, *inputs: Any) -> Any:
        """Return the definition; several results are packed in one tuple."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class AxisComposite(Composite):
    """A named function of slices of an array."""

    axes: tuple[int, ...]

    def expand(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def infer(self, x: TensorType) -> TensorType:
        if not is_inexact(x.dtype) or is_complex(x.dtype):
            raise DTypeError(
                f"{self.name}({x!r}): expected real floating-point numbers.", "Cast it with astype."
            )
        return x

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        """Batch the definition if there are several operands."""
        if len(inputs) == 1:
            return Tensor.make(replace(self, axes=shifted_axes(self.axes)), *inputs)
        flags = zip(inputs, batched, strict=True)
        fresh = [x.type.with_shape(x.type.shape[1:])() if flag else x for x, flag in flags]
        swaps = {new: x for new, x in zip(fresh, inputs, strict=True) if new is not x}
        (y,) = over_batch([self.expand(*fresh)], swaps)
        return y


def _shift(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    # The largest of each slice, 0 where that is infinite: inf - inf is never formed.
    largest = Tensor.make(MaxWithDefault(axes), x)
    return restore_axes(ew.where(ew.isfinite(largest), largest, 0), axes)


class LogSumExp(AxisComposite):
    """``log(sum(exp(x)))`` of each slice, without overflow."""

    __slots__ = ()

    def infer(self, x: TensorType) -> TensorType:
        x = AxisComposite.infer(self, x)
        return Reduction.infer(Sum(self.axes), x)

    def expand(self, x: Tensor) -> Tensor:
        shift = _shift(x, self.axes)
        total = log(sum(exp(x - shift), self.axes, keepdims=True)) + shift
        return squeeze(total, self.axes)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Return each element's share of the sum; zero in a slice of -inf alone."""
        y = ew.where(ew.equal(y, -np.inf), 0, y)
        return (restore_axes(g, self.axes) * exp(x - restore_axes(y, self.axes)),)


def apply_composite(op: type[AxisComposite], x: Any, axis: Axis) -> Tensor:
    """Return a composite of an array over axes; integers and bool become float64."""
    x = as_floating(x)
    return Tensor.make(op(axes_of(op.__name__.lower(), axis, x.ndim)), x)


@function
def logsumexp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return ``log(sum(exp(x), axis))`` without overflow, by subtracting the largest element.

    Args:
        x: Logarithms, in nats; real, any shape.
        axis: Axes to reduce, all by default; negative axes count from the end.
        keepdims: Keep the reduced axes, of length 1.

    Returns:
        An array of x's dtype without ``axis``; ``-inf`` for a slice that is empty or
        all ``-inf``.

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
    y = apply_composite(LogSumExp, x, axis)
    return restore_axes(y, axes_of("logsumexp", axis, as_tensor(x).ndim)) if keepdims else y
