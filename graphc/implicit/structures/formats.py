"""Sparse matrices by format: coordinates, compressed rows and compressed columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from graphc.errors import BoundsError, ImplicitArrayError
from graphc.implicit.array import aux_field
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.entries import (
    Entries,
    as_indices,
    check_range,
    mark_outside,
    segment_sum,
)
from graphc.implicit.structures.sparse import Sparse
from graphc.implicit.treedef import lengths_of


@dataclass(frozen=True, repr=False)
class BCOO(Sparse):
    """A sparse matrix in coordinate format: the row and column of each value, in any order.

    The layout equals ``jax.experimental.sparse.BCOO`` with two sparse axes. Values with a row
    or column out of range are ignored; in NumPy arrays, only an index equal to the length marks
    an ignored value, and any other index out of range is an error.

    Args:
        data: The values, (..., nse), of any dtype.
        indices: Row and column of each value, integers (..., nse, 2).
        lengths: The numbers of rows and columns.
        unique: Whether no element is stored twice.

    Raises:
        ImplicitArrayError: If the fields do not fit each other.
        BoundsError: If an index is outside of the matrix.

    Example:
        >>> w = BCOO(np.array([1.0, 2.0, 3.0]), np.array([[0, 1], [1, 2], [0, 1]]), (2, 3))
        >>> np.asarray(w).tolist()
        [[0.0, 4.0, 0.0], [0.0, 0.0, 2.0]]
        >>> (w @ np.ones((3, 1))).tolist()
        [[4.0], [2.0]]
    """

    data: Any
    indices: Any
    lengths: tuple[int, int] = aux_field()
    unique: bool = aux_field(default=False)

    @classmethod
    def index_lengths(cls, nse: int, lengths: tuple[int, int]) -> list[tuple[int, ...]]:
        return [(nse, 2)]

    @classmethod
    def from_scipy(cls, x: Any) -> Self:
        """Convert a matrix of ``scipy.sparse``, in any of its formats.

        Example:
            >>> import scipy.sparse
            >>> BCOO.from_scipy(scipy.sparse.eye_array(3, format="csr")).nse
            3
        """
        x = x.tocoo()
        indices = np.stack([x.row, x.col], -1)
        return cls(x.data, indices, x.shape, bool(x.has_canonical_format))

    def to_scipy(self) -> Any:
        """Convert a single matrix, not symbolic, to ``scipy.sparse.coo_array``.

        Raises:
            ImplicitArrayError: If this array is a stack of matrices.
        """
        import scipy.sparse

        if self.ndim != 2:
            raise ImplicitArrayError(
                f"{self!r} is a stack, SciPy's are single.", "Convert each, x[i]."
            )
        data, rows, columns = [np.asarray(part) for part in self.entries()]
        inside = rows < self.lengths[0]
        indices = rows[inside], columns[inside]
        return scipy.sparse.coo_array((data[inside], indices), shape=self.lengths)

    @classmethod
    def from_jax(cls, x: Any) -> Self:
        """Convert a ``jax.experimental.sparse.BCOO`` with two sparse axes behind batch axes.

        Raises:
            ImplicitArrayError: If ``x`` has dense axes, or not two sparse axes.
        """
        if x.n_dense or x.n_sparse != 2:
            raise ImplicitArrayError(
                f"BCOO.from_jax: {x.n_sparse} sparse and {x.n_dense} dense axes.",
                "Use bcoo_update_layout(x, n_batch=x.ndim - 2, n_dense=0).",
            )
        xp = numpy_like(x.data)
        batch = x.shape[:-2]  # fields may have axes of length 1 here
        data = xp.broadcast_to(x.data, (*batch, x.nse))
        indices = xp.broadcast_to(x.indices, (*batch, x.nse, 2))
        return cls(data, indices, tuple(x.shape[-2:]), bool(x.unique_indices))

    def to_jax(self) -> Any:
        """Convert to ``jax.experimental.sparse.BCOO``."""
        return jax_arrays().bcoo(self.data, self.indices, self.shape, self.unique)

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"data": (None,), "indices": (None, None)}

    def check_indices(self) -> None:
        if lengths_of(self.indices)[-1] not in {None, 2}:
            raise ImplicitArrayError(
                f"BCOO: indices of shape {lengths_of(self.indices)}.",
                "The last axis has a row and a column.",
            )
        if isinstance(self.indices, np.ndarray):
            for axis, n in enumerate(self.lengths):
                check_range("BCOO", f"indices[..., {axis}]", self.indices[..., axis], n)

    def entries(self) -> Entries:
        return mark_outside(self.data, self.indices[..., 0], self.indices[..., 1], self.lengths)

    def with_entries(self, entries: Entries, lengths: tuple[int, int], unique: bool) -> Any:
        return bcoo_from_entries(entries, lengths, unique)

    def matrix_transpose(self) -> Any:
        m, n = self.lengths
        indices = self.xp.flip(self.indices, -1)
        return BCOO(self.data, indices, (n, m), self.unique)


def bcoo_from_entries(entries: Entries, lengths: tuple[int, int], unique: bool) -> BCOO:
    data, rows, columns = entries
    indices = numpy_like(data, rows, columns).stack([rows, columns], -1)
    return BCOO(data, indices, lengths, unique)


@dataclass(frozen=True, repr=False)
class Compressed(Sparse):
    """The base of compressed rows and compressed columns.

    Attributes:
        axis: The axis by which values are ordered: 0 for rows, 1 for columns.
        scipy: The name of SciPy's class.
    """

    data: Any
    indices: Any
    indptr: Any
    lengths: tuple[int, int] = aux_field()
    unique: bool = aux_field(default=False)

    axis: ClassVar[int]
    scipy: ClassVar[str]

    @classmethod
    def index_lengths(cls, nse: int, lengths: tuple[int, int]) -> list[tuple[int, ...]]:
        return [(nse,), (lengths[cls.axis] + 1,)]

    @classmethod
    def from_scipy(cls, x: Any) -> Self:
        """Convert a matrix of ``scipy.sparse``, in any of its formats.

        Example:
            >>> import scipy.sparse
            >>> CSR.from_scipy(scipy.sparse.eye_array(3)).indptr.tolist()
            [0, 1, 2, 3]
        """
        x = x.tocsr() if cls.axis == 0 else x.tocsc()
        return cls(x.data, x.indices, x.indptr, x.shape, bool(x.has_canonical_format))

    def to_scipy(self) -> Any:
        """Convert a single matrix, not symbolic, to SciPy's array of the same format.

        Raises:
            ImplicitArrayError: If this array is a stack of matrices.
        """
        import scipy.sparse

        if self.ndim != 2:
            raise ImplicitArrayError(
                f"{self!r} is a stack, SciPy's are single.", "Convert each, x[i]."
            )
        cls = getattr(scipy.sparse, self.scipy)
        indptr = np.asarray(self.indptr)
        stored = int(indptr[-1])
        fields = [np.asarray(x)[:stored] for x in (self.data, self.indices)]
        return cls((*fields, indptr), shape=self.lengths)

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"data": (None,), "indices": (None,), "indptr": (None,)}

    def check_indices(self) -> None:
        name, count = type(self).__name__, self.lengths[self.axis]
        if lengths_of(self.indptr)[-1] not in {None, count + 1}:
            raise ImplicitArrayError(
                f"{name}: indptr of shape {lengths_of(self.indptr)}, lengths {self.lengths}.",
                f"Its length is one more than {count}.",
            )
        check_range(name, "indices", self.indices, self.lengths[1 - self.axis])
        if isinstance(self.indptr, np.ndarray) and self.indptr.size:
            self._check_order(name)

    def _check_order(self, name: str) -> None:
        first, last = int(self.indptr[..., 0].max()), int(self.indptr[..., -1].max())
        begins = first == 0 == int(self.indptr[..., 0].min())
        grows = not bool((np.diff(self.indptr.astype(np.int64)) < 0).any())
        if not begins or not grows or (self.nse is not None and last > self.nse):
            raise BoundsError(
                f"{name}: indptr from {first} to {last}, with {self.nse} values.",
                "Let indptr start at 0, never decrease, and end with nse at most.",
            )

    def entries(self) -> Entries:
        xp = self.xp
        stored = xp.shape_of(self.indices)[-1]
        ends = as_indices(xp, self.indptr)[..., 1:]
        # The row of a value is the number of rows that end before it.
        ends_at = segment_sum(xp, xp.ones_like(ends)[..., None], ends, stored)[..., 0]
        major, minor = xp.cumsum(ends_at, -1), self.indices
        pair = (major, minor) if self.axis == 0 else (minor, major)
        return mark_outside(self.data, *pair, self.lengths)

    def with_entries(self, entries: Entries, lengths: tuple[int, int], unique: bool) -> Any:
        return bcoo_from_entries(entries, lengths, unique)


@dataclass(frozen=True, repr=False)
class CSR(Compressed):
    """A sparse matrix in compressed rows: the columns and values of one row after the other.

    Row i has values ``data[indptr[i] : indptr[i + 1]]`` in the columns ``indices`` at the same
    positions, as in ``scipy.sparse.csr_array``. Elements behind ``indptr[-1]`` are ignored.

    Args:
        data: The values, (..., nse), of any dtype.
        indices: The column of each value, integers (..., nse).
        indptr: The start of each row, and the end of the last, integers (..., m + 1).
        lengths: The numbers of rows and columns, (m, n).
        unique: Whether no element is stored twice.

    Raises:
        ImplicitArrayError: If the fields do not fit each other.
        BoundsError: If a column is outside of the matrix, or ``indptr`` is not in order.

    Example:
        >>> w = CSR(np.array([1.0, 2.0, 3.0]), np.array([1, 0, 2]), np.array([0, 1, 3]), (2, 3))
        >>> np.asarray(w).tolist()
        [[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]]
        >>> w.T
        CSC(float64[3], int64[3], int64[3], lengths=(3, 2), unique=False)
    """

    axis: ClassVar[int] = 0
    scipy: ClassVar[str] = "csr_array"

    def matrix_transpose(self) -> Any:
        m, n = self.lengths
        return CSC(self.data, self.indices, self.indptr, (n, m), self.unique)


@dataclass(frozen=True, repr=False)
class CSC(Compressed):
    """A sparse matrix in compressed columns: the transpose of a ``CSR``.

    Args:
        data: The values, (..., nse), of any dtype.
        indices: The row of each value, integers (..., nse).
        indptr: The start of each column, and the end of the last, integers (..., n + 1).
        lengths: The numbers of rows and columns, (m, n).
        unique: Whether no element is stored twice.

    Raises:
        ImplicitArrayError: If the fields do not fit each other.
        BoundsError: If a row is outside of the matrix, or ``indptr`` is not in order.

    Example:
        >>> import scipy.sparse
        >>> w = CSC.from_scipy(scipy.sparse.csc_array([[0.0, 1.0], [2.0, 0.0]]))
        >>> (w @ np.array([[1.0], [10.0]])).tolist()
        [[10.0], [2.0]]
    """

    axis: ClassVar[int] = 1
    scipy: ClassVar[str] = "csc_array"

    def matrix_transpose(self) -> Any:
        m, n = self.lengths
        return CSR(self.data, self.indices, self.indptr, (n, m), self.unique)
