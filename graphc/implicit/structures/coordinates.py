"""Sparse matrices by the coordinates of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from graphc.implicit.array import aux_field
from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.segments import Entries, cleaned, within
from graphc.implicit.structures.sparse import Sparse, stored_count
from graphc.implicit.structures.stacked import refuse
from graphc.implicit.treedef import lengths_of
from graphc.ir import TensorType, dtype_name


@dataclass(frozen=True, repr=False)
class BCOO(Sparse):
    """A sparse matrix by the row and column of each value: coordinates, in any order.

    The layout of ``jax.experimental.sparse.BCOO`` with two sparse axes. Values with a row or
    column out of range are left out; of NumPy's arrays, one length behind the last is meant so, and
    anything else is an error.

    Args:
        data: The values, (..., nse), of any dtype.
        indices: Row and column of each, integers (..., nse, 2).
        lengths: The numbers of rows and columns.
        unique: No element is stored twice.

    Raises:
        ImplicitArrayError: Fields that do not fit each other.
        BoundsError: A place that is not in a matrix of these lengths.

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
        """The types of its fields, given how many values are stored.

        Raises:
            ImplicitArrayError: It is not given.

        Example:
            >>> BCOO.spec((4, 3), "float32", nse=5)
            BCOO(float32[5], int32[5, 2], lengths=(4, 3), unique=False)
        """
        *batch, m, n = shape
        count = stored_count(cls, shape, nse)
        places = TensorType(options.pop("index_dtype", "int32"), (*batch, count, 2))
        return cls(TensorType(dtype_name(dtype), (*batch, count)), places, (m, n), **options)

    @classmethod
    def from_scipy(cls, x: Any) -> Self:
        """A matrix of ``scipy.sparse``, in any of its formats.

        Example:
            >>> import scipy.sparse
            >>> BCOO.from_scipy(scipy.sparse.eye_array(3, format="csr")).nse
            3
        """
        x = x.tocoo()
        indices = np.stack([x.row, x.col], -1)
        return cls(x.data, indices, x.shape, bool(x.has_canonical_format))

    def to_scipy(self) -> Any:
        """``scipy.sparse.coo_array`` of fields that are arrays, not symbolic, without stack.

        Raises:
            ImplicitArrayError: A stack of matrices.
        """
        import scipy.sparse

        if self.ndim != 2:
            raise refuse(f"{self!r} is a stack, SciPy's are single.", "Convert each, x[i].")
        data, rows, columns = [np.asarray(part) for part in self.entries()]
        inside = rows < self.lengths[0]
        places = rows[inside], columns[inside]
        return scipy.sparse.coo_array((data[inside], places), shape=self.lengths)

    @classmethod
    def from_jax(cls, x: Any) -> Self:
        """A ``jax.experimental.sparse.BCOO`` of two sparse axes, all others in front.

        Raises:
            ImplicitArrayError: It has dense axes, or other than two sparse ones.
        """
        if x.n_dense or x.n_sparse != 2:
            raise refuse(
                f"BCOO.from_jax: {x.n_sparse} sparse and {x.n_dense} dense axes.",
                "Use bcoo_update_layout(x, n_batch=x.ndim - 2, n_dense=0).",
            )
        xp = numpy_like(x.data)
        batch = x.shape[:-2]  # its fields may have axes of length 1 instead
        data = xp.broadcast_to(x.data, (*batch, x.nse))
        indices = xp.broadcast_to(x.indices, (*batch, x.nse, 2))
        return cls(data, indices, tuple(x.shape[-2:]), bool(x.unique_indices))

    def to_jax(self) -> Any:
        """Convert to ``jax.experimental.sparse.BCOO``."""
        return jax_arrays().bcoo(self.data, self.indices, self.shape, self.unique)

    def own_axes(self) -> Mapping[str, int]:
        return {"data": 1, "indices": 2}

    def check_places(self) -> None:
        if lengths_of(self.indices)[-1] not in {None, 2}:
            raise refuse(
                f"BCOO: indices of shape {lengths_of(self.indices)}.",
                "The last axis has a row and a column.",
            )
        if isinstance(self.indices, np.ndarray):
            for axis, n in enumerate(self.lengths):
                within("BCOO", f"indices[..., {axis}]", self.indices[..., axis], n)

    def entries(self) -> Entries:
        return cleaned(self.data, self.indices[..., 0], self.indices[..., 1], self.lengths)

    def by_coordinates(self, entries: Entries, lengths: tuple[int, int], unique: bool) -> Any:
        return assembled(entries, lengths, unique)

    def swapped(self) -> Any:
        m, n = self.lengths
        indices = self.xp.flip(self.indices, -1)
        return BCOO(self.data, indices, (n, m), self.unique)


def assembled(entries: Entries, lengths: tuple[int, int], unique: bool) -> BCOO:
    """A matrix of values at rows and columns."""
    data, rows, columns = entries
    indices = numpy_like(data, rows, columns).stack([rows, columns], -1)
    return BCOO(data, indices, lengths, unique)
