"""Diagonal matrices, stored as their diagonals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from graphc.implicit.array import is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import Structured, is_scalar
from graphc.implicit.structures.fill import append_axes
from graphc.implicit.structures.one_hot import OneHot
from graphc.implicit.structures.segments import Entries
from graphc.implicit.structures.stacked import (
    Stacked,
    as_slice,
    joint_spec,
    keeps_zero,
    reduce_in_dtype,
    refuse,
)
from graphc.implicit.structures.zeros import BESIDE_ZEROS, Zeros
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name


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
        """Return the diagonals."""
        return self.entries

    def diagonal(self, offset: int) -> Any:
        return NotImplemented if offset else self.entries

    def times(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        if isinstance(x, SquareDiagonal):
            return Diagonal(xp.multiply(x.entries, self.entries))
        if not is_implicit(x):
            return xp.multiply(x, xp.expand_dims(self.entries, -2))
        if self.ndim == 2 and isinstance(x, Structured):
            return x.weighted(self.entries, 1)
        return NotImplemented

    def solved(self, b: Any) -> Any:
        return numpy_like(self, b).divide(b, self.xp.expand_dims(self.entries, -1))

    def inverted(self) -> Any:
        return self.map_entries(self.xp.reciprocal)

    def slogdet(self) -> Any:
        xp, entries = self.xp, self.entries
        return xp.prod(xp.sign(entries), -1), xp.sum(xp.log(xp.abs(entries)), -1)

    def det(self) -> Any:
        return self.xp.prod(self.entries, -1)

    def swapped(self) -> Any:
        return self

    def window(self, rows: range, columns: range) -> Any:
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

    def weighted(self, vector: Any, axis: int) -> Any:
        xp = numpy_like(self, vector)
        ndim = 1 if axis >= self.ndim - 2 else self.ndim - 1 - axis
        return Diagonal(xp.multiply(self.entries, append_axes(xp, vector, ndim)))

    def mapped(self, name: str) -> Any:
        return self.map_entries(getattr(self.xp, name)) if keeps_zero(name) else NotImplemented

    def transformed(self, function: Callable[[Any], Any], keeps_zero: bool) -> Any:
        return self.map_entries(function) if keeps_zero else NotImplemented

    def zipped(self, function: Callable[[Any, Any], Any], other: Any, keeps_zero: bool) -> Any:
        if not keeps_zero or not isinstance(other, SquareDiagonal):
            return NotImplemented
        return Diagonal(function(self.entries, other.entries))

    def against(self, function: Callable[[Any, Any], Any], other: Any) -> Any:
        diagonal = diagonal_of(numpy_like(self, other), other)
        if diagonal is NotImplemented:
            return NotImplemented
        return Diagonal(function(self.entries, diagonal))

    def to_entries(self) -> Entries:
        """Return the elements of the diagonal with their rows and columns."""
        xp, entries = self.xp, self.entries
        indices = xp.broadcast_to(xp.arange(xp.shape_of(entries)[-1]), xp.shape_of(entries))
        return entries, indices, indices

    def map_entries(self, function: Any) -> Any:
        """Apply a function with ``f(0) = 0`` to the elements."""
        return Diagonal(function(self.entries))

    def cast(self, dtype: Any) -> Any:
        xp = self.xp
        return self.map_entries(lambda x: xp.cast(x, dtype))

    def scale_with(self, xp: Any, function: Callable[[Any], Any]) -> Any:
        return self.map_entries(function)

    def added(self, other: Any) -> Any:
        xp = numpy_like(self, other)
        if isinstance(other, SquareDiagonal):
            return Diagonal(xp.add(self.entries, other.entries))
        if is_implicit(other):
            return NotImplemented
        sums = xp.add(other, xp.expand_dims(self.entries, -1))
        return xp.where(
            diagonal_mask(xp, xp.shape_of(self.entries)[-1]), sums, xp.cast(other, dtype_of(sums))
        )

    def multiplied(self, other: Any) -> Any:
        xp = numpy_like(self, other)
        diagonal = diagonal_of(xp, other)
        if diagonal is NotImplemented:
            return NotImplemented
        return Diagonal(xp.multiply(self.entries, diagonal))

    def chosen(self, mask: Any, other: Any, first: bool) -> Any:
        xp = numpy_like(self, mask, other)
        if is_scalar(mask) and type(other) is type(self):
            return super().chosen(mask, other, first)
        mask_entries = mask if is_scalar(mask) else diagonal_of(xp, mask)
        if mask_entries is NotImplemented or not isinstance(other, SquareDiagonal | Zeros):
            return NotImplemented
        entries = diagonal_of(xp, other)
        a, b = (self.entries, entries) if first else (entries, self.entries)
        return Diagonal(xp.where(mask_entries, a, b))

    def reduce_matrix(self, name: str, axes: tuple[int, ...]) -> Any:
        n, xp = self.matrix[0], self.xp
        if n is None and name != "sum":
            return NotImplemented  # a row has zeros if n > 1
        y = self.entries if n == 1 else BESIDE_ZEROS[name](xp, self.entries)
        return reduce_in_dtype(xp, name, y, (-1,)) if len(axes) == 2 else y

    def sum_batch(self, axes: tuple[int, ...]) -> Any:
        return self.map_entries(lambda x: reduce_in_dtype(self.xp, "sum", x, axes))


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
            raise refuse(
                f"{cls.__name__}.spec({tuple(shape)}): {m} rows and {n} columns.",
                "Give the lengths of a square matrix.",
            )
        return cls(TensorType(dtype, (*batch, n)))

    def check(self) -> None:
        if not lengths_of(self.values):
            raise refuse("Diagonal of a number.", "Give a vector, or a stack of vectors.")

    def own_axes(self) -> Mapping[str, int]:
        return {"values": 1}

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        # A shard of values is a smaller matrix than a shard of rows.
        return {"values": (joint_spec(rows, columns),)}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        """The numbers of rows and columns, which are equal."""
        n = lengths_of(self.values)[-1]
        return n, n

    @property
    def dtype(self) -> Any:
        """The dtype of the diagonal."""
        return dtype_of(self.values)

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


@runtime_checkable
class WithDiagonal(Protocol):
    """A structure that has a method for its diagonal."""

    def on_diagonal(self) -> Any:
        """Return the elements at (i, i) of each matrix."""


def diagonal_of(xp: Any, x: Any) -> Any:
    """Return the diagonals of square matrices, dense or ``WithDiagonal``, else NotImplemented."""
    if not is_implicit(x):
        return xp.diagonal(x, 0, -2, -1)
    return x.on_diagonal() if isinstance(x, WithDiagonal) else NotImplemented
