"""Sparse matrices: the elements that are not zero, and where they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from graphc.errors import MaterializeError
from graphc.implicit.array import ImplicitArray, fields_of, with_fields
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.extremes import all_true, extreme, extreme_along
from graphc.implicit.structures.low_rank import LowRank
from graphc.implicit.structures.merging import coalesced, matched, united
from graphc.implicit.structures.one_hot import OneHot
from graphc.implicit.structures.segments import (
    Entries,
    cleaned,
    largest_place,
    repeated,
    segments,
    taken,
)
from graphc.implicit.structures.sparse_product import product_of
from graphc.implicit.structures.stacked import (
    Stacked,
    facts_of,
    joint_dtype,
    keeps_zero,
    kept,
    product,
    refuse,
)
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import is_inexact
from graphc.tensor.arrays.diagonal import diagonal_length

SMALL = 2**16
"""A temporary of so many elements is none to be avoided."""


@dataclass(frozen=True, repr=False)
class Sparse(Stacked):
    """Matrices of which some elements are stored, and all others are zero.

    What is common to ``CSR``, ``CSC`` and ``BCOO``. An element may be stored in several parts,
    which add up. Zeros that are not stored stay zero whatever they are multiplied with,
    infinities and NaN too. A product with k columns gathers k numbers for each element that is
    stored, and adds them up.

    Attributes:
        data: The stored values, (..., nse).
        lengths: The numbers of rows and columns of a matrix.
        unique: No element is stored twice. Then functions such as ``abs``, and extremes, are found
            from what is stored; elsewhere the matrix becomes whole for them.
    """

    @abstractmethod
    def entries(self) -> Entries:
        """The stored values and their places; those to be left out have a row out of range."""

    @abstractmethod
    def by_coordinates(self, entries: Entries, lengths: tuple[int, int], unique: bool) -> Any:
        """Values at places as a matrix of these lengths; those of other rows are left out."""

    @abstractmethod
    def check_places(self) -> None:
        """Raise where an array that holds places has the wrong shape or values out of range."""

    def own_axes(self) -> Mapping[str, int]:
        return dict.fromkeys(fields_of(self), 1)

    @property
    def matrix(self) -> tuple[int, int]:
        """The numbers of rows and columns of one matrix."""
        lengths: tuple[int, int] = vars(self)["lengths"]
        return lengths

    @property
    def values(self) -> Any:
        """The field of what is stored."""
        return fields_of(self)["data"]

    @property
    def is_unique(self) -> bool:
        """Whether no element is stored twice."""
        return bool(vars(self)["unique"])

    @property
    def dtype(self) -> Any:
        """NumPy's dtype."""
        return dtype_of(self.values)

    @property
    def nse(self) -> int | None:
        """How many elements are stored, of each matrix; None where no field says."""
        given = lengths_of(self.values)
        n = given[-1]
        return lengths_of(fields_of(self)["indices"])[len(given) - 1] if n is None else n

    def with_values(self, values: Any) -> Any:
        """Other values in the same places."""
        return with_fields(self, {"data": values})

    def check(self) -> None:
        m, n = self.matrix
        if min(m, n) < 0:
            raise refuse(
                f"{type(self).__name__}: lengths {self.matrix}.", "Lengths are not negative."
            )
        own = self.own_axes()
        shapes = {name: lengths_of(x) for name, x in fields_of(self).items()}
        for name, x in fields_of(self).items():
            if name != "data" and dtype_of(x).kind not in "iu":
                raise refuse(
                    f"{type(self).__name__}: {name} has dtype {dtype_of(x)}.",
                    "Places are integers.",
                )
        short = any(len(shape) < own[name] for name, shape in shapes.items())
        if short or not _agree([shape[: len(shape) - own[name]] for name, shape in shapes.items()]):
            raise refuse(
                f"{type(self).__name__}: fields of shapes {shapes}.",
                "All fields have equal leading axes.",
            )
        if shapes["indices"][len(shapes["data"]) - 1] not in {None, self.nse}:
            raise refuse(
                f"{type(self).__name__}: {self.nse} values, and indices of shape "
                f"{shapes['indices']}.",
                "Give one index for each value.",
            )
        self.check_places()
        if self.is_unique and all(isinstance(x, np.ndarray) for x in self.leaves):
            _, rows, columns = self.entries()
            if found := repeated(rows, columns, self.matrix[0]):
                raise refuse(
                    f"{type(self).__name__}: element {found} is stored more than once.",
                    "Leave out unique=True.",
                )

    @property
    def coo(self) -> Any:
        """Convert to a ``BCOO``, with a row and a column for each value."""
        return self.by_coordinates(self.entries(), self.matrix, self.is_unique)

    def materialize(self) -> Any:
        xp = self.xp
        data, rows, columns = self.entries()
        m, n = self.matrix
        if m * n > largest_place(rows):
            raise MaterializeError(
                f"{self!r} has {m} * {n} elements, more than {dtype_of(rows)} counts.",
                "Enable 64-bit integers, for JAX by jax.config.update('jax_enable_x64', True).",
            )
        places = xp.where(rows < m, rows * n + columns, m * n)
        sums = segments(xp, data[..., None], places, m * n)
        return xp.reshape(sums, (*xp.shape_of(data)[:-1], m, n))

    # Products.

    def times(self, x: Any) -> Any:
        if isinstance(x, OneHot) and x.ndim == self.ndim and None not in x.shape:
            m, n = x.shape[-2:]
            x = self.by_coordinates(entries_of(x), (m, n), True)
        if isinstance(x, Sparse):
            found = product_of(x, self)
            return found if isinstance(found, LowRank) else self.by_coordinates(*found, True)
        if isinstance(x, ImplicitArray):
            return NotImplemented
        xp = numpy_like(self, x)
        data, rows, columns = self.entries()
        m, n = self.matrix
        if not m or self.nse == 0:
            return xp.zeros((*xp.shape_of(x)[:-1], n), joint_dtype(xp, data, x))
        found = taken(xp, xp.swapaxes(x, -1, -2), xp.clip(rows, 0, m - 1))
        sums = segments(xp, found * data[..., None], xp.where(rows < m, columns, n), n)
        return xp.swapaxes(sums, -1, -2)

    # The same elements in other places.

    def matrix_reshaped(self, rows: int, columns: int) -> Any:
        data, i, j = self.entries()
        m, n = self.matrix
        if m * n > largest_place(i):
            return NotImplemented
        places = i * n + j
        xp, inside = self.xp, i < m
        i = xp.where(inside, places // max(columns, 1), rows)
        j = xp.where(inside, places % max(columns, 1), columns)
        return self.by_coordinates((data, i, j), (rows, columns), self.is_unique)

    def window(self, rows: range, columns: range) -> Any:
        xp = self.xp
        data, i, j = self.entries()
        inside = (i < rows.stop) & (j < columns.stop)  # what is left out is behind all rows
        i, j = i - rows.start, j - columns.start
        inside = inside & (i >= 0) & (j >= 0)
        inside = inside & xp.equal(i % rows.step, 0) & xp.equal(j % columns.step, 0)
        lengths = (len(rows), len(columns))
        i = xp.where(inside, i // rows.step, lengths[0])
        j = xp.where(inside, j // columns.step, lengths[1])
        return self.by_coordinates((data, i, j), lengths, self.is_unique)

    def matrix_rows(self, index: Any) -> Any:
        m, n = self.matrix
        lengths = lengths_of(index)
        count = product(*lengths)
        least = max(m * n, count * n, SMALL) if count is not None else 0
        if count is None or self.nse is None or count * self.nse > least:
            return NotImplemented  # comparing all with all would take more than the matrix
        xp = numpy_like(self, index)
        data, rows, columns = self.entries()
        wanted = xp.equal(rows[:, None], xp.reshape(index, (count,)))
        found = xp.where(wanted, data[:, None], xp.zeros((), self.dtype))
        sums = segments(xp, found, xp.where(rows < m, columns, n), n)
        return xp.reshape(xp.swapaxes(sums, -1, -2), (*lengths, n))

    def diagonal(self, offset: int) -> Any:
        xp = self.xp
        data, rows, columns = self.entries()
        m, n = self.matrix
        count = diagonal_length(m, n, offset)
        on_it = (rows < m) & xp.equal(columns - rows, offset)
        places = xp.where(on_it, rows + min(offset, 0), count)
        return segments(xp, data[..., None], places, count)[..., 0]

    def matrix_joined(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        if not all(isinstance(x, Sparse) and x.batch == self.batch for x in others):
            return NotImplemented
        matrices: list[Any] = [self, *others]
        xp = numpy_like(*matrices)
        lengths = list(self.matrix)
        lengths[axis] = sum(x.matrix[axis] for x in matrices)
        parts, before = [], 0
        for x in matrices:
            data, rows, columns = x.entries()
            outside = rows >= x.matrix[0]
            rows, columns = (rows + before, columns) if axis == -2 else (rows, columns + before)
            parts.append((data, xp.where(outside, lengths[0], rows), columns))
            before += x.matrix[axis]
        entries = [xp.concatenate(part, -1) for part in zip(*parts, strict=True)]
        unique = all(x.is_unique for x in matrices)
        return self.by_coordinates(_three(entries), (lengths[0], lengths[1]), unique)

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        # The parts of an element add up in the dtype they have.
        exact = is_inexact(str(self.dtype)) and is_inexact(str(dtype))
        x = self if exact else self.coalesced()
        return x.with_values(self.xp.cast(x.values, dtype))

    def scaled(self, c: Any) -> Any:
        return self.with_values(numpy_like(self, c).multiply(self.values, c))

    def divided(self, c: Any) -> Any:
        if not is_inexact(str(self.dtype)):
            return NotImplemented
        return self.with_values(numpy_like(self, c).divide(self.values, c))

    def weighted(self, vector: Any, axis: int) -> Any:
        if self.ndim != 2 or not (n := self.matrix[axis]):
            return NotImplemented
        xp = numpy_like(self, vector)
        weights = vector[xp.clip(self.entries()[1 + axis], 0, n - 1)]
        return self.with_values(xp.multiply(self.values, weights))

    def multiplied(self, other: Any) -> Any:
        xp = numpy_like(self, other)
        found = self._in_places(xp, other)
        if found is NotImplemented:
            return found
        return self if found is None else self.with_values(xp.multiply(self.values, found))

    def _in_places(self, xp: Any, x: Any) -> Any:
        """Return an array's elements at the stored places.

        Returns:
            None where nothing is stored, NotImplemented for implicit arrays that don't say.
        """
        _, rows, columns = self.entries()
        m, n = self.matrix
        if not m or not n or self.nse == 0:
            return None
        if isinstance(x, ImplicitArray):
            if not self.goes_with(x):
                return NotImplemented
            if self.is_beside(x) and self.is_unique:
                return x.values
            return matched(xp, self.entries(), entries_of(x), self.matrix)
        found = taken(xp, x, xp.clip(rows, 0, m - 1))
        return xp.take_along_axis(found, xp.clip(columns, 0, n - 1)[..., None], -1)[..., 0]

    def placed(self) -> Entries:
        """The stored values and their places."""
        return self.entries()

    def added(self, other: Any) -> Any:
        if not self.goes_with(other):
            return NotImplemented
        if self.dtype.kind == "b":
            return NotImplemented
        xp = numpy_like(self, other)
        if self.is_beside(other):
            return self.with_values(xp.add(self.values, other.values))
        parts = zip(self.entries(), entries_of(other), strict=True)
        entries = [xp.concatenate(pair, -1) for pair in parts]
        return self.by_coordinates(_three(entries), self.matrix, False)

    def is_beside(self, other: Any) -> bool:
        """Whether another has its elements in the same places, as one made of this has."""
        if type(other) is not type(self) or other.matrix != self.matrix:
            return False
        mine, theirs = fields_of(self), fields_of(other)
        return all(theirs[name] is x for name, x in mine.items() if name != "data")

    def goes_with(self, other: Any) -> bool:
        """Whether another has places of its elements, too, and the same shape."""
        return isinstance(other, WithPlaces) and self.shape == other.shape  # type: ignore[attr-defined]

    def coalesced(self) -> Sparse:
        """With each element stored once: parts are added up, in order of rows and columns."""
        if self.is_unique or self.nse == 0:
            return self
        entries = coalesced(self.xp, self.entries(), self.matrix)
        made: Sparse = self.by_coordinates(entries, self.matrix, True)
        return made

    def mapped(self, name: str) -> Any:
        if not keeps_zero(name) or self.dtype.kind == "b":
            return NotImplemented
        # An additive function is right for elements that are stored in parts.
        x = self if facts_of(name).additive else self.coalesced()
        return x.with_values(getattr(self.xp, name)(x.values))

    def transformed(self, function: Callable[[Any], Any], keeps_zero: bool) -> Any:
        if not keeps_zero:
            return NotImplemented
        x = self.coalesced()
        return x.with_values(function(x.values))

    def zipped(self, function: Callable[[Any, Any], Any], other: Any, keeps_zero: bool) -> Any:
        if not keeps_zero or not self.goes_with(other):
            return NotImplemented
        if self.is_beside(other) and self.is_unique and other.is_unique:
            return self.with_values(function(self.values, other.values))
        xp = numpy_like(self, other)
        merged, mine, theirs = united(xp, self.entries(), entries_of(other), self.matrix)
        entries = merged.with_values(xp, function(mine, theirs), self.matrix)
        return self.by_coordinates(entries, self.matrix, True)

    def against(self, function: Callable[[Any, Any], Any], other: Any) -> Any:
        x, xp = self.coalesced(), numpy_like(self, other)
        found = x._in_places(xp, other)
        if found is NotImplemented:
            return found
        return x if found is None else x.with_values(function(x.values, found))

    def chosen(self, mask: Any, other: Any, first: bool) -> Any:
        if not isinstance(other, Sparse) or self.shape != other.shape:
            return NotImplemented
        xp = numpy_like(self, other, mask)
        mine, theirs = self._masked(xp, mask, first), other._masked(xp, mask, not first)
        lost = mine is NotImplemented or theirs is NotImplemented
        return NotImplemented if lost else mine.added(theirs)

    def _masked(self, xp: Any, mask: Any, where: bool) -> Any:
        """With zeros in the places where a mask is not as said."""
        here = self._in_places(xp, mask) if getattr(mask, "ndim", 0) else mask
        if here is NotImplemented:
            return here
        if here is None:
            return self
        pair = (self.values, xp.zeros((), self.dtype))
        return self.with_values(xp.where(here, *(pair if where else pair[::-1])))

    # Over axes.

    def batch_summed(self, axes: tuple[int, ...]) -> Any:
        xp = self.xp
        k = self.ndim - 2
        order = [axis for axis in range(k) if axis not in axes]

        def merged(x: Any) -> Any:
            x = xp.transpose(x, (*order, *axes, k))
            return xp.reshape(x, (*xp.shape_of(x)[: len(order)], -1))

        entries = self.entries()
        if 0 in self.batch or self.nse == 0:
            lead = [self.batch[axis] for axis in order]
            empty = [xp.zeros((*lead, 0), dtype_of(x)) for x in entries]
            return self.by_coordinates(_three(empty), self.matrix, True)
        return self.by_coordinates(_three([*map(merged, entries)]), self.matrix, False)

    def matrix_reduced(self, name: str, axes: tuple[int, ...]) -> Any:
        xp = self.xp
        m, n = self.matrix
        data, rows, columns = self.entries()
        inside = rows < m
        if name in {"sum", "any"}:
            if len(axes) == 2:
                return kept(xp, name, xp.where(inside, data, xp.zeros((), self.dtype)), (-1,))
            places, count = (columns, n) if axes == (-2,) else (rows, m)
            return segments(xp, data[..., None], xp.where(inside, places, count), count)[..., 0]
        if name == "all" and self.dtype.kind == "b":
            return all_true(self.coalesced(), axes)
        if name not in {"max", "min"} or self.nse is None or self.dtype.kind == "c":
            return NotImplemented
        x = self.coalesced()
        return extreme(x, name) if len(axes) == 2 else extreme_along(x, name, axes[0])


def _agree(shapes: Sequence[tuple[int | None, ...]]) -> bool:
    """Whether shapes are equal but for lengths that are not known."""
    return len({*map(len, shapes)}) == 1 and all(
        len({*lengths} - {None}) <= 1 for lengths in zip(*shapes, strict=True)
    )


@runtime_checkable
class WithPlaces(Protocol):
    """A structure of few elements that says where they are."""

    def placed(self) -> Entries:
        """The elements that may not be zero, with their rows and columns."""


def entries_of(x: Any) -> Entries:
    """The elements of a structure that may not be zero, and their places in this order."""
    data, rows, columns = x.placed()
    return cleaned(data, rows, columns, x.shape[-2:])


def stored_count(cls: type, shape: Any, nse: int | None) -> int:
    """Return the number of stored values that a ``spec`` is given.

    Raises:
        ImplicitArrayError: It is not.
    """
    if nse is None:
        raise refuse(
            f"{cls.__name__} of shape {tuple(shape)} without nse.",
            "Give nse=, how many values each matrix stores.",
        )
    return nse


def _three(parts: list[Any]) -> Entries:
    data, rows, columns = parts
    return data, rows, columns
