"""Matrices of low rank, stored as two factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from graphc.implicit.array import ImplicitArray, is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import densify
from graphc.implicit.structured import ElementwiseFunction, Structured
from graphc.implicit.structures.factors import (
    Factored,
    add_factors,
    check_factors,
    check_spec,
)
from graphc.implicit.structures.fill import Fill, append_axes
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.structures.one_hot import OneHot
from graphc.implicit.structures.stacked import check_same_dtype, length_sum, product
from graphc.implicit.structures.zeros import Zeros
from graphc.implicit.treedef import lengths_of
from graphc.ir import TensorType


@dataclass(frozen=True, repr=False)
class LowRank(Factored):
    """``u @ v`` of a tall and a wide matrix, or a stack of such products, which is never formed.

    A product multiplies by one factor, then by the other. Products and sums of two, and parts, are
    of low rank too. The sum with another structure, such as a diagonal matrix, is a ``LoRA``.

    Attributes:
        u: ``(*batch, m, rank)``, an array or an implicit array, such as a factor of a product of
            two sparse matrices.
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
            dtype: The dtype of both factors.
            rank: The length between the factors.

        Raises:
            ImplicitArrayError: If the shape has fewer than two lengths, or the rank is missing.

        Example:
            >>> LowRank.spec((4, 3), "float32", rank=2)
            LowRank(float32[4, 2], float32[2, 3])
        """
        *batch, m, n = check_spec(cls, shape, rank)
        return cls(TensorType(dtype, (*batch, m, rank)), TensorType(dtype, (*batch, rank, n)))

    def check(self) -> None:
        check_factors(self, self.u, self.v)
        check_same_dtype(self, u=self.u, v=self.v)

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"u": (rows, None), "v": (None, columns)}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        return lengths_of(self.u)[-2], lengths_of(self.v)[-1]

    @property
    def rank(self) -> int | None:
        """The length between the factors."""
        return lengths_of(self.u)[-1]

    def factors(self, xp: Any) -> tuple[Any, Any]:
        return self.u, self.v

    def materialize(self) -> Any:
        xp, u, v = self.xp, self.u, self.v
        # The product of two implicit factors would be this array; MLX multiplies dense arrays only.
        v = densify(v) if is_implicit(u) or xp.name == "MLX" else v
        return xp.matmul(densify(u) if xp.name == "MLX" else u, v)

    # Products.

    def rmatmul(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        low = xp.matmul(x, self.u)
        if is_implicit(x) and not isinstance(x, OneHot):
            return LowRank(low, self.v)
        return xp.matmul(low, self.v)

    # The same elements in another order.

    def matrix_transpose(self) -> Any:
        xp = self.xp
        return LowRank(xp.swapaxes(self.v, -1, -2), xp.swapaxes(self.u, -1, -2))

    # Element by element.

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if f.linear:
            return self._apply_to_smaller(f)
        if f.shift is not None:
            return self._add_number(f.shift)
        match f.name:
            case "add":
                return self._add(f, others[0])
            case "multiply" | "square":
                return self._multiply(*others or (self,))
            case "conj":
                return self.fieldwise(lambda x, own: f(x))
        return NotImplemented

    def _apply_to_smaller(self, f: ElementwiseFunction) -> Any:
        u_size, v_size = product(*lengths_of(self.u)), product(*lengths_of(self.v))
        if u_size is not None and v_size is not None and v_size < u_size:
            return LowRank(self.u, f(self.v))
        return LowRank(f(self.u), self.v)

    def _add_number(self, c: Any) -> Any:
        """Add a 0-d array as one more rank."""
        xp = numpy_like(self, c)
        *lead, _ = xp.shape_of(self.u)
        *batch, _, n = xp.shape_of(self.v)
        value = append_axes(xp, c, self.ndim) if len(lengths_of(c)) else c
        column = xp.broadcast_to(xp.multiply(xp.ones((), self.dtype), value), (*lead, 1))
        row = xp.ones((*batch, 1, n), self.dtype)
        return LowRank(*add_factors(xp, (self.u, self.v), (column, row)))

    def _add(self, f: ElementwiseFunction, other: Any) -> Any:
        xp = numpy_like(self, other)
        if isinstance(other, LowRank):
            return LowRank(*add_factors(xp, (self.u, self.v), (other.u, other.v)))
        if isinstance(other, Zeros | LoRA):
            return other.elementwise(f, self)
        if isinstance(other, Fill) and other.depth <= self.ndim - 2:
            return self._add_number(other.number)
        return LoRA(other, self.u, self.v) if isinstance(other, Structured) else NotImplemented

    def _multiply(self, other: Any) -> Any:
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

    def concatenate(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        have_same_rank = all(isinstance(x, LowRank) and x.rank == self.rank for x in others)
        is_joinable = have_same_rank or axis >= self.ndim - 2
        return super().concatenate(others, axis) if is_joinable else NotImplemented

    def join_columns(self, parts: Sequence[Any]) -> Any:
        rank, n = length_sum(x.rank for x in parts), length_sum(x.matrix[1] for x in parts)
        return super().join_columns(parts) if is_thin(rank, self.matrix[0], n) else NotImplemented


def is_thin(rank: int | None, m: int | None, n: int | None) -> bool:
    """Return whether two factors are known to have fewer elements than their product."""
    return rank is not None and m is not None and n is not None and rank * (m + n) < m * n
