"""Diagonal matrices, stored as their diagonals, and multiples of the identity, as one number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from graphc.config import config
from graphc.errors import ImplicitArrayError
from graphc.implicit.array import aux_field, is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import ElementwiseFunction, Structured, scaling
from graphc.implicit.structures.entries import Entries
from graphc.implicit.structures.fill import append_axes
from graphc.implicit.structures.one_hot import OneHot
from graphc.implicit.structures.stacked import (
    Stacked,
    as_slice,
    joint_spec,
    reduce_in_dtype,
)
from graphc.implicit.structures.zeros import BESIDE_ZEROS, Zeros
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name, numpy_dtype


@dataclass(frozen=True, repr=False)
class SquareDiagonal(Stacked):
    """The base of square diagonal matrices, however the diagonal is stored.

    Zeros off the diagonal stay zero in every product, also with infinities and NaN.
    """

    @property
    def entries(self) -> Any:
        """The diagonals, ``(*batch, n)``."""
        raise NotImplementedError

    def on_diagonal(self) -> Any:
        return self.entries

    def rmatmul(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        if isinstance(x, SquareDiagonal):
            return Diagonal(xp.multiply(x.entries, self.entries))
        if not is_implicit(x):
            return xp.multiply(x, xp.expand_dims(self.entries, -2))
        if self.ndim == 2 and isinstance(x, Structured):
            return x.scale_along(self.entries, 1)
        return NotImplemented

    def solve(self, b: Any) -> Any:
        return numpy_like(self, b).divide(b, self.xp.expand_dims(self.entries, -1))

    def inverse(self) -> Any:
        return self.map_entries(self.xp.reciprocal)

    def slogdet(self) -> Any:
        xp, entries = self.xp, self.entries
        return xp.prod(xp.sign(entries), -1), xp.sum(xp.log(xp.abs(entries)), -1)

    def det(self) -> Any:
        return self.xp.prod(self.entries, -1)

    def matrix_transpose(self) -> Any:
        return self

    def matrix_window(self, rows: range, columns: range) -> Any:
        xp = self.xp
        if rows == columns:
            return Diagonal(self._slice_entries(rows))
        # Row i has its element in column i, if the window includes that column.
        column = xp.arange(rows.start, rows.stop, rows.step) - columns.start
        is_inside = xp.equal(xp.remainder(column, columns.step), 0)
        column = xp.where(is_inside, xp.floor_divide(column, columns.step), -1)
        column = xp.broadcast_to(column, (*xp.shape_of(self.entries)[:-1], len(rows)))
        element = dtype_name(self.dtype)
        return OneHot(column, len(columns), self._slice_entries(rows), element)

    def _slice_entries(self, rows: range) -> Any:
        return self.xp.getitem(self.entries, (..., as_slice(rows)))

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        n = self.matrix[1]
        if n is None:
            return NotImplemented
        rows = OneHot(index, n, xp.getitem(self.entries, index), dtype_name(self.dtype))
        return rows.materialize()

    def scale_along(self, vector: Any, axis: int) -> Any:
        xp = numpy_like(self, vector)
        ndim = 1 if axis >= self.ndim - 2 else self.ndim - 1 - axis
        return Diagonal(xp.multiply(self.entries, append_axes(xp, vector, ndim)))

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if not others:
            return self.map_entries(f) if f.keeps_zero else NotImplemented
        xp = numpy_like(self, *others)
        if f.keeps_zero and all(_is_diagonal(x, f) for x in f.partners(others)):
            diagonals = [diagonal_of(xp, x) for x in others]
            if any(x is NotImplemented for x in diagonals):
                return NotImplemented
            return Diagonal(f(self.entries, *diagonals))
        if f.name != "add" or is_implicit(others[0]):
            return NotImplemented
        sums = f(others[0], xp.expand_dims(self.entries, -1))
        mask = diagonal_mask(xp, xp.shape_of(self.entries)[-1])
        return xp.where(mask, sums, xp.cast(others[0], dtype_of(sums)))

    def to_entries(self) -> Entries:
        """Return the elements of the diagonal with their rows and columns."""
        xp, entries = self.xp, self.entries
        indices = xp.broadcast_to(xp.arange(xp.shape_of(entries)[-1]), xp.shape_of(entries))
        return entries, indices, indices

    def map_entries(self, function: Any) -> Any:
        """Apply a function with ``f(0) = 0`` to the elements."""
        return Diagonal(function(self.entries))

    def reduce_matrix(self, name: str, axes: tuple[int, ...]) -> Any:
        n, xp = self.matrix[0], self.xp
        if n is None and name != "sum":
            return NotImplemented  # a row has zeros if n > 1
        y = self.entries if n == 1 else BESIDE_ZEROS[name](xp, self.entries)
        return reduce_in_dtype(xp, name, y, (-1,)) if len(axes) == 2 else y

    def sum_batch(self, axes: tuple[int, ...]) -> Any:
        return self.map_entries(lambda x: reduce_in_dtype(self.xp, "sum", x, axes))


def _is_diagonal(x: Any, f: ElementwiseFunction) -> bool:
    # The sum with zeros is this array itself.
    return isinstance(x, SquareDiagonal) or (isinstance(x, Zeros) and f.name != "add")


@dataclass(frozen=True, repr=False)
class Diagonal(SquareDiagonal):
    """A square matrix that is zero off the diagonal, or a stack of such matrices.

    Products scale rows or columns. Products and sums of two diagonal matrices are diagonal, and so
    is the elementwise product with any array. A part that is not diagonal, such as some rows, is
    one-hot with weights.

    Attributes:
        values: The diagonals, ``(*batch, n)``.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Diagonal
        >>> d = Diagonal(np.array([1.0, 2.0, 3.0]))
        >>> np.ones((1, 3)) @ d
        array([[1., 2., 3.]])
        >>> d @ d + d, (d @ d).sum()
        (Diagonal(float64[3]), np.float64(14.0))
    """

    values: Any

    @classmethod
    def spec(cls, shape: Any, dtype: Any) -> Self:  # type: ignore[override]
        """Return the type of an input of shape ``(*batch, n, n)``.

        Raises:
            ImplicitArrayError: If the last two lengths differ.
        """
        *batch, m, n = shape
        if m != n:
            raise ImplicitArrayError(
                f"{cls.__name__}.spec({tuple(shape)}): {m} rows and {n} columns.",
                "Give the lengths of a square matrix.",
            )
        return cls(TensorType(dtype, (*batch, n)))

    def check(self) -> None:
        if not lengths_of(self.values):
            raise ImplicitArrayError(
                "Diagonal of a number.", "Give a vector, or a stack of vectors."
            )

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        # A shard of values is a smaller matrix than a shard of rows.
        return {"values": (joint_spec(rows, columns),)}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        n = lengths_of(self.values)[-1]
        return n, n

    @property
    def entries(self) -> Any:
        """The diagonals."""
        return self.values

    def materialize(self) -> Any:
        xp = self.xp
        values = xp.expand_dims(self.values, -1)
        mask = diagonal_mask(xp, xp.shape_of(self.values)[-1])
        return xp.where(mask, values, xp.zeros_like(values))


def diagonal_mask(xp: Any, n: Any) -> Any:
    """Return a boolean matrix ``(n, n)`` that is true on the diagonal."""
    indices = xp.arange(n)
    return xp.equal(xp.expand_dims(indices, -1), indices)


def diagonal_of(xp: Any, x: Any) -> Any:
    """Return the diagonals of square matrices, dense or structured, else NotImplemented."""
    if not is_implicit(x):
        return xp.diagonal(x, 0, -2, -1)
    return x.on_diagonal() if isinstance(x, Structured) else NotImplemented


@dataclass(frozen=True, repr=False)
class Identity(SquareDiagonal):
    """A multiple of the identity matrix, or a stack of such matrices.

    A product multiplies the other operand by the number. Sums, products and parts that are no
    multiples of the identity are ``Diagonal`` or one-hot.

    Attributes:
        scale: The number on the diagonal, ``(*batch,)``.
        n: The number of rows and columns.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Identity
        >>> i = Identity.of(3)
        >>> i @ (i + i), (i * 2.0) @ np.array([1.0, 2.0, 3.0])
        (Identity(float64[], n=3), array([2., 4., 6.]))
    """

    scale: Any
    n: int = aux_field()

    @classmethod
    def of(cls, n: int, dtype: Any = None) -> Self:
        """Return the identity matrix, by default of dtype ``config.floatX``.

        Example:
            >>> np.asarray(Identity.of(2, "int64")).tolist()
            [[1, 0], [0, 1]]
        """
        dtype = numpy_dtype(dtype_name(config.floatX if dtype is None else dtype))
        return cls(np.ones((), dtype), n)

    @classmethod
    def spec(cls, shape: Any, dtype: Any) -> Self:  # type: ignore[override]
        """Return the type of an input of shape ``(*batch, n, n)`` with known n.

        Raises:
            ImplicitArrayError: If the last two lengths differ or are unknown.
        """
        *batch, m, n = shape
        if m != n or n is None:
            raise ImplicitArrayError(
                f"Identity.spec({tuple(shape)}): {m} rows and {n} columns.",
                "Give the lengths of a square matrix, which are part of its type.",
            )
        return cls(TensorType(dtype, tuple(batch)), n)

    def check(self) -> None:
        if not isinstance(self.n, int | np.integer) or self.n < 0:
            raise ImplicitArrayError(f"Identity of {self.n!r} rows.", "Give an integer from 0 on.")

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"scale": ()}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        return self.n, self.n

    @property
    def entries(self) -> Any:
        xp = self.xp
        return xp.broadcast_to(xp.expand_dims(self.scale, -1), (*xp.shape_of(self.scale), self.n))

    def materialize(self) -> Any:
        xp = self.xp
        scale = append_axes(xp, self.scale, self.ndim)
        return xp.where(diagonal_mask(xp, self.n), scale, xp.zeros_like(scale))

    def map_entries(self, function: Any) -> Any:
        return Identity(function(self.scale), self.n)

    def rmatmul(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        if isinstance(x, Identity):
            return Identity(xp.multiply(x.scale, self.scale), self.n)
        if not is_implicit(x):
            return xp.multiply(x, append_axes(xp, self.scale, self.ndim))
        if self.ndim == 2 and isinstance(x, Structured):
            return x.elementwise(scaling(self.scale))
        return super().rmatmul(x)

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if f.keeps_zero and all(isinstance(x, Identity) for x in others):
            return Identity(f(self.scale, *[x.scale for x in others]), self.n)
        return super().elementwise(f, *others)
