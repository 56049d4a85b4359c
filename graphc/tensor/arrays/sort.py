"""Sorted elements, their order and positions; NaN sorts last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, BoundsError, ShapeError
from graphc.ir import Op, TensorType, is_complex, is_inexact
from graphc.ir.lengths import agree
from graphc.tensor.arrays.broadcast import broadcast_batch
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.arrays.index import flip
from graphc.tensor.arrays.reduce import dtype_range
from graphc.tensor.arrays.select import put_along_axis, take, take_along_axis
from graphc.tensor.core.axes import around_axis, from_front, is_symbolic, slice_at_axis
from graphc.tensor.core.elementwise import wide_dtype
from graphc.tensor.core.shape import AxisOp, length, lengths, ravel, reshape
from graphc.tensor.core.specify import specify
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, axes_of, function, operands

__all__ = [
    "argpartition", "argsort", "lexsort", "partition", "searchsorted", "sort", "top_k",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sort(AxisOp):
    """The elements of each slice along an axis, in ascending order."""

    axis: int
    name = "sort"

    def infer(self, x: TensorType) -> TensorType:
        return x

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        return last_in_order(type) if axis == self.axis else "any"

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return np.sort(comparable(x), self.axis, kind="stable").astype(x.dtype, copy=False)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Send each gradient back to the element of x that its position holds."""
        order = Tensor.make(ArgSort(self.axis), x)
        return (put_along_axis(zeros_like(x), order, g, self.axis),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, x: Tensor) -> Any:
        if tangents[0] is None:
            return None
        return take_along_axis(tangents[0], Tensor.make(ArgSort(self.axis), x), self.axis)


@dataclass(frozen=True, slots=True)
class ArgSort(AxisOp):
    """The positions that sort each slice along an axis in ascending order, stable."""

    axis: int
    name = "argsort"

    def infer(self, x: TensorType) -> TensorType:
        return x.with_dtype("int64")

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        return last_in_order(type) if axis == self.axis else "any"

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return np.argsort(comparable(x), self.axis, kind="stable")


def comparable(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array in a dtype that NumPy sorts with NaN last, unlike bfloat16."""
    return x.astype(wide_dtype(x.dtype), copy=False)


def last_in_order(type: TensorType) -> Any:
    """Return a value of a type's dtype that no element is sorted behind."""
    if is_complex(type.dtype):
        return complex(np.nan, np.nan)
    return np.nan if is_inexact(type.dtype) else dtype_range(type.numpy_dtype)[1]


KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def _check_order(op: str, kind: Any, order: Any, stable: Any) -> None:
    if kind not in KINDS:
        raise ArgumentError(
            f"{op}: unknown kind={kind!r}.",
            f"Use one of {', '.join(map(repr, KINDS))}; all sort alike.",
        )
    if order is not None:
        raise ArgumentError(
            f"{op}: order={order!r} names fields, which symbolic arrays do not have.",
            "Sort by several arrays with gt.lexsort.",
        )


def _axis(op: str, x: Any, axis: int | None) -> tuple[Tensor, int]:
    x = as_tensor(x)
    if axis is None:
        return ravel(x), 0
    return x, axes_of(op, (axis,), x.ndim)[0]


def _along(name: str, op: type[Sort | ArgSort], x: Any, axis: Any) -> Tensor:
    if is_symbolic(axis):
        x = as_tensor(x)
        return reshape(
            Tensor.make(op(1), around_axis(x, from_front(name, axis, x.ndim))), lengths(x)
        )
    x, at = _axis(name, x, axis)
    return Tensor.make(op(at), x)


@function
def sort(
    x: TensorLike, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> Tensor:
    """Return the elements in ascending order along an axis; NaN comes last.

    Args:
        x: Any dtype and shape; complex numbers go by their real, then their imaginary part.
        axis: The axis, also symbolic; None sorts all elements.
        kind: NumPy's names of algorithms; all give the same.
        order: None; NumPy's records have no counterpart.
        stable: Equal elements keep their order in any case.

    Raises:
        ShapeError: If x has no such axis.
        ArgumentError: If there is no such kind, or an ``order``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.sort([3, 1, 2]).eval(mode="NUMPY").tolist()
        [1, 2, 3]
    """
    _check_order("sort", kind, order, stable)
    return _along("sort", Sort, x, axis)


@function
def argsort(
    x: TensorLike, axis: int | None = -1, kind: Any = None, order: Any = None, stable: Any = None
) -> Tensor:
    """Return the positions, int64, that sort an array; equal elements keep their order.

    Arguments and errors as for ``sort``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.argsort([3, 1, 2]).eval(mode="NUMPY").tolist()
        [1, 2, 0]
    """
    _check_order("argsort", kind, order, stable)
    return _along("argsort", ArgSort, x, axis)


@function
def partition(
    x: TensorLike, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None
) -> Tensor:
    """Return the elements so that positions ``kth`` hold the same ones as in sorted order.

    Smaller elements come before and larger ones behind; here all of them are sorted.

    Args:
        x: Any dtype and shape.
        kth: A Python integer or several; negative ones count from the end.
        axis: The axis; None takes all elements.
        kind: ``"introselect"``.
        order: None.

    Raises:
        BoundsError: A position is outside the axis.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.partition([3, 1, 2], 1).eval(mode="NUMPY").tolist()
        [1, 2, 3]
    """
    x, at = _check_partition("partition", x, kth, axis, kind, order)
    return Tensor.make(Sort(at), x)


@function
def argpartition(
    x: TensorLike, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None
) -> Tensor:
    """Return the positions, int64, that partition an array; arguments as for ``partition``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.argpartition([3.0, 1.0, 2.0], 0)[0].eval(mode="NUMPY").tolist()
        1
    """
    x, at = _check_partition("argpartition", x, kth, axis, kind, order)
    return Tensor.make(ArgSort(at), x)


def _check_partition(
    op: str, x: Any, kth: Any, axis: int | None, kind: str, order: Any
) -> tuple[Tensor, int]:
    _check_order(op, None if kind == "introselect" else kind, order, None)
    x, at = _axis(op, x, axis)
    n = x.type.shape[at]
    for k in np.atleast_1d(kth):
        if n is not None and not -n <= k < n:
            raise BoundsError(f"{op}: position {k} is outside {n} elements.")
    return x, at


@function
def top_k(x: TensorLike, k: Any, axis: int = -1) -> tuple[Tensor, Tensor]:
    """Return the largest elements along an axis, largest first, and their positions.

    Args:
        x: Real numbers or bool; NaN counts as the largest.
        k: The number of elements, a Python or symbolic integer.
        axis: The axis.

    Returns:
        The elements, and their positions as int64; of equal elements the first come first.

    Raises:
        ShapeError: k is negative, there are fewer elements, or x has no such axis.
        RuntimeShapeError: At run time, there are fewer elements.

    Example:
        >>> import graphc.tensor as gt
        >>> values, positions = gt.top_k([5, 9, 2, 9], 3)
        >>> values.eval(mode="NUMPY").tolist(), positions.eval(mode="NUMPY").tolist()
        ([9, 9, 5], [1, 3, 0])
    """
    x, at = _axis("top_k", x, axis)
    n = x.type.shape[at]
    if isinstance(k, int) and not 0 <= k <= (k if n is None else n):
        most = "the number of elements" if n is None else n
        raise ShapeError(f"top_k: k={k} is not from 0 to {most}.")
    # Sorted from the end, so that of equal elements the last stands first, and first when turned.
    order = length(x, at) - 1 - flip(Tensor.make(ArgSort(at), flip(x, at)), at)
    positions = order[slice_at_axis(slice(0, k), at)]
    positions = specify(positions, [k if axis == at else None for axis in range(x.ndim)], "top_k")
    return take_along_axis(x, positions, at), positions


@function
def lexsort(keys: Iterable[TensorLike], axis: int = -1) -> Tensor:
    """Return the positions, int64, that sort by the last key, then by the one before, and so on.

    Args:
        keys: Arrays of one shape, or one array whose first axis goes over them.
        axis: The axis.

    Raises:
        ArgumentError: There is no key.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.lexsort(([3, 1, 2], [0, 1, 0])).eval(mode="NUMPY").tolist()
        [2, 0, 1]
    """
    keys = [as_tensor(key) for key in keys]
    if not keys:
        raise ArgumentError("lexsort: expected at least one key.", "Pass a sequence of arrays.")
    order = argsort(keys[0], axis)
    for key in keys[1:]:
        again = argsort(take_along_axis(key, order, axis), axis)
        order = take_along_axis(order, again, axis)
    return order


# Positions in a sorted array.


@dataclass(frozen=True, slots=True)
class SearchSorted(Op):
    """The positions, int64, at which to insert values into sorted vectors.

    Attributes:
        right: Whether the positions are behind equal elements, not before them.
        batched: The number of leading axes that both inputs share; each of them has one vector.
    """

    right: bool
    batched: int = 0
    name = "searchsorted"

    @property
    def side(self) -> str:
        """NumPy's name of the side."""
        return "right" if self.right else "left"

    def infer(self, x: TensorType, v: TensorType) -> TensorType:
        if x.ndim != self.batched + 1:
            raise ShapeError(
                f"searchsorted: expected a sorted vector, got {x!r}.")  # fmt: skip
        if not all(agree(n, m) for n, m in zip(x.shape[:-1], v.shape, strict=False)):
            raise ShapeError(f"searchsorted({x!r}, {v!r}): the batches differ.")
        return v.with_dtype("int64")

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        if i or axis < self.batched:
            return "any"
        return None if is_complex(type.dtype) else last_in_order(type)

    def perform(self, x: np.ndarray[Any, Any], v: np.ndarray[Any, Any]) -> Any:
        y = np.empty(v.shape, np.int64)
        for index in np.ndindex(v.shape[: self.batched]):
            y[index] = np.searchsorted(comparable(x[index]), comparable(v[index]), self.side)  # type: ignore[call-overload]
        return y

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor, v: Tensor) -> Tensor:
        if not batched[0] and not self.batched:
            return Tensor.make(self, x, v)
        x, v = broadcast_batch(size, batched, (x, v))
        return Tensor.make(SearchSorted(self.right, self.batched + 1), x, v)


@function
def searchsorted(
    x: TensorLike, v: TensorLike, side: str = "left", sorter: TensorLike | None = None
) -> Tensor:
    """Return the positions at which to insert values into a sorted vector.

    Args:
        x: A vector in ascending order, or in any where ``sorter`` puts it in order.
        v: Values of any shape; NaN goes behind all numbers.
        side: ``"left"``: before equal elements, ``"right"``: behind them.
        sorter: The positions that sort x, as from ``argsort``.

    Returns:
        An int64 array of v's shape, from 0 to x's length.

    Raises:
        ShapeError: x is not a vector.
        ArgumentError: The side is unknown.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.searchsorted([1, 3, 3, 7], [3, 8], side="right").eval(mode="NUMPY").tolist()
        [3, 4]
    """
    if side not in {"left", "right"}:
        raise ArgumentError(f"searchsorted: unknown side={side!r}.", "Use 'left' or 'right'.")
    (x, v), _ = operands("searchsorted", (x, v))
    x = x if sorter is None else take(x, sorter, 0)
    return Tensor.make(SearchSorted(side == "right"), x, v)
