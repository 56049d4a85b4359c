"""Matrices of low rank: two factors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from graphc.implicit.array import ImplicitArray, is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import whole
from graphc.implicit.structured import Structured
from graphc.implicit.structures.factors import (
    Factored,
    beside,
    bounds,
    check_factors,
    checked_lengths,
    columns_joined,
    keeps_products,
    paired_sum,
    summed,
    total,
)
from graphc.implicit.structures.fill import Fill, spread
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.structures.one_hot import OneHot
from graphc.implicit.structures.stacked import product, same_dtype
from graphc.implicit.structures.zeros import Zeros
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, is_inexact


@dataclass(frozen=True, repr=False)
class LowRank(Factored):
    """``u @ v``, of a tall and a wide matrix, or a stack of such; the product is never made.

    Products go through the two; products and sums of two, and parts, are of low rank again. The sum
    with another structure, as a diagonal, is a ``LoRA``.

    Attributes:
        u: ``(*batch, m, rank)``, an array or an implicit one, as the factors of a product of two
            sparse matrices.
        v: ``(*batch, rank, n)``, likewise.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import LowRank
        >>> x = LowRank(np.ones((4, 1)), np.arange(3.0)[None])
        >>> x @ np.ones(3), x.T + x.T
        (array([3., 3., 3., 3.]), LowRank(float64[3, 2], float64[2, 4]))
    """

    u: Any
    v: Any

    materialize_through: ClassVar[bool] = False

    @classmethod
    def spec(cls, shape: Any, dtype: Any, rank: int | None = None) -> Self:  # type: ignore[override]
        """Return the type of an input.

        Args:
            shape: ``(*batch, m, n)``.
            dtype: Of both factors.
            rank: The length between them.

        Raises:
            ImplicitArrayError: It is no matrix, or the rank is missing.

        Example:
            >>> LowRank.spec((4, 3), "float32", rank=2)
            LowRank(float32[4, 2], float32[2, 3])
        """
        *batch, m, n = checked_lengths(cls, shape, rank)
        return cls(TensorType(dtype, (*batch, m, rank)), TensorType(dtype, (*batch, rank, n)))

    def check(self) -> None:
        check_factors(self, self.u, self.v)
        same_dtype(self, u=self.u, v=self.v)

    def own_axes(self) -> Mapping[str, int]:
        return {"u": 2, "v": 2}

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"u": (rows, None), "v": (None, columns)}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        """The rows of u and the columns of v."""
        return lengths_of(self.u)[-2], lengths_of(self.v)[-1]

    @property
    def rank(self) -> int | None:
        """The length between the factors."""
        return lengths_of(self.u)[-1]

    @property
    def dtype(self) -> Any:
        """The common dtype of both factors."""
        return dtype_of(self.u)

    def factors(self, xp: Any) -> tuple[Any, Any]:
        """u and v."""
        return self.u, self.v

    def materialize(self) -> Any:
        xp, u, v = self.xp, self.u, self.v
        # The product of two that are implicit would be this array again; MLX takes none.
        v = whole(v) if is_implicit(u) or xp.name == "MLX" else v
        return xp.matmul(whole(u) if xp.name == "MLX" else u, v)

    def on_diagonal(self) -> Any:
        """The elements at (i, i) of each matrix."""
        return paired_sum(self.xp, self.u, self.v)

    # Products.

    def times(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        low = xp.matmul(x, self.u)
        if is_implicit(x) and not isinstance(x, OneHot):
            return LowRank(low, self.v)
        return xp.matmul(low, self.v)

    # The same elements in other places.

    def swapped(self) -> Any:
        xp = self.xp
        return LowRank(xp.swapaxes(self.v, -1, -2), xp.swapaxes(self.u, -1, -2))

    def window(self, rows: range, columns: range) -> Any:
        xp = self.xp
        u = xp.getitem(self.u, (..., bounds(rows), slice(None)))
        return LowRank(u, xp.getitem(self.v, (..., slice(None), bounds(columns))))

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        return xp.matmul(xp.getitem(self.u, index), self.v)

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        if not keeps_products(self.dtype, dtype):
            return NotImplemented
        xp = self.xp
        return self.fieldwise(lambda x, own: xp.cast(x, dtype))

    def of_smaller(self, xp: Any, function: Any) -> Any:
        """The product, of whose smaller factor a function makes the factor."""
        u, v = product(*lengths_of(self.u)), product(*lengths_of(self.v))
        if u is not None and v is not None and v < u:
            return LowRank(self.u, function(self.v))
        return LowRank(function(self.u), self.v)

    def scaled(self, c: Any) -> Any:
        xp = numpy_like(self, c)
        return self.of_smaller(xp, lambda x: xp.multiply(x, c))

    def divided(self, c: Any) -> Any:
        if not is_inexact(str(self.dtype)):
            return NotImplemented
        xp = numpy_like(self, c)
        return self.of_smaller(xp, lambda x: xp.divide(x, c))

    def mapped(self, name: str) -> Any:
        xp = self.xp
        match name:
            case "negative":
                return self.of_smaller(xp, xp.negative)
            case "square":
                return self.multiplied(self)
            case "conj":
                return self.fieldwise(lambda x, own: xp.conj(x))
        return NotImplemented

    def weighted(self, vector: Any, axis: int) -> Any:
        xp = numpy_like(self, vector)
        behind = self.ndim - axis
        weights = spread(xp, vector, behind)
        if behind == 1:
            return LowRank(self.u, xp.multiply(self.v, weights))
        return LowRank(xp.multiply(self.u, weights), self.v)

    def shifted(self, c: Any) -> Any:
        """The rank is one more."""
        xp = numpy_like(self, c)
        *lead, _ = xp.shape_of(self.u)
        *batch, _, n = xp.shape_of(self.v)
        value = spread(xp, c, self.ndim) if len(lengths_of(c)) else c
        column = xp.broadcast_to(xp.multiply(xp.ones((), self.dtype), value), (*lead, 1))
        row = xp.ones((*batch, 1, n), self.dtype)
        return LowRank(*beside(xp, (self.u, self.v), (column, row)))

    def added(self, other: Any) -> Any:
        xp = numpy_like(self, other)
        if isinstance(other, LowRank):
            return LowRank(*beside(xp, (self.u, self.v), (other.u, other.v)))
        if isinstance(other, Zeros | LoRA):
            return other.added(self)
        if isinstance(other, Fill) and other.depth <= self.ndim - 2:
            return self.shifted(other.number)
        return LoRA(other, self.u, self.v) if isinstance(other, Structured) else NotImplemented

    def multiplied(self, other: Any) -> Any:
        if not isinstance(other, LowRank):
            return NotImplemented
        rank, (m, n) = product(self.rank, other.rank), self.matrix
        if not is_thin(rank, m, n):
            return NotImplemented
        xp = numpy_like(self, other)
        u = xp.multiply(xp.expand_dims(self.u, -1), xp.expand_dims(other.u, -2))
        v = xp.multiply(xp.expand_dims(self.v, -2), xp.expand_dims(other.v, -3))
        *batch, _, _, _ = xp.shape_of(u)
        return LowRank(xp.reshape(u, (*batch, m, rank)), xp.reshape(v, (*batch, rank, n)))

    def joined(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        same = all(isinstance(x, LowRank) and x.rank == self.rank for x in others)
        return super().joined(others, axis) if same or axis >= self.ndim - 2 else NotImplemented

    def columns_joined(self, parts: Sequence[Any]) -> Any:
        rank = sum_of(x.rank for x in parts)
        if not is_thin(rank, self.matrix[0], sum_of(x.matrix[1] for x in parts)):
            return NotImplemented
        xp = numpy_like(*parts)
        return LowRank(*columns_joined(xp, [x.factors(xp) for x in parts]))

    # Over axes.

    def matrix_reduced(self, name: str, axes: tuple[int, ...]) -> Any:
        return total(self.xp, self.u, self.v, axes) if name == "sum" else NotImplemented

    def batch_summed(self, axes: tuple[int, ...]) -> Any:
        return LowRank(*summed(self.xp, self.u, self.v, axes))


def sum_of(lengths: Iterable[int | None]) -> int | None:
    """The sum of lengths, None where one is unknown."""
    known = list(lengths)
    return None if None in known else sum(n for n in known if n is not None)


def is_thin(rank: int | None, m: int | None, n: int | None) -> bool:
    """Whether two factors are known to take less than their product."""
    return rank is not None and m is not None and n is not None and rank * (m + n) < m * n
