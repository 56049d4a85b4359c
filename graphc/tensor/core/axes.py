"""Axes permuted, inserted and removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir import Constant, Node, Op, TensorType, is_integer
from graphc.ir.lengths import agree
from graphc.ir.line import ATOM, Code, Writer
from graphc.tensor.core.elementwise import equal, less, where
from graphc.tensor.core.shape import AxisOp, lengths, reshape, shifted_axes
from graphc.tensor.core.tensor import (
    Axis,
    Tensor,
    TensorLike,
    as_tensor,
    axes_of,
    function,
    known_axes,
)

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "atleast_Nd", "dimshuffle", "expand_dims",
    "matrix_transpose", "moveaxis", "shape_padaxis", "shape_padleft", "shape_padright",
    "slice_at_axis", "squeeze", "swapaxes", "transpose",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Transpose(Op):
    """A permutation of axes: axis ``axes[i]`` of the array is axis i of the result."""

    axes: tuple[int, ...]

    rearranges = True
    name = "transpose"
    core_ndim = 0

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        x = write(inputs[0], ATOM)
        is_reversed = self.axes == tuple(range(len(self.axes)))[::-1]
        return f"{x}.T" if is_reversed else f"{x}.transpose{self.axes}", ATOM

    def infer(self, x: TensorType) -> TensorType:
        return x.with_shape(tuple(x.shape[axis] for axis in self.axes))

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.transpose(x, self.axes)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (transpose(g, [self.axes.index(i) for i in range(len(self.axes))]),)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(Transpose((0, *shifted_axes(self.axes))), x)


@function
def transpose(x: TensorLike, axes: Sequence[int] | None = None) -> Tensor:
    """Return the array with its axes permuted, reversed by default.

    Args:
        x: Any shape and dtype.
        axes: Every axis of x once; negative ones count from the end.

    Returns:
        The array whose axis i is x's axis ``axes[i]``.

    Raises:
        ShapeError: ``axes`` is not a reordering of x's axes.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.transpose([[1, 2], [3, 4]]).eval(mode="NUMPY").tolist()
        [[1, 3], [2, 4]]
    """
    x = as_tensor(x)
    if axes is None:
        order = tuple(range(x.ndim))[::-1]
    else:
        order = tuple(axes_of("transpose", a, x.ndim)[0] for a in known_axes(axes))
        if len(order) != x.ndim or len(set(order)) != x.ndim:
            raise ShapeError(f"transpose({x!r}, {tuple(axes)}): the axes are not a permutation.")
    return x if order == tuple(range(x.ndim)) else Tensor.make(Transpose(order), x)


@function
def matrix_transpose(x: TensorLike) -> Tensor:
    """Return the array with its last two axes exchanged.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.matrix_transpose([[1.0, 2.0], [3.0, 4.0]]).eval(mode="NUMPY").tolist()
        [[1.0, 3.0], [2.0, 4.0]]
    """
    return swapaxes(x, -1, -2)


@function
def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """Return the array with two axes exchanged; negative axes count from the end.

    Example:
        >>> import graphc.tensor as gt
        >>> swapaxes(gt.tensor("x", shape=(2, 3, 4)), 0, -1).type
        float64[4, 3, 2]
    """
    x = as_tensor(x)
    (a,), (b,) = axes_of("swapaxes", axis1, x.ndim), axes_of("swapaxes", axis2, x.ndim)
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return transpose(x, order)


@function
def moveaxis(x: TensorLike, source: Any, destination: Any) -> Tensor:
    """Return the array with axes moved to new positions, the others kept in order.

    Args:
        x: Any shape and dtype.
        source: One axis or several.
        destination: As many positions.

    Raises:
        ShapeError: An axis does not exist, is repeated, or the two differ in number.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.moveaxis(gt.tensor("x", shape=(2, 3, 4)), 0, -1).type
        float64[3, 4, 2]
    """
    x = as_tensor(x)
    sources = [axes_of("moveaxis", a, x.ndim)[0] for a in _list_axes(source)]
    destinations = [axes_of("moveaxis", a, x.ndim)[0] for a in _list_axes(destination)]
    if {len(sources)} != {len(destinations), len(set(sources)), len(set(destinations))}:
        raise ShapeError(f"moveaxis: cannot move {source} to {destination}.")
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for position, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(position, axis)
    return transpose(x, order)


def _list_axes(axes: Any) -> list[int]:
    axes = known_axes(axes)
    return list(axes) if isinstance(axes, tuple) else [axes]


@dataclass(frozen=True, slots=True)
class ExpandDims(AxisOp):
    """New axes of length 1 at these positions of the result."""

    axes: tuple[int, ...]

    rearranges = True
    name = "expand_dims"
    core_ndim = 0

    def infer(self, x: TensorType) -> TensorType:
        rest = iter(x.shape)
        ndim = x.ndim + len(self.axes)
        return x.with_shape(tuple(1 if i in self.axes else next(rest) for i in range(ndim)))

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.expand_dims(x, self.axes)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (squeeze(g, self.axes),)


@function
def expand_dims(x: TensorLike, axis: Axis) -> Tensor:
    """Return the array with new axes of length 1.

    Args:
        x: Any shape and dtype.
        axis: The positions of the new axes in the result; negative ones count from its end.

    Raises:
        ShapeError: The result has no such axis, or one is repeated.

    Example:
        >>> import graphc.tensor as gt
        >>> expand_dims(gt.vector("x"), (0, 2)).type
        float64[1, ?, 1]
    """
    x = as_tensor(x)
    axis = known_axes(axis)
    ndim = x.ndim + (len(axis) if isinstance(axis, tuple) else 1)
    axes = axes_of("expand_dims", axis, ndim) if axis is not None else ()
    return Tensor.make(ExpandDims(axes), x) if axes else x


@dataclass(frozen=True, slots=True)
class Squeeze(AxisOp):
    """The array without these axes, each of length 1."""

    axes: tuple[int, ...]

    rearranges = True
    name = "squeeze"
    core_ndim = 0

    def infer(self, x: TensorType) -> TensorType:
        for axis in self.axes:
            if not agree(x.shape[axis], 1):
                raise ShapeError(
                    f"squeeze({x!r}, {self.axes}): the length of axis {axis} is not 1.",
                    "Index it, x[0], or reduce over it.",
                )
        return x.with_shape(tuple(n for i, n in enumerate(x.shape) if i not in self.axes))

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.squeeze(x, self.axes)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (expand_dims(g, self.axes),)


@function
def squeeze(x: TensorLike, axis: Axis = None) -> Tensor:
    """Return the array without axes of length 1.

    Args:
        x: Any shape and dtype.
        axis: The axes to drop; by default all whose static length is 1.

    Raises:
        ShapeError: An axis has another length, or does not exist.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.squeeze(gt.tensor("x", shape=(1, 3, 1))).type
        float64[3]
    """
    x = as_tensor(x)
    if axis is None:
        axes = tuple(i for i, n in enumerate(x.type.shape) if n == 1)
    else:
        axes = axes_of("squeeze", axis, x.ndim)
    return Tensor.make(Squeeze(axes), x) if axes else x


@function
def dimshuffle(x: TensorLike, pattern: Sequence[int | str]) -> Tensor:
    """Return the array with its axes in a new order, ``"x"`` for a new one of length 1.

    Args:
        x: Any shape and dtype.
        pattern: The new order, such as ``(1, "x", 0)``; an omitted axis must have length 1.

    Raises:
        ShapeError: An axis is repeated, does not exist, or is dropped without having length 1.

    Example:
        >>> import graphc.tensor as gt
        >>> dimshuffle(gt.tensor("x", shape=(2, 3)), (1, "x", 0)).type
        float64[3, 1, 2]
    """
    x = as_tensor(x)
    order = [axes_of("dimshuffle", a, x.ndim)[0] for a in pattern if a != "x"]  # type: ignore[arg-type]
    if len(set(order)) != len(order):
        raise ShapeError(f"dimshuffle: an axis is repeated in {pattern}.")
    dropped = tuple(i for i in range(x.ndim) if i not in order)
    remaining = [i for i in range(x.ndim) if i in order]
    y = squeeze(x, dropped) if dropped else x
    y = transpose(y, [remaining.index(a) for a in order])
    new = tuple(i for i, a in enumerate(pattern) if a == "x")
    return expand_dims(y, new) if new else y


@function
def shape_padleft(x: TensorLike, n_ones: int = 1) -> Tensor:
    """Return the array with new axes of length 1 in front.

    Args:
        x: Any shape and dtype.
        n_ones: The number of new axes.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.shape_padleft(gt.matrix("a", shape=(2, 3)), 2).type
        float64[1, 1, 2, 3]
    """
    return expand_dims(x, tuple(range(n_ones)))


@function
def shape_padright(x: TensorLike, n_ones: int = 1) -> Tensor:
    """Return the array with new axes of length 1 at the end.

    Args:
        x: Any shape and dtype.
        n_ones: The number of new axes.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.shape_padright(gt.matrix("a", shape=(2, 3))).type
        float64[2, 3, 1]
    """
    return expand_dims(x, tuple(range(-n_ones, 0)))


@function
def shape_padaxis(x: TensorLike, axis: int) -> Tensor:
    """Return the array with a new axis of length 1; a negative one counts from the end.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.shape_padaxis(gt.matrix("a", shape=(2, 3)), 1).type
        float64[2, 1, 3]
    """
    return expand_dims(x, axis)


@function
def atleast_Nd(x: TensorLike, *, n: int = 1, left: bool = True) -> Tensor:  # noqa: N802 (PyTensor's name)
    """Return the array with at least n axes, new ones of length 1.

    Args:
        x: Any shape and dtype.
        n: The least number of axes.
        left: Whether the new axes come in front of the others, not behind them.

    Example:
        >>> import graphc.tensor as gt
        >>> atleast_Nd(gt.vector("x"), n=3, left=False).type
        float64[?, 1, 1]
    """
    x = as_tensor(x)
    missing = max(n - x.ndim, 0)
    return shape_padleft(x, missing) if left else shape_padright(x, missing)


def _each_at_least(n: int, xs: Sequence[TensorLike], left: bool) -> Tensor | list[Tensor]:
    results = [atleast_Nd(x, n=n, left=left) for x in xs]
    return results[0] if len(results) == 1 else results


@overload
def atleast_1d(x: TensorLike, /, *, left: bool = True) -> Tensor: ...


@overload
def atleast_1d(
    x: TensorLike, other: TensorLike, /, *xs: TensorLike, left: bool = True
) -> list[Tensor]: ...


@function
def atleast_1d(*xs: TensorLike, left: bool = True) -> Tensor | list[Tensor]:
    """Return an array with at least one axis, or a list; arguments as for ``atleast_Nd``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.atleast_1d(2.0).eval(mode="NUMPY").tolist()
        [2.0]
    """
    return _each_at_least(1, xs, left)


@overload
def atleast_2d(x: TensorLike, /, *, left: bool = True) -> Tensor: ...


@overload
def atleast_2d(
    x: TensorLike, other: TensorLike, /, *xs: TensorLike, left: bool = True
) -> list[Tensor]: ...


@function
def atleast_2d(*xs: TensorLike, left: bool = True) -> Tensor | list[Tensor]:
    """Return an array with at least two axes, or a list; arguments as for ``atleast_Nd``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.atleast_2d([1, 2]).eval(mode="NUMPY").tolist()
        [[1, 2]]
    """
    return _each_at_least(2, xs, left)


@overload
def atleast_3d(x: TensorLike, /, *, left: bool = True) -> Tensor: ...


@overload
def atleast_3d(
    x: TensorLike, other: TensorLike, /, *xs: TensorLike, left: bool = True
) -> list[Tensor]: ...


@function
def atleast_3d(*xs: TensorLike, left: bool = True) -> Tensor | list[Tensor]:
    """Return an array with at least three axes, or a list; arguments as for ``atleast_Nd``.

    New axes come in front of the others, or with ``left=False`` behind them; NumPy puts one on
    either side of a vector.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.atleast_3d(gt.vector("x")).type.ndim
        3
    """
    return _each_at_least(3, xs, left)


def slice_at_axis(sl: Any, axis: int) -> tuple[Any, ...]:
    """Return the index that applies a slice, or another index, to one axis.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.tensor("x", shape=(3, 4, 5))[slice_at_axis(slice(1, None), -2)].type
        float64[3, 3, 5]
    """
    if axis < 0:
        return (..., sl, *(slice(None),) * (-1 - axis))
    return (*(slice(None),) * axis, sl)


def is_symbolic(axis: Any) -> bool:
    """Return whether the number of an axis is unknown before a call."""
    return isinstance(axis, Tensor) and not isinstance(axis.op, Constant)


def from_front(op: str, axis: Tensor, ndim: int) -> Tensor:
    """Return a symbolic axis counted from the first one."""
    if axis.ndim or not is_integer(axis.dtype):
        raise DTypeError(f"{op}: expected an integer scalar as axis, got {axis!r}.")
    return where(less(axis, 0), axis + ndim, axis)


def around_axis(x: Tensor, axis: Tensor) -> Tensor:
    """Return an array of three axes: the axes in front merged, a symbolic axis, the rest merged.

    The axis is counted from the first one. One that does not exist has no elements, so that the
    shape does not fit when the program runs.
    """
    front, n, behind = as_tensor(1), as_tensor(0), as_tensor(1)
    for k, m in enumerate(lengths(x)):
        front *= where(less(k, axis), m, 1)
        n += where(equal(k, axis), m, 0)
        behind *= where(less(axis, k), m, 1)
    return reshape(x, (front, n, behind))
