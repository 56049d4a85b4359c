"""Sparse matrices: the elements that may differ from zero, and their indices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, starmap
from typing import Any, Protocol, runtime_checkable

import numpy as np

from graphc.errors import ImplicitArrayError, MaterializeError
from graphc.implicit.array import ImplicitArray, fields_of, with_fields
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import ElementwiseFunction
from graphc.implicit.structures.entries import (
    Entries,
    all_true,
    coalesce,
    extreme,
    extreme_along,
    find_duplicate,
    largest_index,
    look_up,
    mark_outside,
    segment_sum,
    take_rows,
    union,
)
from graphc.implicit.structures.low_rank import LowRank
from graphc.implicit.structures.one_hot import OneHot
from graphc.implicit.structures.sparse_product import multiply_sparse
from graphc.implicit.structures.stacked import (
    Stacked,
    joint_dtype,
    product,
    reduce_in_dtype,
)
from graphc.implicit.treedef import dtype_of, lengths_of, shapes_fit
from graphc.ir import TensorType, dtype_name, is_inexact
from graphc.tensor.arrays.diagonal import diagonal_length

MAX_SMALL_TEMPORARY = 2**16
"""Temporaries of at most this number of elements are not worth avoiding."""


@dataclass(frozen=True, repr=False)
class Sparse(Stacked):
    """Matrices that store some elements; all others are zero.

    The base of ``CSR``, ``CSC`` and ``BCOO``. An element may be stored several times; the values
    add up. Zeros that are not stored stay zero in every product, also with infinities and NaN. A
    product with k columns gathers k numbers for each stored element, and adds them up.

    Attributes:
        data: The stored values, (..., nse).
        lengths: The numbers of rows and columns of a matrix.
        unique: Whether no element is stored twice. Then functions such as ``abs``, and extremes,
            use the stored values as they are; otherwise duplicates are summed first.
    """

    @classmethod
    def spec(cls, shape: Any, dtype: Any, nse: int | None = None, **options: Any) -> Any:
        """Return a type with ``nse`` stored values.

        Raises:
            ImplicitArrayError: If ``nse`` is missing.

        Example:
            >>> from graphc.implicit import BCOO, CSR
            >>> BCOO.spec((4, 3), "float32", nse=5)
            BCOO(float32[5], int32[5, 2], lengths=(4, 3), unique=False)
            >>> CSR.spec((4, 3), "float32", nse=5)
            CSR(float32[5], int32[5], int32[5], lengths=(4, 3), unique=False)
        """
        *batch, m, n = shape
        if nse is None:
            raise ImplicitArrayError(
                f"{cls.__name__} of shape {tuple(shape)} without nse.",
                "Give nse=, how many values each matrix stores.",
            )
        index = options.pop("index_dtype", "int32")
        own = cls.index_lengths(nse, (m, n))
        indices = [TensorType(index, (*batch, *lengths)) for lengths in own]
        build: Any = cls
        data = TensorType(dtype_name(dtype), (*batch, nse))
        return build(data, *indices, lengths=(m, n), **options)

    @classmethod
    @abstractmethod
    def index_lengths(cls, nse: int, lengths: tuple[int, int]) -> list[tuple[int, ...]]:
        """Return the lengths of the fields of indices of a matrix with ``nse`` stored values."""

    @abstractmethod
    def entries(self) -> Entries:
        """Return stored values, rows and columns; a row out of range marks no element."""

    @abstractmethod
    def with_entries(self, entries: Entries, lengths: tuple[int, int], unique: bool) -> Any:
        """Return a ``BCOO`` of these lengths; a row out of range marks no element."""

    @abstractmethod
    def check_indices(self) -> None:
        """Check the shapes and the range of the arrays of indices.

        Raises:
            ImplicitArrayError: If a shape is wrong.
            BoundsError: If a value is out of range.
        """

    @property
    def matrix(self) -> tuple[int, int]:
        lengths: tuple[int, int] = vars(self)["lengths"]
        return lengths

    @property
    def values(self) -> Any:
        """The field ``data``."""
        return fields_of(self)["data"]

    @property
    def is_unique(self) -> bool:
        """Whether no element is stored twice."""
        return bool(vars(self)["unique"])

    @property
    def nse(self) -> int | None:
        """The number of stored elements of each matrix; None if unknown."""
        shape = lengths_of(self.values)
        n = shape[-1]
        return lengths_of(fields_of(self)["indices"])[len(shape) - 1] if n is None else n

    def with_values(self, values: Any) -> Any:
        """Return a matrix with other values at the same indices."""
        return with_fields(self, {"data": values})

    def check(self) -> None:
        m, n = self.matrix
        if min(m, n) < 0:
            raise ImplicitArrayError(
                f"{type(self).__name__}: lengths {self.matrix}.", "Lengths are not negative."
            )
        own = self.matrix_specs(None, None)
        shapes = {name: lengths_of(x) for name, x in fields_of(self).items()}
        for name, x in fields_of(self).items():
            if name != "data" and dtype_of(x).kind not in "iu":
                raise ImplicitArrayError(
                    f"{type(self).__name__}: {name} has dtype {dtype_of(x)}.",
                    "Indices are integers.",
                )
        short = any(len(shape) < len(own[name]) for name, shape in shapes.items())
        leading = [shape[: len(shape) - len(own[name])] for name, shape in shapes.items()]
        if short or not all(starmap(shapes_fit, combinations(leading, 2))):
            raise ImplicitArrayError(
                f"{type(self).__name__}: fields of shapes {shapes}.",
                "All fields have equal leading axes.",
            )
        if shapes["indices"][len(shapes["data"]) - 1] not in {None, self.nse}:
            raise ImplicitArrayError(
                f"{type(self).__name__}: {self.nse} values, and indices of shape "
                f"{shapes['indices']}.",
                "Give one index for each value.",
            )
        self.check_indices()
        if self.is_unique and all(isinstance(x, np.ndarray) for x in self.leaves):
            _, rows, columns = self.entries()
            if duplicate := find_duplicate(rows, columns, self.matrix[0]):
                raise ImplicitArrayError(
                    f"{type(self).__name__}: element {duplicate} is stored more than once.",
                    "Leave out unique=True.",
                )

    @property
    def coo(self) -> Any:
        """The same matrix as a ``BCOO``."""
        return self.with_entries(self.entries(), self.matrix, self.is_unique)

    def materialize(self) -> Any:
        xp = self.xp
        data, rows, columns = self.entries()
        m, n = self.matrix
        if m * n > largest_index(rows):
            raise MaterializeError(
                f"{self!r} has {m} * {n} elements, more than {dtype_of(rows)} counts.",
                "Enable 64-bit integers, for JAX by jax.config.update('jax_enable_x64', True).",
            )
        ids = xp.where(rows < m, rows * n + columns, m * n)
        sums = segment_sum(xp, data[..., None], ids, m * n)
        return xp.reshape(sums, (*xp.shape_of(data)[:-1], m, n))

    # Products.

    def rmatmul(self, x: Any) -> Any:
        if isinstance(x, OneHot) and x.ndim == self.ndim and None not in x.shape:
            m, n = x.shape[-2:]
            x = self.with_entries(entries_of(x), (m, n), True)
        if isinstance(x, Sparse):
            y = multiply_sparse(x, self)
            return y if isinstance(y, LowRank) else self.with_entries(*y, True)
        if isinstance(x, ImplicitArray):
            return NotImplemented
        xp = numpy_like(self, x)
        data, rows, columns = self.entries()
        m, n = self.matrix
        if not m or self.nse == 0:
            return xp.zeros((*xp.shape_of(x)[:-1], n), joint_dtype(xp, data, x))
        terms = take_rows(xp, xp.swapaxes(x, -1, -2), xp.clip(rows, 0, m - 1))
        sums = segment_sum(xp, terms * data[..., None], xp.where(rows < m, columns, n), n)
        return xp.swapaxes(sums, -1, -2)

    # The same elements in another order.

    def reshape_matrix(self, rows: int, columns: int) -> Any:
        data, i, j = self.entries()
        m, n = self.matrix
        if m * n > largest_index(i):
            return NotImplemented
        positions = i * n + j
        xp, inside = self.xp, i < m
        i = xp.where(inside, positions // max(columns, 1), rows)
        j = xp.where(inside, positions % max(columns, 1), columns)
        return self.with_entries((data, i, j), (rows, columns), self.is_unique)

    def matrix_window(self, rows: range, columns: range) -> Any:
        xp = self.xp
        data, i, j = self.entries()
        inside = (i < rows.stop) & (j < columns.stop)  # the row of ignored values is out of range
        i, j = i - rows.start, j - columns.start
        inside = inside & (i >= 0) & (j >= 0)
        inside = inside & xp.equal(i % rows.step, 0) & xp.equal(j % columns.step, 0)
        lengths = (len(rows), len(columns))
        i = xp.where(inside, i // rows.step, lengths[0])
        j = xp.where(inside, j // columns.step, lengths[1])
        return self.with_entries((data, i, j), lengths, self.is_unique)

    def matrix_rows(self, index: Any) -> Any:
        m, n = self.matrix
        lengths = lengths_of(index)
        count = product(*lengths)
        limit = max(m * n, count * n, MAX_SMALL_TEMPORARY) if count is not None else 0
        if count is None or self.nse is None or count * self.nse > limit:
            return NotImplemented  # comparing all pairs would need more memory than the matrix
        xp = numpy_like(self, index)
        data, rows, columns = self.entries()
        hits = xp.equal(rows[:, None], xp.reshape(index, (count,)))
        terms = xp.where(hits, data[:, None], xp.zeros((), self.dtype))
        sums = segment_sum(xp, terms, xp.where(rows < m, columns, n), n)
        return xp.reshape(xp.swapaxes(sums, -1, -2), (*lengths, n))

    def diagonal(self, offset: int) -> Any:
        xp = self.xp
        data, rows, columns = self.entries()
        m, n = self.matrix
        count = diagonal_length(m, n, offset)
        is_on_diagonal = (rows < m) & xp.equal(columns - rows, offset)
        ids = xp.where(is_on_diagonal, rows + min(offset, 0), count)
        return segment_sum(xp, data[..., None], ids, count)[..., 0]

    def join_matrices(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        if not all(isinstance(x, Sparse) and x.batch == self.batch for x in others):
            return NotImplemented
        matrices: list[Any] = [self, *others]
        xp = numpy_like(*matrices)
        lengths = list(self.matrix)
        lengths[axis] = sum(x.matrix[axis] for x in matrices)
        pieces, before = [], 0
        for x in matrices:
            data, rows, columns = x.entries()
            outside = rows >= x.matrix[0]
            rows, columns = (rows + before, columns) if axis == -2 else (rows, columns + before)
            pieces.append((data, xp.where(outside, lengths[0], rows), columns))
            before += x.matrix[axis]
        entries = [xp.concatenate(arrays, -1) for arrays in zip(*pieces, strict=True)]
        unique = all(x.is_unique for x in matrices)
        return self.with_entries(_as_entries(entries), (lengths[0], lengths[1]), unique)

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        # Duplicates are summed in their own dtype.
        is_linear = is_inexact(str(self.dtype)) and is_inexact(str(dtype))
        x = self if is_linear else self.coalesce()
        return x.with_values(self.xp.cast(x.values, dtype))

    def scale_along(self, vector: Any, axis: int) -> Any:
        if self.ndim != 2 or not (n := self.matrix[axis]):
            return NotImplemented
        xp = numpy_like(self, vector)
        weights = vector[xp.clip(self.entries()[1 + axis], 0, n - 1)]
        return self.with_values(xp.multiply(self.values, weights))

    def _gather_stored(self, xp: Any, x: Any) -> Any:
        """Return an array's elements at the stored indices.

        Returns:
            None if nothing is stored; NotImplemented for an implicit array without ``to_entries``.
        """
        _, rows, columns = self.entries()
        m, n = self.matrix
        if not m or not n or self.nse == 0:
            return None
        if isinstance(x, ImplicitArray):
            if not self.is_mergeable_with(x):
                return NotImplemented
            if self.shares_indices(x) and self.is_unique:
                return x.values
            return look_up(xp, self.entries(), entries_of(x), self.matrix)
        x_rows = take_rows(xp, x, xp.clip(rows, 0, m - 1))
        return xp.take_along_axis(x_rows, xp.clip(columns, 0, n - 1)[..., None], -1)[..., 0]

    def to_entries(self) -> Entries:
        """Return the stored values with their rows and columns."""
        return self.entries()

    def _sum(self, other: Any) -> Any:
        if not self.is_mergeable_with(other) or self.dtype.kind == "b":
            return NotImplemented
        xp = numpy_like(self, other)
        if self.shares_indices(other):
            return self.with_values(xp.add(self.values, other.values))
        pairs = zip(self.entries(), entries_of(other), strict=True)
        entries = [xp.concatenate(pair, -1) for pair in pairs]
        return self.with_entries(_as_entries(entries), self.matrix, False)

    def shares_indices(self, other: Any) -> bool:
        """Return whether another matrix has the same arrays of indices, as derived ones do."""
        if type(other) is not type(self) or other.matrix != self.matrix:
            return False
        mine, theirs = fields_of(self), fields_of(other)
        return all(theirs[name] is x for name, x in mine.items() if name != "data")

    def is_mergeable_with(self, other: Any) -> bool:
        """Return whether another structure has entries too, and the same shape."""
        return isinstance(other, HasEntries) and self.shape == other.shape  # type: ignore[attr-defined]

    def coalesce(self) -> Sparse:
        """Return the matrix in row-major order, with each element stored once."""
        if self.is_unique or self.nse == 0:
            return self
        entries = coalesce(self.xp, self.entries(), self.matrix)
        y: Sparse = self.with_entries(entries, self.matrix, True)
        return y

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if f.name == "add":
            return self._sum(others[0])
        if f.name == "where":
            return self._choose(f, *others)
        if f.zeros == 2:
            return self._zip(f, *others)
        if not f.keeps_zero or (f.facts.additive and self.dtype.kind == "b"):
            return NotImplemented
        # f(a + b) = f(a) + f(b) allows duplicates.
        is_additive = f.linear or f.facts.additive or f.name == "multiply"
        x = self if is_additive else self.coalesce()
        xp = numpy_like(self, *others)
        elements = [x._gather_stored(xp, other) for other in others]
        if any(y is NotImplemented for y in elements):
            return NotImplemented
        return x if any(y is None for y in elements) else x.with_values(f(x.values, *elements))

    def _zip(self, f: ElementwiseFunction, other: Any) -> Any:
        """Apply a function to the elements that one of two matrices stores."""
        if not self.is_mergeable_with(other):
            return NotImplemented
        if self.shares_indices(other) and self.is_unique and other.is_unique:
            return self.with_values(f(self.values, other.values))
        xp = numpy_like(self, other)
        indices, mine, theirs = union(xp, self.entries(), entries_of(other), self.matrix)
        entries = indices.to_entries(xp, f(mine, theirs), self.matrix)
        return self.with_entries(entries, self.matrix, True)

    def _choose(self, f: ElementwiseFunction, other: Any, *masks: Any) -> Any:
        """Add both matrices, with zeros where the other is chosen."""
        if not isinstance(other, Sparse) or self.shape != other.shape:
            return NotImplemented
        xp, chosen = numpy_like(self, other, *masks), []
        for x, order in ((self, 1), (other, -1)):
            stored = [x._gather_stored(xp, mask) for mask in masks]
            if any(mask is NotImplemented for mask in stored):
                return NotImplemented
            pair = (x.values, xp.zeros((), x.dtype))[::order]
            is_empty = any(mask is None for mask in stored)
            chosen.append(x if is_empty else x.with_values(f(*pair, *stored)))
        return chosen[0]._sum(chosen[1])

    # Over axes.

    def sum_batch(self, axes: tuple[int, ...]) -> Any:
        xp = self.xp
        k = self.ndim - 2
        order = [axis for axis in range(k) if axis not in axes]

        def flatten(x: Any) -> Any:
            x = xp.transpose(x, (*order, *axes, k))
            return xp.reshape(x, (*xp.shape_of(x)[: len(order)], -1))

        entries = self.entries()
        if 0 in self.batch or self.nse == 0:
            lead = [self.batch[axis] for axis in order]
            empty = [xp.zeros((*lead, 0), dtype_of(x)) for x in entries]
            return self.with_entries(_as_entries(empty), self.matrix, True)
        return self.with_entries(_as_entries([*map(flatten, entries)]), self.matrix, False)

    def reduce_matrix(self, name: str, axes: tuple[int, ...]) -> Any:
        xp = self.xp
        m, n = self.matrix
        data, rows, columns = self.entries()
        inside = rows < m
        if name in {"sum", "any"}:
            if len(axes) == 2:
                return reduce_in_dtype(
                    xp, name, xp.where(inside, data, xp.zeros((), self.dtype)), (-1,)
                )
            ids, count = (columns, n) if axes == (-2,) else (rows, m)
            return segment_sum(xp, data[..., None], xp.where(inside, ids, count), count)[..., 0]
        if name == "all" and self.dtype.kind == "b":
            return all_true(self.coalesce(), axes)
        if name not in {"max", "min"} or self.nse is None or self.dtype.kind == "c":
            return NotImplemented
        x = self.coalesce()
        return extreme(x, name) if len(axes) == 2 else extreme_along(x, name, axes[0])


@runtime_checkable
class HasEntries(Protocol):
    """A structure of few elements that can return their indices."""

    def to_entries(self) -> Entries:
        """Return the elements that may differ from zero, with their rows and columns."""


def entries_of(x: Any) -> Entries:
    """Return the entries of a structure, with indices out of range marked."""
    data, rows, columns = x.to_entries()
    return mark_outside(data, rows, columns, x.shape[-2:])


def _as_entries(arrays: list[Any]) -> Entries:
    data, rows, columns = arrays
    return data, rows, columns
