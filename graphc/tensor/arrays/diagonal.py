"""Diagonals: extracted, set and summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir import Op, Shape as StaticShape, TensorType, is_complex
from graphc.ir.lengths import greatest, least
from graphc.tensor.arrays.create import above_diagonal, arange, diagonal_number
from graphc.tensor.arrays.reduce import sum
from graphc.tensor.arrays.triangle import matrix_lengths
from graphc.tensor.core.axes import expand_dims, moveaxis
from graphc.tensor.core.elementwise import cast, equal, where
from graphc.tensor.core.shape import entries, fill_shape, length, lengths, target_shape
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, axes_of, function

__all__ = [
    "alloc_diag", "diag", "diagonal", "extract_diag", "fill_diagonal", "fill_diagonal_offset",
    "trace",
]  # fmt: skip


def diagonal_length(n: int, m: int, offset: int) -> int:
    """Return the length of a diagonal of an n by m matrix.

    Example:
        >>> diagonal_length(2, 4, 1), diagonal_length(2, 4, 3), diagonal_length(2, 4, -2)
        (2, 1, 0)
    """
    return max(min(n + min(offset, 0), m - max(offset, 0)), 0)


@dataclass(frozen=True, slots=True)
class MatrixDiagonal(Op):
    """A diagonal of the matrix in the last two axes: ``offset`` above the main one."""

    offset: int

    rearranges = True
    name = "diagonal"
    core_ndim = 0

    def infer(self, x: TensorType) -> TensorType:
        n, m = x.shape[-2:]
        rows = None if n is None else n + min(self.offset, 0)
        columns = None if m is None else m - max(self.offset, 0)
        count = greatest(least(rows, columns), 0)
        return x.with_shape((*x.shape[:-2], count))

    def perform(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.diagonal(x, self.offset, -2, -1)

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        return (_from_diagonal(g, length(x, -2), length(x, -1), self.offset),)


@dataclass(frozen=True, slots=True)
class FromDiagonal(Op):
    """A matrix in the last two axes, zero but for one diagonal; None stands for an input.

    Attributes:
        shape: The number of rows and columns.
        offset: How far above the main one the diagonal is.
    """

    shape: StaticShape
    offset: int

    rearranges = True
    name = "from_diagonal"

    def infer(self, v: TensorType, *symbolic: TensorType) -> TensorType:
        return v.with_shape((*v.shape[:-1], *fill_shape(self.shape, symbolic)))

    def target(self, count: int, symbolic: Sequence[Any]) -> tuple[int, int]:
        n, m = target_shape(self.shape, symbolic)
        if diagonal_length(n, m, self.offset) != count:
            raise ShapeError(
                f"diagonal: {count} elements for diagonal {self.offset} of {n} by {m} elements.",
                f"It has {diagonal_length(n, m, self.offset)}.",
            )
        return n, m

    def perform(self, v: np.ndarray[Any, Any], *symbolic: Any) -> np.ndarray[Any, Any]:
        count = np.shape(v)[-1]
        y = np.zeros((*np.shape(v)[:-1], *self.target(count, symbolic)), v.dtype)
        rows = np.arange(count) - min(self.offset, 0)
        y[..., rows, rows + self.offset] = v
        return y

    def pullback(self, g: Tensor, y: Tensor, v: Tensor, *symbolic: Tensor) -> Sequence[Any]:
        return (Tensor.make(MatrixDiagonal(self.offset), g), *(None for _ in symbolic))

    def batch(self, size: Any, batched: Sequence[bool], v: Tensor, *symbolic: Tensor) -> Tensor:
        return Tensor.make(self, v, *symbolic)


def _from_diagonal(v: Tensor, n: int | Tensor, m: int | Tensor, offset: int) -> Tensor:
    static, symbolic = entries("diagonal", (n, m))
    return Tensor.make(FromDiagonal(static, offset), v, *symbolic)


@function
def diagonal(a: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return a diagonal of the matrices in two axes, as the last axis of the result.

    Args:
        a: At least two axes.
        offset: The diagonal: 0 is the main one, positive ones are above it, negative ones below.
        axis1: The axis of the rows.
        axis2: The axis of the columns, another one.

    Raises:
        ShapeError: The axes are not two different ones.

    Example:
        >>> import graphc.tensor as gt
        >>> diagonal(gt.tensor("a", shape=(2, 3, 4)), 1, 1, 2).type
        float64[2, 3]
    """
    a = as_tensor(a)
    rows, columns = _plane("diagonal", axis1, axis2, a.ndim)
    return Tensor.make(MatrixDiagonal(int(offset)), moveaxis(a, (rows, columns), (-2, -1)))


def _plane(op: str, axis1: int, axis2: int, ndim: int) -> tuple[int, int]:
    (rows,), (columns,) = axes_of(op, axis1, ndim), axes_of(op, axis2, ndim)
    if rows == columns:
        raise ShapeError(
            f"{op}: axis1={axis1} and axis2={axis2} are the same axis.", "Pass two different axes."
        )
    return rows, columns


@function
def extract_diag(x: TensorLike) -> Tensor:
    """Return the main diagonal of the matrices in the first two axes.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.extract_diag([[1.0, 2.0], [3.0, 4.0]]).eval(mode="NUMPY").tolist()
        [1.0, 4.0]
    """
    return diagonal(x)


@function
def alloc_diag(diag: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return matrices with an array's last axis on a diagonal and zeros elsewhere.

    Args:
        diag: At least one axis.
        offset: The diagonal: 0 is the main one, positive ones are above it, negative ones below.
        axis1: The axis of the rows in the result.
        axis2: The axis of the columns in the result.

    Raises:
        ShapeError: diag is a scalar, or the axes are not two different ones.

    Example:
        >>> import graphc.tensor as gt
        >>> alloc_diag(gt.tensor("v", shape=(3,)), offset=-1).type
        float64[4, 4]
    """
    v = as_tensor(diag)
    if not v.ndim:
        raise ShapeError(
            "alloc_diag: expected a diagonal of at least one axis, got a scalar.", "Pass a vector."
        )
    rows, columns = _plane("alloc_diag", axis1, axis2, v.ndim + 1)
    n = length(v, -1) + abs(offset)
    return moveaxis(_from_diagonal(v, n, n, int(offset)), (-2, -1), (rows, columns))


@function
def diag(v: TensorLike, k: int = 0) -> Tensor:
    """Return the diagonal of a matrix, or the matrix with a vector on its diagonal.

    Args:
        v: A matrix or a vector.
        k: The diagonal: 0 is the main one, positive ones are above it, negative ones below.

    Raises:
        ShapeError: v is neither a matrix nor a vector.

    Example:
        >>> diag([1, 2]).eval(mode="NUMPY").tolist()
        [[1, 0], [0, 2]]
    """
    v = as_tensor(v)
    if v.ndim not in {1, 2}:
        raise ShapeError(
            f"diag: expected a vector or a matrix, got {v!r}.",
            "Use gt.diagonal or gt.alloc_diag, which take batches.",
        )
    return alloc_diag(v, k) if v.ndim == 1 else diagonal(v, k)


@function
def trace(a: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return the sum of a diagonal of the matrices in two axes; arguments as for ``diagonal``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.trace([[1, 2], [3, 4]]).eval(mode="NUMPY").tolist()
        5
    """
    return sum(diagonal(a, offset, axis1, axis2), -1)


@function
def fill_diagonal(a: TensorLike, val: TensorLike) -> Tensor:
    """Return the array with a value on its main diagonal.

    Args:
        a: A matrix, or an array of more axes that are all of one length.
        val: A scalar, or a vector as long as the diagonal; cast to a's dtype.

    Raises:
        ShapeError: a has fewer than two axes or unequal lengths, or the value has another shape.
        DTypeError: The value is complex and the array is not.

    Example:
        >>> fill_diagonal([[1, 2], [3, 4]], 0).eval(mode="NUMPY").tolist()
        [[0, 2], [3, 0]]
    """
    a = as_tensor(a)
    value = _value("fill_diagonal", a, val)
    if a.ndim < 2:
        raise ShapeError(f"fill_diagonal: expected at least two axes, got {a!r}.")
    if a.ndim > 2:
        size = next((n for n in lengths(a) if isinstance(n, int)), length(a, 0))
        a = specify_shape(a, [size] * a.ndim)
    if value.ndim:
        indices = arange(length(diagonal(a), -1))
        return a[(indices,) * a.ndim].set(value)
    first, *others = [
        expand_dims(arange(n), [i for i in range(a.ndim) if i != axis])
        for axis, n in enumerate(lengths(a))
    ]
    is_on: Any = True
    for indices in others:
        is_on = equal(first, indices) & is_on
    return where(is_on, value, a)


@function
def fill_diagonal_offset(a: TensorLike, val: TensorLike, offset: Any) -> Tensor:
    """Return the matrix with a value on one of its diagonals.

    Args:
        a: A matrix.
        val: A scalar, cast to a's dtype.
        offset: The diagonal, a Python or symbolic integer: 0 is the main one, positive ones are
            above it, negative ones below.

    Raises:
        ShapeError: The array is not a matrix, or the value no scalar.
        DTypeError: The value is complex and the array is not.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.fill_diagonal_offset(np.zeros((2, 3)), 5.0, 1).eval(mode="NUMPY").tolist()
        [[0.0, 5.0, 0.0], [0.0, 0.0, 5.0]]
    """
    n, m = matrix_lengths("fill_diagonal_offset", a)
    a = as_tensor(a)
    value = _value("fill_diagonal_offset", a, val)
    if value.ndim:
        raise ShapeError(f"fill_diagonal_offset: expected a scalar, got {value!r}.")
    on = equal(above_diagonal(n, m), diagonal_number("fill_diagonal_offset", offset))
    return where(on, value, a)


def _value(op: str, a: Tensor, val: Any) -> Tensor:
    value = as_tensor(val)
    if value.ndim > 1:
        raise ShapeError(f"{op}: expected a scalar or a vector, got {value!r}.")
    if is_complex(value.dtype) and not is_complex(a.dtype):
        raise DTypeError(
            f"{op}: a complex value cannot be stored in {a!r}.",
            "Cast the array to complex first.",
        )
    return cast(value, a.dtype)
