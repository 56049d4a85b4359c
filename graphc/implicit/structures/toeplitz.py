"""Toeplitz matrices, stored as their first column and row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.errors import ImplicitArrayError, ShapeError
from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import ElementwiseFunction
from graphc.implicit.structures.stacked import (
    Stacked,
    check_same_dtype,
    joint_dtype,
    reduce_in_dtype,
)
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name, is_inexact, numpy_dtype
from graphc.ir.lengths import agree
from graphc.tensor import Tensor
from graphc.tensor.arrays.broadcast import batch_of
from graphc.tensor.arrays.reduce import Composite

LONG = 512
"""The sum of both lengths from which Fourier transforms are faster for 1 to 16 columns: 1.2 to 4
times on JAX, and at least 4 times on NumPy and MLX."""

ROWS = 16
"""The number of rows for which blocks are sized if the number is unknown."""


@dataclass(frozen=True, repr=False)
class Toeplitz(Stacked):
    """A matrix that is constant along each diagonal.

    An m by n matrix stores m + n numbers. A product with k columns divides the matrix into square
    blocks of about √(n k) rows, and forms one block for each diagonal of equal blocks. It adds up
    the terms of the dense product, so integers are exact; temporaries need about 4 √(k / n) of the
    memory of the dense matrix. Long inexact matrices are multiplied by fast Fourier transforms (on
    MLX not in float64, which its transforms lack). Then the error is relative to the norms instead
    of to each element: ``|error| <= 8 eps log2(m + n) |t| |x|`` with t the column and row.

    Args:
        column: The first column, (..., m).
        row: The first row, (..., n), of the dtype of ``column``. Its first element is ignored, as
            in ``scipy.linalg.toeplitz``. None for the conjugate of the column: a Hermitian matrix,
            which is symmetric if real.

    Raises:
        ImplicitArrayError: If a field has no axes, or if batch axes or dtypes differ.

    Example:
        >>> import numpy as np
        >>> np.asarray(Toeplitz(np.array([1, 2, 3]), np.array([1, 4, 5, 6]))).tolist()
        [[1, 4, 5, 6], [2, 1, 4, 5], [3, 2, 1, 4]]
        >>> np.asarray(Toeplitz(np.array([1, 2]))).tolist()
        [[1, 2], [2, 1]]

    Source: Golub & Van Loan, Matrix Computations, 4th ed., 4.8.
    """

    column: Any
    row: Any = None

    @classmethod
    def spec(cls, shape: Any, dtype: Any, symmetric: bool = False, **options: Any) -> Any:
        """Return the type of an input of shape ``(*batch, m, n)``.

        Raises:
            ImplicitArrayError: If a symmetric matrix is not square.

        Example:
            >>> Toeplitz.spec((3, 4), "float32")
            Toeplitz(float32[3], float32[4])
        """
        *batch, m, n = shape
        if symmetric and m != n:
            raise ImplicitArrayError(
                f"A symmetric Toeplitz of shape {tuple(shape)}.", "A symmetric matrix is square."
            )
        column, row = [TensorType(dtype_name(dtype), (*batch, k)) for k in (m, n)]
        return cls(column, None if symmetric else row, **options)

    def check(self) -> None:
        column, row = lengths_of(self.column), lengths_of(self._row)
        if not column or not row or column[:-1] != row[:-1]:
            raise ImplicitArrayError(
                f"Toeplitz: a column of shape {column} and a row of shape {row}.",
                "Both are vectors with equal leading axes.",
            )
        if bool(column[-1]) != bool(row[-1]):
            return  # a matrix without elements has no diagonal
        check_same_dtype(self, column=self.column, row=self.row)

    @property
    def _row(self) -> Any:
        return self.column if self.row is None else self.row

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"column": (None,), "row": (None,)}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        return lengths_of(self.column)[-1], lengths_of(self._row)[-1]

    def materialize(self) -> Any:
        xp = self.xp
        m, n = xp.shape_of(self.column)[-1], xp.shape_of(self._row)[-1]
        if 0 in self.matrix:
            return xp.zeros((*self.batch, m, n), self.dtype)
        return self._diagonals()[..., xp.arange(m)[:, None] - xp.arange(n) + n - 1]

    def diagonal(self, offset: int) -> Any:
        m, n = self.matrix
        if m is None or n is None:
            return NotImplemented
        xp = self.xp
        length = max(min(m + min(offset, 0), n - max(offset, 0)), 0)
        if not length:
            return xp.zeros((*self.batch, 0), self.dtype)
        field, index = (self._explicit_row(), offset) if offset > 0 else (self.column, -offset)
        number = xp.getitem(field, (..., slice(index, index + 1)))
        return xp.broadcast_to(number, (*xp.shape_of(field)[:-1], length))

    def _diagonals(self) -> Any:
        """Return t, of which ``t[i - j + n - 1]`` is element i, j."""
        xp = self.xp
        return xp.concatenate([xp.flip(self._explicit_row()[..., 1:], -1), self.column], -1)

    def _explicit_row(self) -> Any:
        if self.row is not None:
            return self.row
        return self.xp.conj(self.column) if self.dtype.kind == "c" else self.column

    # Products.

    def rmatmul(self, x: Any) -> Any:
        m, n = self.matrix
        *_, k, _ = lengths_of(x)
        if m is None or n is None or isinstance(x, ImplicitArray):
            return NotImplemented
        xp = numpy_like(self, x)
        if not m or not n:
            return xp.zeros((*xp.shape_of(x)[:-1], n), joint_dtype(xp, self.column, x))
        dtype, t = joint_dtype(xp, self.column, x), self._diagonals()
        inexact = is_inexact(str(self.dtype)) and is_inexact(str(dtype_of(x)))
        if not inexact or m + n < LONG:
            y = multiply_by_blocks(xp, t, x, (m, n, ROWS if k is None else k))
        elif xp.name == "graphc" and dtype.kind != "c":
            y = Tensor.make(ToeplitzProduct(m, n), xp.cast(t, dtype), xp.cast(x, dtype))
        else:
            y = product(xp, t, x, m, n)
        return xp.flip(y, -1)

    # The same elements in another order.

    def matrix_transpose(self) -> Any:
        xp = self.xp
        if self.row is None and self.dtype.kind == "c":
            return Toeplitz(self.column, self._explicit_row()).matrix_transpose()
        if self.row is None:
            return self
        if 0 in self.matrix:
            return Toeplitz(self.row, self.column)
        column = xp.concatenate([self.column[..., :1], self.row[..., 1:]], -1)
        return Toeplitz(column, self.column)

    def matrix_window(self, rows: range, columns: range) -> Any:
        a, c, n = len(rows), len(columns), self.matrix[1]
        if n is None:
            return NotImplemented
        xp = self.xp
        if not a or not c:
            return xp.zeros((*self.batch, a, c), self.dtype)
        t, base = self._diagonals(), rows.start - columns.start + n - 1
        if rows.step != columns.step and a > 1 and c > 1:
            i, j = [xp.arange(0, r.step * len(r), r.step) for r in (rows, columns)]
            return t[..., base + i[:, None] - j]
        step = rows.step if a > 1 else columns.step
        column = t[..., base : base + step * (a - 1) + 1 : step]
        return Toeplitz(column, xp.flip(t[..., base - step * (c - 1) : base + 1 : step], -1))

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        n = xp.shape_of(self._row)[-1]
        if n == 0:
            return xp.zeros((*xp.shape_of(index), 0), self.dtype)
        return self._diagonals()[index[..., None] - xp.arange(n) + n - 1]

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        return self.cast_fields(dtype)

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if not all(isinstance(x, Toeplitz) and x.matrix == self.matrix for x in others):
            return NotImplemented
        matrices = (self, *others)
        column = f(*[x.column for x in matrices])
        # The conjugate of the column is the row of a sum or product, too, but not of all functions.
        is_chosen = f.name == "where" and len(others) == 1  # by one boolean
        is_hermitian = self.dtype.kind != "c" or f.name in {"add", "multiply"} or is_chosen
        if is_hermitian and all(x.row is None for x in matrices):
            return Toeplitz(column)
        return Toeplitz(column, f(*[x._explicit_row() for x in matrices]))

    # Over axes.

    def sum_batch(self, axes: tuple[int, ...]) -> Any:
        xp = self.xp
        return self.fieldwise(lambda part, own: reduce_in_dtype(xp, "sum", part, axes))

    def reduce_matrix(self, name: str, axes: tuple[int, ...]) -> Any:
        m, n = self.matrix
        xp = self.xp
        if m is None or n is None:
            return NotImplemented
        if not m or not n:
            return reduce_in_dtype(xp, name, self.materialize(), axes)
        t = self._diagonals()
        if axes == (-1,):
            return _reduce_windows(xp, name, t, n, m)
        y = xp.flip(_reduce_windows(xp, name, t, m, n), -1)
        return y if axes == (-2,) else reduce_in_dtype(xp, name, y, (-1,))


COMBINE = {
    "sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum",
    "any": "logical_or", "all": "logical_and",
}  # fmt: skip
"""The function that combines two partial results of each reduction."""


def _reduce_windows(xp: Any, name: str, t: Any, width: int, count: int) -> Any:
    """Reduce ``t[..., i : i + width]`` for i below count, by windows of powers of two."""
    combine = getattr(xp, COMBINE[name])
    y, start, size = None, 0, 1
    while size <= width:
        if width & size:
            piece = t[..., start : start + count]
            y = piece if y is None else combine(y, piece)
            start += size
        if 2 * size <= width:
            t = combine(t[..., :-size], t[..., size:])
        size *= 2
    return y


@dataclass(frozen=True, slots=True)
class ToeplitzProduct(Composite):
    """``y[l] = sum(t[l + i] x[i])``, of t ``(*batch, n + m - 1)`` and x ``(*batch, rows, m)``.

    Both are real, of one dtype. The derivatives with respect to t and x are Toeplitz products too.

    Attributes:
        m: The number of terms of each sum.
        n: The number of sums.
    """

    m: int
    n: int

    @property
    def name(self) -> str:
        return "toeplitz_product"

    def infer(self, t: TensorType, x: TensorType) -> TensorType:
        if not all(agree(n, m) for n, m in zip(t.shape[:-1], x.shape, strict=False)):
            raise ShapeError(f"{self.name}({t!r}, {x!r}): the batches differ.")
        return x.with_shape((*x.shape[:-1], self.n))

    def perform(self, t: Any, x: Any) -> Any:
        return product(numpy_like(t), t, x, self.m, self.n)

    def expand(self, t: Tensor, x: Tensor) -> Tensor:
        y: Tensor = product(numpy_like(t), t, x, self.m, self.n)
        return y

    def pullback(self, g: Tensor, y: Tensor, *inputs: Tensor) -> Sequence[Any]:
        t, x = inputs
        xp = numpy_like(t)
        # The gradient with respect to t[k] is the sum of g[k - i] x[i] over i and the rows.
        zeros = xp.zeros((*xp.shape_of(g)[:-1], self.m - 1), g.dtype)
        padded = xp.concatenate([zeros, g, zeros], -1)
        correlation = ToeplitzProduct(self.m, self.m + self.n - 1)
        g_t = Tensor.make(correlation, padded, xp.expand_dims(xp.flip(x, -1), -2))
        return xp.sum(g_t, (-3, -2)), Tensor.make(ToeplitzProduct(self.n, self.m), t, g)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *inputs: Tensor) -> Any:
        t, x = inputs
        t_tangent, x_tangent = tangents
        terms = [Tensor.make(self, t_tangent, x)] if t_tangent is not None else []
        terms += [Tensor.make(self, t, x_tangent)] if x_tangent is not None else []
        return sum(terms[1:], terms[0])

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        pairs = zip(inputs, batched, strict=True)
        return Tensor.make(self, *[x if leading else batch_of(x, size) for x, leading in pairs])


def product(xp: Any, t: Any, x: Any, m: int, n: int) -> Any:
    """Multiply arrays of any library, also complex ones, as ``ToeplitzProduct`` does."""
    dtype = joint_dtype(xp, t, x)
    if xp.name == "MLX" and dtype_of(t).itemsize == numpy_dtype("float64").itemsize:
        return multiply_by_blocks(xp, t, x, (m, n, x.shape[-2]))
    size = 1 << (m + n - 2).bit_length()
    wide = "float32" if dtype.itemsize < 4 else dtype_name(dtype)
    t, x = xp.cast(t[..., None, :], wide), xp.cast(x, wide)
    if dtype.kind == "c":
        y = xp.fft.ifft(xp.fft.fft(t, size) * xp.conj(xp.fft.fft(xp.conj(x), size)), size)
    else:
        y = xp.fft.irfft(xp.fft.rfft(t, size) * xp.conj(xp.fft.rfft(x, size)), size)
    return xp.cast(y[..., :n], dtype_name(dtype))


def multiply_by_blocks(xp: Any, t: Any, x: Any, lengths: tuple[int, int, int]) -> Any:
    """Multiply by blocks of b columns of the Toeplitz matrix, for sizes m, n, k.

    With l = P b + r and i = Q b + s, ``t[l + i]`` is element r, s of block P + Q.
    """
    m, n, k = lengths
    *batch, rows, _ = xp.shape_of(x)
    b = min(max(8, math.isqrt(m * max(k, 1) // 2)), max(m, n))
    outer, inner = -(-n // b), -(-m // b)
    blocks = _hankel_blocks(xp, t, b, outer + inner)
    pieces = xp.reshape(_pad(xp, x, inner * b, m), (*batch, rows, inner, b))
    # (*batch, 1, rows Q, s) times (*batch, K, s, r): all Q with all K.
    pieces = xp.reshape(xp.swapaxes(pieces, -2, -3), (*batch, 1, inner * rows, b))
    products = xp.matmul(pieces, blocks)
    products = xp.reshape(products, (*batch, outer + inner, inner, rows * b))
    products = xp.swapaxes(products, -2, -3)
    # Sum over Q of [Q, P + Q]: in rows longer by one, these are in one column.
    length = inner * (outer + inner)
    flat = xp.swapaxes(xp.reshape(products, (*batch, length, rows * b)), -1, -2)
    skewed = _pad(xp, flat, length + inner, length)
    skewed = xp.reshape(skewed, (*batch, rows * b, inner, outer + inner + 1))[..., :outer]
    y = reduce_in_dtype(xp, "sum", skewed, (len(batch) + 1,))
    y = xp.swapaxes(xp.reshape(y, (*batch, rows, b, outer)), -1, -2)
    return xp.reshape(y, (*batch, rows, outer * b))[..., :n]


def _hankel_blocks(xp: Any, t: Any, b: int, count: int) -> Any:
    """Return blocks (..., count, b, b); element r, s of block K is ``t[K b + r + s]``."""
    *batch, length = xp.shape_of(t)
    pieces = xp.reshape(_pad(xp, t, (count + 1) * b, length), (*batch, count + 1, b))
    pairs = xp.concatenate([pieces[..., :-1, :], pieces[..., 1:, :]], -1)
    # Repeated and read in rows longer by one, each row starts one element later.
    repeated_pairs = xp.broadcast_to(pairs[..., None, :], (*batch, count, b + 1, 2 * b))
    flat = xp.reshape(repeated_pairs, (*batch, count, 2 * b * (b + 1)))[..., : b * (2 * b + 1)]
    return xp.reshape(flat, (*batch, count, b, 2 * b + 1))[..., :b]


def _pad(xp: Any, x: Any, n: int, m: int) -> Any:
    """Append zeros to the last axis, of length m, up to length n."""
    *lead, _ = xp.shape_of(x)
    return xp.concatenate([x, xp.zeros((*lead, n - m), dtype_of(x))], -1) if n > m else x
