"""Products of two thin matrices that are never made: what all that hold such do with them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from graphc.implicit.array import ImplicitArray
from graphc.implicit.structures.stacked import Stacked, kept, refuse
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import is_complex, is_inexact


@dataclass(frozen=True, repr=False)
class Factored(Stacked):
    """Matrices that are a product of two factors, and maybe something more."""

    keeps_shardings: ClassVar[bool] = True

    @property
    def more(self) -> Any:
        """The summand beside the product; None if there is none."""
        return None

    @abstractmethod
    def factors(self, xp: Any) -> tuple[Any, Any]:
        """The factors ``(*batch, m, rank)`` and ``(*batch, rank, n)``."""

    @abstractmethod
    def columns_joined(self, parts: Sequence[Any]) -> Any:
        """The columns of this one and others, all factored, side by side."""

    @abstractmethod
    def on_diagonal(self) -> Any:
        """The elements at (i, i) of each matrix."""

    def diagonal(self, offset: int) -> Any:
        m, n = self.matrix
        return NotImplemented if offset or m is None or m != n else self.on_diagonal()

    def matrix_joined(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        if not all(isinstance(x, type(self)) for x in others):
            return NotImplemented
        parts: Any = (self, *others)
        if axis == -1:
            return self.columns_joined(parts)
        y = self.swapped().columns_joined([x.swapped() for x in parts])
        return y if y is NotImplemented else y.swapped()


def check_factors(x: Stacked, a: Any, b: Any) -> None:
    """Raise where two fields are no factors of a product.

    Raises:
        ImplicitArrayError: Says how.
    """
    left, right = lengths_of(a), lengths_of(b)
    if (
        min(len(left), len(right)) < 2
        or left[:-2] != right[:-2]
        or left[-1] != right[-2]
        or len(left) != len(right)
    ):
        raise refuse(
            f"{type(x).__name__}: factors of shapes {list(left)} and {list(right)}.",
            "Give (*batch, m, rank) and (*batch, rank, n).",
        )


def checked_lengths(cls: type[Any], shape: Any, rank: int | None) -> tuple[int | None, ...]:
    """The lengths of an input of that rank.

    Raises:
        ImplicitArrayError: It has fewer than two, or the rank is missing.
    """
    if len(shape) < 2 or rank is None or rank < 0:
        raise refuse(
            f"{cls.__name__}.spec of shape {tuple(shape)}, with rank={rank}.",
            "Give two lengths or more, and rank=r for factors (..., m, r) and (..., r, n).",
        )
    return tuple(shape)


def beside(xp: Any, first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """The factors of the sum of two products: the ranks add up."""
    (a, b), (c, d) = first, second
    return xp.concatenate([a, c], -1), xp.concatenate([b, d], -2)


def columns_joined(xp: Any, pairs: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """The factors of the columns of products side by side: the ranks add up."""
    ranks = [xp.shape_of(b)[-2] for _, b in pairs]
    wide = []
    for i, (_, b) in enumerate(pairs):
        *lead, _, n = xp.shape_of(b)
        above, below = sum(ranks[:i]), sum(ranks[i + 1 :])
        zeros = [xp.zeros((*lead, rank, n), dtype_of(b)) for rank in (above, below)]
        wide.append(xp.concatenate([zeros[0], b, zeros[1]], -2))
    return xp.concatenate([a for a, _ in pairs], -1), xp.concatenate(wide, -1)


def total(xp: Any, a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    """The sum of ``a @ b`` over axes -2, -1 or both."""
    row = kept(xp, "sum", a, (-2,)) if -2 in axes else None
    column = kept(xp, "sum", b, (-1,)) if -1 in axes else None
    if row is None:
        return xp.getitem(xp.matmul(a, xp.expand_dims(column, -1)), (..., 0))
    if column is None:
        return xp.getitem(xp.matmul(xp.expand_dims(row, -2), b), (..., 0, slice(None)))
    return kept(xp, "sum", xp.multiply(row, column), (-1,))


def paired_sum(xp: Any, a: Any, b: Any) -> Any:
    """The diagonals of ``a @ b``."""
    return kept(xp, "sum", xp.multiply(a, xp.swapaxes(b, -1, -2)), (-1,))


def summed(xp: Any, a: Any, b: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """The factors of the sum of a stack of products along axes of the stack."""
    k = len(lengths_of(a)) - 2
    rest = [axis for axis in range(k) if axis not in axes]
    a = xp.transpose(a, (*rest, k, *axes, k + 1))
    b = xp.transpose(b, (*rest, *axes, k, k + 1))
    left, right = xp.shape_of(a), xp.shape_of(b)
    rank = math.prod(left[len(rest) + 1 :])
    lead = left[: len(rest)]
    return xp.reshape(a, (*lead, left[len(rest)], rank)), xp.reshape(b, (*lead, rank, right[-1]))


def keeps_products(own: Any, dtype: Any) -> bool:
    """Whether a cast of both factors casts the product: but for rounding, or modulo 2**bits."""
    a, b = str(own), str(dtype)
    if is_inexact(a):
        return is_complex(b) or (is_inexact(b) and not is_complex(a))
    return own.kind in "iu" and dtype.kind in "iu" and bool(dtype.itemsize <= own.itemsize)


def bounds(places: range) -> slice:
    """A range as an index."""
    return slice(places.start, places.stop, places.step)
