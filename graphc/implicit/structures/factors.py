"""Products of two thin matrices that are never formed."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray, fields_of, with_fields
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.diagonal import diagonal_of
from graphc.implicit.structures.fill import append_axes
from graphc.implicit.structures.stacked import Stacked, reduce_in_dtype
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import is_complex, is_inexact


@dataclass(frozen=True, repr=False)
class Factored(Stacked):
    """Matrices that are a product of two factors, plus a field ``base`` if the class has one."""

    keeps_shardings: ClassVar[bool] = True

    @property
    def has_base(self) -> bool:
        """Whether the class has a field ``base``."""
        return "base" in fields_of(self)

    @abstractmethod
    def factors(self, xp: Any) -> tuple[Any, Any]:
        """Return the factors ``(*batch, m, rank)`` and ``(*batch, rank, n)``."""

    def matrix_window(self, rows: range, columns: range) -> Any:
        return self.slice_fields(rows, columns)

    def scale_along(self, vector: Any, axis: int) -> Any:
        xp = numpy_like(self, vector)
        weights = append_axes(xp, vector, self.ndim - axis)
        side = "columns" if axis == self.ndim - 1 else "rows"
        specs, fields = self.matrix_specs("rows", "columns"), fields_of(self)
        scaled = [name for name in fields if side in specs[name]]
        return with_fields(self, {name: xp.multiply(fields[name], weights) for name in scaled})

    def cast(self, dtype: Any) -> Any:
        return self.cast_fields(dtype) if keeps_products(self.dtype, dtype) else NotImplemented

    def _add_base(self, xp: Any, of_base: Callable[[Any], Any], y: Any) -> Any:
        """Add a function of the base, if the class has one, to that function of the product."""
        if not self.has_base:
            return y
        base = of_base(self.base)
        return base if base is NotImplemented else xp.add(base, y)

    def _build(self, of_base: Callable[[Any], Any], a: Any, b: Any) -> Any:
        """Return an array of this class of other factors, and of a function of the base."""
        build: Any = type(self)
        return build(of_base(self.base), a, b) if self.has_base else build(a, b)

    def on_diagonal(self) -> Any:
        xp = self.xp
        a, b = self.factors(xp)
        y = reduce_in_dtype(xp, "sum", xp.multiply(a, xp.swapaxes(b, -1, -2)), (-1,))
        return self._add_base(xp, lambda base: diagonal_of(xp, base), y)

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        a, b = self.factors(xp)
        y = xp.matmul(xp.getitem(a, index), b)
        return self._add_base(xp, lambda base: xp.getitem(base, index), y)

    def join_matrices(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        if not all(isinstance(x, type(self)) for x in others):
            return NotImplemented
        matrices: Any = (self, *others)
        if axis == -1:
            return self.join_columns(matrices)
        y = self.matrix_transpose().join_columns([x.matrix_transpose() for x in matrices])
        return y if y is NotImplemented else y.matrix_transpose()

    def join_columns(self, parts: Sequence[Any]) -> Any:
        """Concatenate the columns of factored matrices: the ranks add up."""
        xp = numpy_like(*parts)
        pairs = [x.factors(xp) for x in parts]
        ranks = [xp.shape_of(b)[-2] for _, b in pairs]
        padded = []
        for i, (_, b) in enumerate(pairs):
            *lead, _, n = xp.shape_of(b)
            above, below = sum(ranks[:i]), sum(ranks[i + 1 :])
            zeros = [xp.zeros((*lead, rank, n), dtype_of(b)) for rank in (above, below)]
            padded.append(xp.concatenate([zeros[0], b, zeros[1]], -2))
        a, b = xp.concatenate([a for a, _ in pairs], -1), xp.concatenate(padded, -1)
        return self._build(lambda _: xp.concatenate([x.base for x in parts], -1), a, b)

    def reduce_matrix(self, name: str, axes: tuple[int, ...]) -> Any:
        if name != "sum":
            return NotImplemented
        xp = self.xp
        a, b = self.factors(xp)
        row = reduce_in_dtype(xp, "sum", a, (-2,)) if -2 in axes else None
        column = reduce_in_dtype(xp, "sum", b, (-1,)) if -1 in axes else None
        if row is None:
            y = xp.getitem(xp.matmul(a, xp.expand_dims(column, -1)), (..., 0))
        elif column is None:
            y = xp.getitem(xp.matmul(xp.expand_dims(row, -2), b), (..., 0, slice(None)))
        else:
            y = reduce_in_dtype(xp, "sum", xp.multiply(row, column), (-1,))
        return self._add_base(xp, lambda base: reduce_in_dtype(xp, "sum", base, axes), y)

    def sum_batch(self, axes: tuple[int, ...]) -> Any:
        xp, k = self.xp, self.ndim - 2
        a, b = self.factors(xp)
        rest = [axis for axis in range(k) if axis not in axes]
        a = xp.transpose(a, (*rest, k, *axes, k + 1))
        b = xp.transpose(b, (*rest, *axes, k, k + 1))
        *lead, m = xp.shape_of(a)[: len(rest) + 1]
        rank, n = math.prod(xp.shape_of(a)[len(rest) + 1 :]), xp.shape_of(b)[-1]
        a, b = xp.reshape(a, (*lead, m, rank)), xp.reshape(b, (*lead, rank, n))
        return self._build(lambda base: reduce_in_dtype(xp, "sum", base, axes), a, b)


def check_factors(x: Stacked, a: Any, b: Any) -> None:
    """Check that two fields are factors of a product.

    Raises:
        ImplicitArrayError: If the shapes do not fit.
    """
    a_shape, b_shape = lengths_of(a), lengths_of(b)
    if (
        min(len(a_shape), len(b_shape)) < 2
        or a_shape[:-2] != b_shape[:-2]
        or a_shape[-1] != b_shape[-2]
        or len(a_shape) != len(b_shape)
    ):
        raise ImplicitArrayError(
            f"{type(x).__name__}: factors of shapes {list(a_shape)} and {list(b_shape)}.",
            "Give (*batch, m, rank) and (*batch, rank, n).",
        )


def check_spec(cls: type[Any], shape: Any, rank: int | None) -> tuple[int | None, ...]:
    """Return the shape of a ``spec``.

    Raises:
        ImplicitArrayError: If there are fewer than two lengths, or if the rank is missing.
    """
    if len(shape) < 2 or rank is None or rank < 0:
        raise ImplicitArrayError(
            f"{cls.__name__}.spec of shape {tuple(shape)}, with rank={rank}.",
            "Give two lengths or more, and rank=r for factors (..., m, r) and (..., r, n).",
        )
    return tuple(shape)


def add_factors(xp: Any, first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the factors of the sum of two products: the ranks add up."""
    (a, b), (c, d) = first, second
    return xp.concatenate([a, c], -1), xp.concatenate([b, d], -2)


def keeps_products(own: Any, dtype: Any) -> bool:
    """Return whether casting both factors casts the product, up to rounding, or modulo 2**bits."""
    source, target = str(own), str(dtype)
    if is_inexact(source):
        return is_complex(target) or (is_inexact(target) and not is_complex(source))
    return own.kind in "iu" and dtype.kind in "iu" and bool(dtype.itemsize <= own.itemsize)
