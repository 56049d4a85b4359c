"""Matrices of a structure, and stacks of them: what all do alike along the axes in front."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray, fields_of, with_fields
from graphc.implicit.structured import Structured
from graphc.implicit.treedef import Treedef, dtype_of, lengths_of
from graphc.tensor.core.elementwise import ROWS, Facts


def facts_of(name: str) -> Facts:
    """Return the properties of an elementwise function, by its row's name."""
    return ROWS[name].facts


def keeps_zero(name: str) -> bool:
    """Whether a function maps zero to zero, and so keeps the zeros that are not stored."""
    return 0 in facts_of(name).fixed or name in {"isnan", "isinf"}


def are_square(*parts: Any) -> bool:
    """Whether matrices are known to have as many columns as rows, and some."""
    return all(p == q and p for p, q in [lengths_of(x)[-2:] for x in parts])


@dataclass(frozen=True, repr=False)
class Stacked(Structured):
    """A matrix, or a stack of matrices: each field has the axes of the stack in front.

    The shape follows from the fields, so that a stack of such matrices is one whose fields are
    stacked. Methods here deal with the axes of the stack, and leave the last two axes to those that
    a subclass overrides.
    """

    @abstractmethod
    def own_axes(self) -> Mapping[str, int]:
        """How many axes each field has behind those of the stack."""

    @property
    @abstractmethod
    def matrix(self) -> tuple[int | None, int | None]:
        """The numbers of rows and columns of one matrix."""

    def field_specs(self, spec: tuple[Any, ...]) -> Mapping[str, tuple[Any, ...]]:
        own = self.matrix_specs(*spec[-2:])
        return {
            name: (*spec[:-2], *own.get(name, (None,) * axes))
            for name, axes in self.own_axes().items()
        }

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        """How the own axes of fields are sharded where rows and columns are."""
        return {}

    @property
    def batch(self) -> tuple[int | None, ...]:
        """The lengths of the stack's axes."""
        name, own = next(iter(self.own_axes().items()))
        part = getattr(self, name)
        shape = lengths_of(part[0] if isinstance(part, tuple) else part)
        return shape[: len(shape) - own]

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The lengths of its axes."""
        return (*self.batch, *self.matrix)

    def fieldwise(self, function: Callable[[Any, int], Any]) -> Any:
        """Apply a function to each field and its number of own axes."""

        def made(part: Any, own: int) -> Any:
            if isinstance(part, tuple):
                return tuple([function(x, own) for x in part])
            return None if part is None else function(part, own)

        own_axes = self.own_axes()
        return with_fields(
            self, {name: made(part, own_axes[name]) for name, part in fields_of(self).items()}
        )

    # What a subclass may override, for the last two axes.

    def window(self, rows: range, columns: range) -> Any:
        """Slice the rows and columns of each matrix."""
        return NotImplemented

    def matrix_rows(self, index: Any) -> Any:
        """Rows of the one matrix that this is, ``(*index.shape, columns)``."""
        return NotImplemented

    def matrix_joined(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        """Matrices behind each other along axis -2 or -1."""
        return NotImplemented

    def matrix_reshaped(self, rows: int, columns: int) -> Any:
        """Each matrix in another shape."""
        return NotImplemented

    def matrix_reduced(self, name: str, axes: tuple[int, ...]) -> Any:
        """Each matrix reduced over axes -2, -1 or both, as a whole array."""
        return NotImplemented

    def batch_summed(self, axes: tuple[int, ...]) -> Any:
        """The sum of the matrices along axes of the stack, as an implicit array."""
        return NotImplemented

    # Structured's methods, in these terms.

    def permuted(self, axes: tuple[int, ...]) -> Any:
        k = self.ndim - 2
        if sorted(axes[:k]) != list(range(k)):
            return NotImplemented
        x = self
        if axes[:k] != tuple(range(k)):
            xp = self.xp
            x = self.fieldwise(
                lambda part, own: xp.transpose(part, (*axes[:k], *range(k, k + own)))
            )
        return x if axes[k] == k else x.swapped()

    def reshaped(self, shape: tuple[int, ...]) -> Any:
        if len(shape) >= 2 and shape[-2:] == self.matrix:
            return self._batched(shape[:-2])
        if len(shape) >= 2 and shape[:-2] == self.batch:
            found = self.matrix_reshaped(*shape[-2:])
            if found is not NotImplemented:
                return found
        return super().reshaped(shape)

    def _batched(self, batch: Sequence[int | None]) -> Any:
        """The matrices in a stack of another shape, which holds as many."""
        if tuple(batch) == self.batch:
            return self
        xp = self.xp

        def reshaped(part: Any, own: int) -> Any:
            lengths = xp.shape_of(part)
            return xp.reshape(part, (*batch, *lengths[len(lengths) - own :]))

        return self.fieldwise(reshaped)

    def broadcast(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        k, ndim = self.ndim - 2, len(shape)
        if axes[k:] != (ndim - 2, ndim - 1) or shape[-2:] != self.matrix:
            return super().broadcast(shape, axes)
        own = dict(zip(axes[:k], self.batch, strict=True))
        xp, batch = self.xp, shape[:-2]
        x = self._batched([own.get(axis, 1) for axis in range(ndim - 2)])
        if x.batch == batch:
            return x

        def spread(part: Any, own: int) -> Any:
            lengths = xp.shape_of(part)
            return xp.broadcast_to(part, (*batch, *lengths[len(lengths) - own :]))

        return x.fieldwise(spread)

    def part(self, starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...]) -> Any:
        ranges = [range(*bounds) for bounds in zip(starts, stops, steps, strict=True)]
        pairs = zip(ranges, self.shape, strict=True)
        whole = [n is not None and places == range(n) for places, n in pairs]
        x: Any = self
        if not all(whole[:-2]):
            index = tuple([slice(*b) for b in zip(starts, stops, steps, strict=True)][:-2])
            xp = self.xp
            x = self.fieldwise(lambda part, own: xp.getitem(part, index))
        return x if all(whole[-2:]) else x.window(*ranges[-2:])

    def rows(self, index: Any) -> Any:
        if self.ndim == 2:
            return self.matrix_rows(index)
        xp = self.xp
        return self.fieldwise(lambda part, own: xp.getitem(part, index))

    def joined(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        if axis >= self.ndim - 2:
            return self.matrix_joined(others, axis - self.ndim)
        if not all(type(x) is type(self) and _unlike(self, x, axis) for x in others):
            return NotImplemented
        xp = self.xp
        rest = [fields_of(x) for x in others]

        def joined(name: str, part: Any) -> Any:
            more = [x[name] for x in rest]
            if isinstance(part, tuple):
                columns = zip(part, *more, strict=True)
                return tuple([xp.concatenate(column, axis) for column in columns])
            return None if part is None else xp.concatenate([part, *more], axis)

        parts = {name: joined(name, part) for name, part in fields_of(self).items()}
        return with_fields(self, parts)

    def reduced(self, name: str, axes: tuple[int, ...]) -> Any:
        k = self.ndim - 2
        own = tuple(axis - self.ndim for axis in axes if axis >= k)
        over = tuple(axis for axis in axes if axis < k)
        if 0 in [self.shape[axis] for axis in axes]:
            return self._of_nothing(name, axes)
        if not own:
            return self.batch_summed(over) if name == "sum" else NotImplemented
        y = self.matrix_reduced(name, own)
        if y is NotImplemented or not over:
            return y
        return kept(self.xp, name, y, over)

    def _of_nothing(self, name: str, axes: tuple[int, ...]) -> Any:
        """A reduction of slices that hold no element."""
        rest = [n for axis, n in enumerate(self.shape) if axis not in axes]
        if None in rest or name not in {"sum", "any", "prod", "all"}:
            return NotImplemented
        make = self.xp.zeros if name in {"sum", "any"} else self.xp.ones
        return make(rest, self.dtype)


def _unlike(a: ImplicitArray, b: ImplicitArray, axis: int) -> bool:
    """Whether two structures differ in no more than the length of an axis of the stack."""
    (treedef, own), (other, given) = Treedef.of(a), Treedef.of(b)

    def rest(x: Any) -> Any:
        shape = lengths_of(x)
        return dtype_of(x), shape[:axis], shape[axis + 1 :]

    return treedef == other and [*map(rest, own)] == [*map(rest, given)]


def kept(xp: Any, name: str, x: Any, axes: tuple[int, ...]) -> Any:
    """An array reduced over axes, in its own dtype: sums of integers wrap around."""
    y = getattr(xp, name)(x, axes)
    dtype = dtype_of(x)
    return y if dtype_of(y) == dtype else xp.cast(y, dtype)


def whole(x: Any) -> Any:
    """An array, of an implicit one what it stands for."""
    while isinstance(x, ImplicitArray):
        x = x.materialize()
    return x


def one_of(rows: Any, columns: Any) -> Any:
    """The entry of a spec for an axis along both rows and columns; None where both are sharded."""
    if rows is not None and columns is not None:
        return None
    return columns if rows is None else rows


def product(*lengths: int | None) -> int | None:
    """The product of lengths, None where one is unknown."""
    known = [n for n in lengths if n is not None]
    return math.prod(known) if len(known) == len(lengths) else None


def refuse(problem: str, remedy: str) -> ImplicitArrayError:
    """The error of fields that do not fit each other."""
    return ImplicitArrayError(problem, remedy)


def same_dtype(x: ImplicitArray, **parts: Any) -> None:
    """Raise where fields that hold elements differ in dtype."""
    kinds = {name: dtype_of(part) for name, part in parts.items() if part is not None}
    if len(set(kinds.values())) > 1:
        text = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        raise refuse(f"{x!r}: its fields have different dtypes: {text}.", "Cast them to one.")


def joint_dtype(xp: Any, *values: Any) -> Any:
    """The dtype of a product of arrays."""
    first, *others = map(dtype_of, values)
    if all(dtype == first for dtype in others):
        return first
    y: Any = xp.zeros((), first)
    for dtype in others:
        y = y * xp.zeros((), dtype)
    return dtype_of(y)
