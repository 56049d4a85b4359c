"""Diagonal matrices: their diagonals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

from graphc.implicit.array import is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import Structured, is_scalar
from graphc.implicit.structures.fill import spread
from graphc.implicit.structures.one_hot import OneHot
from graphc.implicit.structures.segments import Entries
from graphc.implicit.structures.stacked import Stacked, keeps_zero, kept, one_of, refuse
from graphc.implicit.structures.zeros import BESIDE_ZEROS, Zeros
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name, is_inexact


@dataclass(frozen=True, repr=False)
class SquareDiagonal(Stacked):
    """The base of square diagonal matrices, however the diagonal is held.

    The zeros beside the diagonal make zeros of whatever they are multiplied by.
    """

    @property
    def entries(self) -> Any:
        """The diagonals, ``(*batch, n)``."""
        raise NotImplementedError

    def on_diagonal(self) -> Any:
        """The diagonals."""
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
        return self.made(self.xp.reciprocal)

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
            return Diagonal(self._taken(rows))
        # In row i the diagonal is at column i, if that is one of these.
        place = xp.arange(rows.start, rows.stop, rows.step) - columns.start
        hit = xp.equal(xp.remainder(place, columns.step), 0)
        place = xp.where(hit, xp.floor_divide(place, columns.step), -1)
        place = xp.broadcast_to(place, (*xp.shape_of(self.entries)[:-1], len(rows)))
        element = dtype_name(self.dtype)
        return OneHot(place, len(columns), self._taken(rows), element)

    def _taken(self, rows: range) -> Any:
        return self.xp.getitem(self.entries, (..., slice(rows.start, rows.stop, rows.step)))

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        n = self.matrix[1]
        if n is None:
            return NotImplemented
        taken = OneHot(index, n, xp.getitem(self.entries, index), dtype_name(self.dtype))
        return taken.materialize()

    def weighted(self, vector: Any, axis: int) -> Any:
        xp = numpy_like(self, vector)
        behind = 1 if axis >= self.ndim - 2 else self.ndim - 1 - axis
        return Diagonal(xp.multiply(self.entries, spread(xp, vector, behind)))

    def mapped(self, name: str) -> Any:
        return self.made(getattr(self.xp, name)) if keeps_zero(name) else NotImplemented

    def transformed(self, function: Callable[[Any], Any], keeps_zero: bool) -> Any:
        return self.made(function) if keeps_zero else NotImplemented

    def zipped(self, function: Callable[[Any, Any], Any], other: Any, keeps_zero: bool) -> Any:
        if not keeps_zero or not isinstance(other, SquareDiagonal):
            return NotImplemented
        return Diagonal(function(self.entries, other.entries))

    def against(self, function: Callable[[Any, Any], Any], other: Any) -> Any:
        diagonal = diagonal_of(numpy_like(self, other), other)
        if diagonal is NotImplemented:
            return NotImplemented
        return Diagonal(function(self.entries, diagonal))

    def placed(self) -> Entries:
        """The diagonal, and the places of its elements."""
        xp, entries = self.xp, self.entries
        places = xp.broadcast_to(xp.arange(xp.shape_of(entries)[-1]), xp.shape_of(entries))
        return entries, places, places

    def made(self, function: Any) -> Any:
        """The matrix of what a function that keeps zero makes of the elements."""
        return Diagonal(function(self.entries))

    def cast(self, dtype: Any) -> Any:
        xp = self.xp
        return self.made(lambda x: xp.cast(x, dtype))

    def scaled(self, c: Any) -> Any:
        xp = numpy_like(self, c)
        return self.made(lambda x: xp.multiply(x, c))

    def divided(self, c: Any) -> Any:
        if not is_inexact(str(self.dtype)):
            return NotImplemented
        xp = numpy_like(self, c)
        return self.made(lambda x: xp.divide(x, c))

    def added(self, other: Any) -> Any:
        xp = numpy_like(self, other)
        if isinstance(other, SquareDiagonal):
            return Diagonal(xp.add(self.entries, other.entries))
        if is_implicit(other):
            return NotImplemented
        sums = xp.add(other, xp.expand_dims(self.entries, -1))
        return xp.where(
            on_diagonal(xp, xp.shape_of(self.entries)[-1]), sums, xp.cast(other, dtype_of(sums))
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
        on = mask if is_scalar(mask) else diagonal_of(xp, mask)
        if on is NotImplemented or not isinstance(other, SquareDiagonal | Zeros):
            return NotImplemented
        entries = diagonal_of(xp, other)
        a, b = (self.entries, entries) if first else (entries, self.entries)
        return Diagonal(xp.where(on, a, b))

    def matrix_reduced(self, name: str, axes: tuple[int, ...]) -> Any:
        n, xp = self.matrix[0], self.xp
        if n is None and name != "sum":
            # Whether there are zeros in a row is not known.
            return NotImplemented
        y = self.entries if n == 1 else BESIDE_ZEROS[name](xp, self.entries)
        return kept(xp, name, y, (-1,)) if len(axes) == 2 else y

    def batch_summed(self, axes: tuple[int, ...]) -> Any:
        return self.made(lambda x: kept(self.xp, "sum", x, axes))


@dataclass(frozen=True, repr=False)
class Diagonal(SquareDiagonal):
    """A square matrix of zeros but on the diagonal, or a stack of such.

    Products scale rows or columns; products and sums of two are diagonal again, and so is the
    product with any array of the same shape, element by element. A part that is no such matrix, as
    some rows, is one-hot with weights.

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
        """Return the type of an input of shape ``(*batch, n, n)``."""
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
        # Shards of values are smaller diagonals than shards of rows are matrices.
        return {"values": (one_of(rows, columns),)}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        """The numbers of rows and columns, which are equal."""
        n = lengths_of(self.values)[-1]
        return n, n

    @property
    def dtype(self) -> Any:
        """The diagonal's."""
        return dtype_of(self.values)

    @property
    def entries(self) -> Any:
        """The diagonals."""
        return self.values

    def materialize(self) -> Any:
        xp = self.xp
        values = xp.expand_dims(self.values, -1)
        hits = on_diagonal(xp, xp.shape_of(self.values)[-1])
        return xp.where(hits, values, xp.zeros_like(values))


def on_diagonal(xp: Any, n: Any) -> Any:
    """Where the diagonal of n rows and columns is."""
    places = xp.arange(n)
    return xp.equal(xp.expand_dims(places, -1), places)


@runtime_checkable
class WithDiagonal(Protocol):
    """A structure that can say what is on the diagonal."""

    def on_diagonal(self) -> Any:
        """The elements at (i, i) of each matrix."""


def diagonal_of(xp: Any, x: Any) -> Any:
    """The diagonals of an array of square matrices, where it is whole or says what they are."""
    if not is_implicit(x):
        return xp.diagonal(x, 0, -2, -1)
    return x.on_diagonal() if isinstance(x, WithDiagonal) else NotImplemented
