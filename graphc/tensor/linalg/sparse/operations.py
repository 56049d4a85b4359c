"""Operations on sparse matrices, whose inputs are the values, their rows and their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphc.errors import ShapeError, UnsupportedOperationError
from graphc.ir import Node, Op, TensorType, TupleType
from graphc.tensor.arrays.broadcast import batch_of
from graphc.tensor.arrays.reduce import sum
from graphc.tensor.arrays.select import take_along_axis
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import equal, greater_equal, less, less_equal, where
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.mirror import as_columns, check_floats, common_lengths
from graphc.tensor.linalg.sparse.factor import general_factor, positive_factor

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class SparseOperation(Op):
    """A function of a sparse matrix that its factor computes, on the host.

    Its first inputs are the stored values, (..., nse), and the row and the column of each, of the
    same shape or (nse,); those in row n are left out.

    Attributes:
        n: The number of rows and columns.
        triangle: The triangle that is read of symmetric, positive definite matrices, ``"lower"`` or
            ``"upper"``; None for matrices of any kind, of which all is read.
    """

    n: int
    triangle: str | None

    by_numpy = True
    title: ClassVar[str]

    @property
    def name(self) -> str:
        return self.title

    def _check(self, data: TensorType, rows: TensorType, columns: TensorType) -> TensorType:
        check_floats(self.name, data)
        for indices in (rows, columns):
            shape = data.shape if indices.ndim == data.ndim else data.shape[-1:]
            common_lengths(self.name, (data, indices), (shape, indices.shape))
        return data

    def perform(self, data: Array, rows: Array, columns: Array, *others: Array) -> Any:
        rows, columns = (np.broadcast_to(x, data.shape) for x in (rows, columns))
        wide = data.astype(np.float64)  # a copy, which may be kept
        results: Any = self._empty(data, *others)
        for index in np.ndindex(data.shape[:-1]):
            operands = [x[index].astype(np.float64) for x in others]
            values = self.one(wide[index], rows[index], columns[index], *operands)
            for result, value in zip(results, values, strict=True):
                result[index] = value
        return self._pack_results(results)

    def _empty(self, data: Array, *others: Array) -> list[Array]:
        return [np.empty_like(others[0] if others else data)]

    def _pack_results(self, results: list[Array]) -> Any:
        return results[0]

    def one(self, data: Array, rows: Array, columns: Array, *others: Array) -> tuple[Any, ...]:
        """Return the results for one matrix."""
        raise NotImplementedError

    def factor(self, data: Array, rows: Array, columns: Array) -> Any:
        """Return the factor of one matrix; None if it is not positive definite."""
        if self.triangle is None:
            return general_factor(rows, columns, self.n, data)
        return positive_factor(rows, columns, self.n, self.triangle == "lower", data)

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Any:
        """Share the pattern of one matrix among a batch of values."""
        has_many_patterns = any(batched[1:3])
        pairs = zip(inputs, batched, strict=True)
        operands = [
            x
            if flag or (i in {1, 2} and not has_many_patterns and x.ndim == 1)
            else batch_of(x, size)
            for i, (x, flag) in enumerate(pairs)
        ]
        return self.node(*operands)

    def node(self, *inputs: Tensor) -> Any:
        """Return a node of this operation."""
        return Tensor.make(self, *inputs)


class SparseSlogDet(SparseOperation):
    """The signs of determinants and the logarithms of their magnitudes, two results."""

    __slots__ = ()

    title: ClassVar[str] = "sparse_slogdet"

    def infer(self, data: TensorType, rows: TensorType, columns: TensorType) -> TupleType:
        y = self._check(data, rows, columns).with_shape(data.shape[:-1])
        return TupleType((y, y))

    def _empty(self, data: Array, *others: Array) -> list[Array]:
        return [np.empty(data.shape[:-1], data.dtype) for _ in range(2)]

    def _pack_results(self, results: list[Array]) -> Any:
        return tuple(results)

    def one(self, data: Array, rows: Array, columns: Array, *others: Array) -> tuple[Any, ...]:
        factor = self.factor(data, rows, columns)
        if self.triangle is None:
            return factor.slogdet()  # type: ignore[no-any-return]
        return (np.nan, np.nan) if factor is None else (1.0, factor.logdet)

    def pullback(self, g: Sequence[Any], y: Any, *inputs: Tensor) -> Sequence[Any]:
        """Return the gradient of the logarithm; the sign is constant."""
        _, by_log = g
        if by_log is None:
            return None, None, None
        slope = Tensor.make(LogDetSlope(self.n, self.triangle), *inputs)
        return expand_dims(by_log, by_log.ndim) * slope, None, None

    def node(self, *inputs: Tensor) -> Any:
        return Node.make(self, *inputs)


class LogDetSlope(SparseOperation):
    """The derivative of the logarithm of the determinant with respect to each stored value.

    Each is an element of the inverse's transpose; for a symmetric matrix twice the element, off the
    diagonal of the triangle that is read, and zero in the other triangle.
    """

    __slots__ = ()

    title: ClassVar[str] = "sparse_logdet_slope"

    def infer(self, data: TensorType, rows: TensorType, columns: TensorType) -> TensorType:
        return self._check(data, rows, columns)

    def one(self, data: Array, rows: Array, columns: Array, *others: Array) -> tuple[Any, ...]:
        factor = self.factor(data, rows, columns)
        if self.triangle is None:
            return (factor.logdet_gradient(),)
        if factor is None:
            return (np.full(data.shape, np.nan),)
        y = factor.inverse()
        y *= factor.pattern.weights
        return (y,)

    def pullback(self, g: Tensor, y: Tensor, *inputs: Tensor) -> Sequence[Any]:
        """Return the product with the second derivative, which is symmetric."""
        return Tensor.make(LogDetCurvature(self.n, self.triangle), *inputs, g), None, None

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *inputs: Tensor) -> Any:
        if tangents[0] is None:
            return None
        return Tensor.make(LogDetCurvature(self.n, self.triangle), *inputs, tangents[0])


class LogDetCurvature(SparseOperation):
    """The derivative of ``LogDetSlope`` in the direction of other values at the same indices."""

    __slots__ = ()

    title: ClassVar[str] = "sparse_logdet_curvature"

    def infer(self, data: TensorType, rows: TensorType, columns: TensorType, v: TensorType) -> Any:
        check_floats(self.name, data, v)
        common_lengths(self.name, (data, v), (data.shape, v.shape))
        return self._check(data, rows, columns)

    def one(self, data: Array, rows: Array, columns: Array, *others: Array) -> tuple[Any, ...]:
        factor = self.factor(data, rows, columns)
        if self.triangle is None:
            return (factor.logdet_curvature(*others),)
        if factor is None:
            return (np.full(data.shape, np.nan),)
        return (-factor.pattern.weights * factor.inverse_derivative(*others),)

    def pullback_to(self, wanted: Sequence[bool], g: Tensor, y: Tensor, *inputs: Tensor) -> Any:
        if wanted[0]:
            raise UnsupportedOperationError(
                "The logarithm of a sparse determinant has two derivatives by the values, and a "
                "third was asked for.",
                "Write gt.linalg.slogdet(q.dense()), which has all.",
            )
        *matrix, _ = inputs
        return None, None, None, Tensor.make(self, *matrix, g)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *inputs: Tensor) -> Any:
        *by_matrix, dv = tangents
        if any(t is not None for t in by_matrix):
            self.pullback_to([True], y, y, *inputs)
        return None if dv is None else Tensor.make(self, *inputs[:3], dv)


@dataclass(frozen=True, slots=True)
class SparseColumns(SparseOperation):
    """A function of matrices and as many arrays of columns, (..., n, c).

    Attributes:
        transposed: Whether the transpose replaces the matrix.
    """

    transposed: bool

    def infer(self, data: TensorType, rows: TensorType, columns: TensorType, b: TensorType) -> Any:
        check_floats(self.name, data, b)
        self._check(data, rows, columns)
        heads = (data.shape[:-1], b.shape[:-2])
        common = common_lengths(self.name, (data, b), heads)
        (n,) = common_lengths(self.name, (data, b), ((self.n,), b.shape[-2:-1]))
        return b.with_shape((*common, n, b.shape[-1]))

    def perform(self, data: Array, rows: Array, columns: Array, *others: Array) -> Any:
        (b,) = others
        if b.shape[-2] != self.n:
            raise ShapeError(
                f"{self.name}: a matrix of {self.n} rows and columns, and {b.shape[-2]} of b.",
                "Make the number of rows equal.",
            )
        return SparseOperation.perform(self, data, rows, columns, b)

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Any:
        *matrix, b = inputs
        if any(batched[:3]):
            return SparseOperation.batch(self, size, batched, *inputs)
        return as_columns(lambda _, x: self.node(*matrix, x), size, (False, True), matrix[0], b)


class SparseSolve(SparseColumns):
    """The solutions x of ``a @ x = b``."""

    __slots__ = ()

    title: ClassVar[str] = "sparse_solve"

    def one(self, data: Array, rows: Array, columns: Array, *others: Array) -> tuple[Any, ...]:
        (b,) = others
        factor = self.factor(data, rows, columns)
        if self.triangle is None:
            return (factor.solve(b, self.transposed),)
        return (np.full(b.shape, np.nan) if factor is None else factor.solve(b),)

    def pullback(self, g: Tensor, y: Tensor, *inputs: Tensor) -> Sequence[Any]:
        *matrix, _ = inputs
        _, rows, columns = matrix
        turned = SparseSolve(self.n, self.triangle, not self.transposed)
        by_b = Tensor.make(turned if self.triangle is None else self, *matrix, g)
        left, right = (y, by_b) if self.transposed else (by_b, y)
        by_data = _products(self.n, rows, columns, left, right)
        if self.triangle is not None:
            other = _products(self.n, rows, columns, right, left)
            by_data = by_data + where(equal(rows, columns), 0, other)
            read = greater_equal if self.triangle == "lower" else less_equal
            by_data = where(read(rows, columns), by_data, 0)
        return where(less(rows, self.n), -by_data, 0), None, None, by_b


def _products(n: int, rows: Tensor, columns: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return the elements of ``a @ b.mT`` at rows and columns; any numbers in rows from n on."""

    def take_rows(x: Tensor, indices: Tensor) -> Tensor:
        inside = where(less(indices, n), indices, 0)
        if inside.ndim == 1 and x.ndim == 2:
            return x[inside]
        if inside.ndim == 1:
            return x[..., inside, :]
        return take_along_axis(x, expand_dims(inside, inside.ndim), -2)

    return sum(take_rows(a, rows) * take_rows(b, columns), -1)


class SparseRoot(SparseColumns):
    """The root of the inverse, or its transpose, times each column of b.

    The root r is square, ``r @ r.T`` is the inverse, and its columns are in an order of their own.
    """

    __slots__ = ()

    title: ClassVar[str] = "sparse_root"

    def one(self, data: Array, rows: Array, columns: Array, *others: Array) -> tuple[Any, ...]:
        (b,) = others
        factor = self.factor(data, rows, columns)
        if factor is None:
            return (np.full(b.shape, np.nan),)
        return (factor.colour_transposed(b) if self.transposed else factor.colour(b),)

    def pullback_to(self, wanted: Sequence[bool], g: Tensor, y: Tensor, *inputs: Tensor) -> Any:
        if wanted[0]:
            self._refuse()
        turned = SparseRoot(self.n, self.triangle, not self.transposed)
        return None, None, None, Tensor.make(turned, *inputs[:3], g)

    def _refuse(self) -> None:
        raise UnsupportedOperationError(
            "Samples by the factor of a sparse matrix have no gradient by its values.",
            "Use gt.disconnected_grad(sample), or differentiate the log-density.",
        )

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *inputs: Tensor) -> Any:
        *by_matrix, db = tangents
        if any(t is not None for t in by_matrix):
            self._refuse()
        return None if db is None else Tensor.make(self, *inputs[:3], db)
