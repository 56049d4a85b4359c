"""Matrices of a structure, and stacks of them: operations along the leading axes."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray, fields_of, map_field, map_fields, with_fields
from graphc.implicit.structured import Structured
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of


def are_square(*matrices: Any) -> bool:
    """Return whether each matrix is known to have as many columns as rows, at least one."""
    return all(p == q and p for p, q in [lengths_of(x)[-2:] for x in matrices])


@dataclass(frozen=True, repr=False)
class Stacked(Structured):
    """A matrix, or a stack of matrices: each field starts with the axes of the stack.

    The shape follows from the fields, so that stacking the fields stacks the matrices. This class
    implements operations along the axes of the stack; a subclass overrides those along the last two
    axes.
    """

    @abstractmethod
    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        """Return an entry for each axis of each field, behind the axes of the stack.

        The first field always holds an array; its dtype is this array's.

        Args:
            rows: The entry of axes along the rows of the matrix, such as a mesh axis or a slice.
            columns: The entry of axes along the columns. Other axes have None.
        """

    @property
    @abstractmethod
    def matrix(self) -> tuple[int | None, int | None]:
        """The numbers of rows and columns of one matrix."""

    def field_specs(self, spec: tuple[Any, ...]) -> Mapping[str, tuple[Any, ...]]:
        own = self.matrix_specs(*spec[-2:])
        return {name: (*spec[:-2], *entries) for name, entries in own.items()}

    @property
    def dtype(self) -> Any:
        """The dtype of the first field."""
        part = getattr(self, next(iter(self.matrix_specs(None, None))))
        return dtype_of(part[0] if isinstance(part, tuple) else part)

    @property
    def batch(self) -> tuple[int | None, ...]:
        """The lengths of the stack's axes."""
        name, own = next(iter(self.matrix_specs(None, None).items()))
        part = getattr(self, name)
        shape = lengths_of(part[0] if isinstance(part, tuple) else part)
        return shape[: len(shape) - len(own)]

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The lengths of the stack's axes, then the numbers of rows and columns."""
        return (*self.batch, *self.matrix)

    def fieldwise(self, function: Callable[[Any, int], Any]) -> Any:
        """Apply a function to each field and its number of own axes."""
        own, fields = self.matrix_specs(None, None), fields_of(self)

        def apply(name: str, field: Any) -> Any:
            return map_field(lambda x: function(x, len(own[name])), field)

        return with_fields(self, {name: apply(name, field) for name, field in fields.items()})

    def slice_fields(self, rows: range, columns: range) -> Any:
        """Slice the axes of fields that ``matrix_specs`` calls rows or columns."""
        xp, everything = self.xp, slice(None)

        def slice_axes(name: str, part: Any) -> Any:
            own = [axis or everything for axis in specs[name]]
            return xp.getitem(part, (..., *own)) if own and part is not None else part

        specs = self.matrix_specs(as_slice(rows), as_slice(columns))
        return with_fields(self, {k: slice_axes(k, part) for k, part in fields_of(self).items()})

    def cast_fields(self, dtype: Any) -> Any:
        xp = self.xp
        return self.fieldwise(lambda part, own: xp.cast(part, dtype))

    # What a subclass may override, for the last two axes.

    def matrix_window(self, rows: range, columns: range) -> Any:
        """Slice the rows and columns of each matrix."""
        return NotImplemented

    def matrix_rows(self, index: Any) -> Any:
        """Return rows ``(*index.shape, columns)`` of a single matrix."""
        return NotImplemented

    def join_matrices(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        """Concatenate matrices along axis -2 or -1."""
        return NotImplemented

    def reshape_matrix(self, rows: int, columns: int) -> Any:
        """Reshape each matrix."""
        return NotImplemented

    def reduce_matrix(self, name: str, axes: tuple[int, ...]) -> Any:
        """Reduce each matrix over axes -2, -1 or both, to a dense array."""
        return NotImplemented

    def sum_batch(self, axes: tuple[int, ...]) -> Any:
        """Return the sum of the matrices along axes of the stack, as an implicit array."""
        return NotImplemented

    # Structured's methods, in these terms.

    def permute(self, axes: tuple[int, ...]) -> Any:
        k = self.ndim - 2
        if sorted(axes[:k]) != list(range(k)):
            return NotImplemented
        x = self
        if axes[:k] != tuple(range(k)):
            xp = self.xp
            x = self.fieldwise(
                lambda part, own: xp.transpose(part, (*axes[:k], *range(k, k + own)))
            )
        return x if axes[k] == k else x.matrix_transpose()

    def reshape_to(self, shape: tuple[int, ...]) -> Any:
        if len(shape) >= 2 and shape[-2:] == self.matrix:
            return self._reshape_batch(shape[:-2])
        if len(shape) >= 2 and shape[:-2] == self.batch:
            y = self.reshape_matrix(*shape[-2:])
            if y is not NotImplemented:
                return y
        return super().reshape_to(shape)

    def _reshape_batch(self, batch: Sequence[int | None]) -> Any:
        if tuple(batch) == self.batch:
            return self
        xp = self.xp

        def reshape(part: Any, own: int) -> Any:
            lengths = xp.shape_of(part)
            return xp.reshape(part, (*batch, *lengths[len(lengths) - own :]))

        return self.fieldwise(reshape)

    def broadcast(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        k, ndim = self.ndim - 2, len(shape)
        if axes[k:] != (ndim - 2, ndim - 1) or shape[-2:] != self.matrix:
            return super().broadcast(shape, axes)
        own = dict(zip(axes[:k], self.batch, strict=True))
        xp, batch = self.xp, shape[:-2]
        x = self._reshape_batch([own.get(axis, 1) for axis in range(ndim - 2)])
        if x.batch == batch:
            return x

        def repeat(part: Any, own: int) -> Any:
            lengths = xp.shape_of(part)
            return xp.broadcast_to(part, (*batch, *lengths[len(lengths) - own :]))

        return x.fieldwise(repeat)

    def window(self, ranges: tuple[range, ...]) -> Any:
        pairs = zip(ranges, self.shape, strict=True)
        is_full = [n is not None and indices == range(n) for indices, n in pairs]
        x: Any = self
        if not all(is_full[:-2]):
            index = tuple(map(as_slice, ranges[:-2]))
            xp = self.xp
            x = self.fieldwise(lambda part, own: xp.getitem(part, index))
        return x if all(is_full[-2:]) else x.matrix_window(*ranges[-2:])

    def take_rows(self, index: Any) -> Any:
        if self.ndim == 2:
            return self.matrix_rows(index)
        xp = self.xp
        return self.fieldwise(lambda part, own: xp.getitem(part, index))

    def concatenate(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        if axis >= self.ndim - 2:
            return self.join_matrices(others, axis - self.ndim)
        if not all(type(x) is type(self) and _differ_only_along(self, x, axis) for x in others):
            return NotImplemented
        xp = self.xp
        return map_fields(lambda *parts: xp.concatenate([*parts], axis), self, *others)

    def reduce(self, name: str, axes: tuple[int, ...]) -> Any:
        k = self.ndim - 2
        own = tuple(axis - self.ndim for axis in axes if axis >= k)
        over = tuple(axis for axis in axes if axis < k)
        if 0 in [self.shape[axis] for axis in axes]:
            return self._reduce_empty(name, axes)
        if not own:
            return self.sum_batch(over) if name == "sum" else NotImplemented
        y = self.reduce_matrix(name, own)
        if y is NotImplemented or not over:
            return y
        return reduce_in_dtype(self.xp, name, y, over)

    def _reduce_empty(self, name: str, axes: tuple[int, ...]) -> Any:
        rest = [n for axis, n in enumerate(self.shape) if axis not in axes]
        if None in rest or name not in {"sum", "any", "prod", "all"}:
            return NotImplemented
        make = self.xp.zeros if name in {"sum", "any"} else self.xp.ones
        return make(rest, self.dtype)


def _differ_only_along(a: ImplicitArray, b: ImplicitArray, axis: int) -> bool:
    """Return whether two structures differ at most in the length of one axis of the stack."""
    (treedef, own), (other, theirs) = Treedef.of(a), Treedef.of(b)

    def rest(x: Any) -> Any:
        shape = lengths_of(x)
        return dtype_of(x), shape[:axis], shape[axis + 1 :]

    return treedef == other and [*map(rest, own)] == [*map(rest, theirs)]


def reduce_in_dtype(xp: Any, name: str, x: Any, axes: tuple[int, ...]) -> Any:
    """Reduce an array over axes in its own dtype: sums of integers wrap around."""
    y = getattr(xp, name)(x, axes)
    dtype = dtype_of(x)
    return y if dtype_of(y) == dtype else xp.cast(y, dtype)


def materialize_unchecked(x: Any) -> Any:
    """Return the dense array, regardless of policies and without checks of its type."""
    while isinstance(x, ImplicitArray):
        x = x.materialize()
    return x


def joint_spec(rows: Any, columns: Any) -> Any:
    """Return the spec of an axis along both rows and columns; None where both are sharded."""
    if rows is not None and columns is not None:
        return None
    return columns if rows is None else rows


def product(*lengths: int | None) -> int | None:
    """Return the product of lengths, None if one is unknown."""
    static = [n for n in lengths if n is not None]
    return math.prod(static) if len(static) == len(lengths) else None


def length_sum(lengths: Iterable[int | None]) -> int | None:
    """Return the sum of lengths, None if one is unknown."""
    lengths = list(lengths)
    return None if None in lengths else sum(n for n in lengths if n is not None)


def as_slice(indices: range) -> slice:
    """Return the slice that selects the indices of a range."""
    return slice(indices.start, indices.stop, indices.step)


def block_slice(indices: range, n: int | None) -> slice | None:
    """Return the slice of blocks of length n that make up a range; None if none do."""
    if not n or indices.step != 1 or indices.start % n or indices.stop % n:
        return None
    return slice(indices.start // n, indices.stop // n)


def check_same_dtype(x: ImplicitArray, **named_fields: Any) -> None:
    """Check that the fields that hold elements have one dtype.

    Raises:
        ImplicitArrayError: If the dtypes differ.
    """
    dtypes = {name: dtype_of(field) for name, field in named_fields.items() if field is not None}
    if len(set(dtypes.values())) > 1:
        text = ", ".join(f"{name} {dtype}" for name, dtype in dtypes.items())
        raise ImplicitArrayError(
            f"{x!r}: its fields have different dtypes: {text}.", "Cast them to one."
        )


def joint_dtype(xp: Any, *values: Any) -> Any:
    """Return the dtype of a product of arrays."""
    first, *others = map(dtype_of, values)
    if all(dtype == first for dtype in others):
        return first
    y: Any = xp.zeros((), first)
    for dtype in others:
        y = y * xp.zeros((), dtype)
    return dtype_of(y)
