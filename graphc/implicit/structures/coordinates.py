"""Sparse matrices in coordinate format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import aux_field
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.entries import Entries, check_range, mark_outside
from graphc.implicit.structures.sparse import Sparse, check_nse
from graphc.implicit.treedef import lengths_of
from graphc.ir import TensorType, dtype_name


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
    def spec(cls, shape: Any, dtype: Any, nse: int | None = None, **options: Any) -> Any:
        """Return a type with ``nse`` stored values.

        Raises:
            ImplicitArrayError: If ``nse`` is missing.

        Example:
            >>> BCOO.spec((4, 3), "float32", nse=5)
            BCOO(float32[5], int32[5, 2], lengths=(4, 3), unique=False)
        """
        *batch, m, n = shape
        nse = check_nse(cls, shape, nse)
        indices = TensorType(options.pop("index_dtype", "int32"), (*batch, nse, 2))
        return cls(TensorType(dtype_name(dtype), (*batch, nse)), indices, (m, n), **options)

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

    def own_axes(self) -> Mapping[str, int]:
        return {"data": 1, "indices": 2}

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
