"""Low-rank adapters: a frozen matrix, and an update of low rank that learns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from graphc.implicit.array import ImplicitArray, is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import whole
from graphc.implicit.structures.diagonal import diagonal_of
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
from graphc.implicit.structures.fill import spread, widened
from graphc.implicit.structures.one_hot import OneHot
from graphc.implicit.structures.stacked import kept, refuse, same_dtype
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import Node, TensorType, is_inexact


@dataclass(frozen=True, repr=False)
class LoRA(Factored):
    """``base + scale * a @ b``: a matrix and an update of low rank, or a stack of such.

    The base may be implicit itself, as a quantised one. The product of a and b is never made:
    ``x @ lora`` is ``x @ base + ((x @ a) * scale) @ b``. Differentiate by ``lora.a``, ``lora.b``
    and ``lora.scale``; the base, with respect to which none is requested, costs no gradient.

    Attributes:
        base: ``(*batch, m, n)``, an array or an implicit one.
        a: ``(*batch, m, rank)``.
        b: ``(*batch, rank, n)``.
        scale: A number, ``(*batch,)``; None for 1.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import LoRA
        >>> w = LoRA.of(np.ones((4, 3)), rank=2, seed=0)
        >>> w, np.ones(4) @ w
        (LoRA(float64[4, 3], float64[4, 2], float64[2, 3], float64[]), array([4., 4., 4.]))
        >>> w.merged().shape
        (4, 3)
    """

    base: Any
    a: Any
    b: Any
    scale: Any = None

    frozen_fields: ClassVar[tuple[str, ...] | None] = ("base", "scale")

    @classmethod
    def of(
        cls,
        base: Any,
        rank: int,
        *,
        alpha: float | None = None,
        rank_stabilized: bool = False,
        seed: Any = 0,
    ) -> Self:
        """The base with an update that is zero before it learns.

        ``a`` is drawn from the normal distribution with variance 1 / m, so that ``x @ a`` is as
        large as x; ``b`` is zero; the scale is ``alpha / rank``. With ``rank_stabilized`` (rsLoRA)
        it is ``alpha / sqrt(rank)``, with which updates of high rank learn as fast as others.

        Args:
            base: ``(*batch, m, n)``, floating: an array of any library, or implicit.
            rank: The rank of the update, at least 1.
            alpha: Its strength, by default what makes the scale 1.
            rank_stabilized: Whether the scale falls by the root of the rank.
            seed: What ``numpy.random.default_rng`` takes: an integer, or a generator.

        Raises:
            ImplicitArrayError: The base is no floating matrix, or the rank is no positive integer.

        Example:
            >>> import numpy as np
            >>> LoRA.of(np.ones((4, 3), "float32"), 2, alpha=4).scale
            array(2., dtype=float32)

        Source: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, ICLR 2022;
            Kalajdzievski, A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA, 2023.
        """
        shape, dtype = lengths_of(base), dtype_of(base)
        if len(shape) < 2 or None in shape or not is_inexact(str(dtype)):
            raise refuse(
                f"LoRA.of: a base of {dtype}{list(shape)}.",
                "Give a floating matrix of known shape.",
            )
        if not isinstance(rank, int | np.integer) or rank < 1:
            raise refuse(f"LoRA.of: a rank of {rank!r}.", "Give an integer from 1 on.")
        lengths: Any = shape
        *batch, m, n = lengths
        draws = np.random.default_rng(seed).standard_normal((*batch, m, rank))
        a = (draws / math.sqrt(max(m, 1))).astype(dtype)
        divisor = math.sqrt(rank) if rank_stabilized else rank
        scale = np.full(batch, (divisor if alpha is None else alpha) / divisor, dtype)
        fields = [a, np.zeros((*batch, rank, n), dtype), scale]
        return cls(base, *[like(base, x) for x in fields])

    @classmethod
    def spec(  # type: ignore[override]
        cls, shape: Any, dtype: Any, rank: int | None = None, base: Any = None, scaled: bool = False
    ) -> Self:
        """Return the type of an input.

        Args:
            shape: ``(*batch, m, n)``.
            dtype: Of all parts.
            rank: The rank of the update.
            base: What the base is, as a ``spec`` of another class gives it; dense by default.
            scaled: Whether it has a scale.

        Raises:
            ImplicitArrayError: It is no matrix, or the rank is missing.

        Example:
            >>> LoRA.spec((4, 3), "float32", rank=2)
            LoRA(float32[4, 3], float32[4, 2], float32[2, 3], None)
        """
        *batch, m, n = checked_lengths(cls, shape, rank)
        return cls(
            TensorType(dtype, shape) if base is None else base,
            TensorType(dtype, (*batch, m, rank)),
            TensorType(dtype, (*batch, rank, n)),
            TensorType(dtype, tuple(batch)) if scaled else None,
        )

    def check(self) -> None:
        check_factors(self, self.a, self.b)
        base, a, b = map(lengths_of, (self.base, self.a, self.b))
        if base != (*a[:-1], b[-1]):
            raise refuse(
                f"LoRA: a base of shape {list(base)}, but a @ b of {[*a[:-1], b[-1]]}.",
                "Give a of shape (*batch, m, rank) and b of (*batch, rank, n), for (*batch, m, n).",
            )
        if self.scale is not None and lengths_of(self.scale) != a[:-2]:
            raise refuse(
                f"LoRA: a scale of shape {list(lengths_of(self.scale))}, but a stack of "
                f"{list(a[:-2])}.",
                "Give a number for each matrix.",
            )
        same_dtype(self, base=self.base, a=self.a, b=self.b, scale=self.scale)

    def own_axes(self) -> Mapping[str, int]:
        return {"a": 2, "base": 2, "b": 2, "scale": 0}

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"base": (rows, columns), "a": (rows, None), "b": (None, columns)}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        """The rows of a and the columns of b."""
        return lengths_of(self.a)[-2], lengths_of(self.b)[-1]

    @property
    def dtype(self) -> Any:
        """The common dtype of all fields."""
        return dtype_of(self.a)

    def materialize(self) -> Any:
        xp = self.xp
        return xp.add(whole(self.base), xp.matmul(*self.factors(xp)))

    def merged(self) -> Any:
        """The base with the update added, as a whole array; no policy forbids it."""
        return whole(self)

    def unmerged(self, w: Any) -> LoRA:
        """The same update of another base, such that the two together are ``w``.

        Args:
            w: ``(*batch, m, n)``, an array such as ``merged`` gives.

        Example:
            >>> import numpy as np
            >>> lora = LoRA(np.eye(2), np.ones((2, 1)), np.ones((1, 2)))
            >>> lora.unmerged(lora.merged()).base.tolist()
            [[1.0, 0.0], [0.0, 1.0]]
        """
        xp = numpy_like(self, w)
        return self.with_scale(xp.subtract(w, xp.matmul(*self.factors(xp))), self.scale)

    @property
    def more(self) -> Any:
        """The base."""
        return self.base

    def factors(self, xp: Any) -> tuple[Any, Any]:
        """``scale * a`` and b."""
        if self.scale is None:
            return self.a, self.b
        return xp.multiply(self.a, spread(xp, self.scale, self.ndim)), self.b

    def strength(self, xp: Any) -> Any:
        """The scale, also where it is None."""
        return xp.ones(xp.shape_of(self.a)[:-2], self.dtype) if self.scale is None else self.scale

    def on_diagonal(self) -> Any:
        """The elements at (i, i) of each matrix."""
        xp = self.xp
        base = diagonal_of(xp, self.base)
        if base is NotImplemented:
            return NotImplemented
        return xp.add(base, paired_sum(xp, *self.factors(xp)))

    # Products.

    def times(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        through = xp.matmul(x, self.base)
        if is_implicit(x) and not isinstance(x, OneHot):
            # The result has as much structure as the two together.
            return LoRA(through, xp.matmul(x, self.a), self.b, self.scale)
        low = xp.matmul(x, self.a)
        if self.scale is not None:
            low = xp.multiply(low, spread(xp, self.scale, self.ndim))
        return xp.add(through, xp.matmul(low, self.b))

    # Linear systems, where the base is implicit: one of the base, and one of rank rows.

    def _update_solved(self, xp: Any, *sides: Any) -> tuple[Any, Any, tuple[Any, ...]]:
        """Solutions of the base for the scaled ``a`` and other sides.

        Returns:
            ``base⁻¹ a``; ``1 + b base⁻¹ a``, whose determinant times the base's is that of the
            sum; and the solutions for the other sides.
        """
        a, b = self.factors(xp)
        together = xp.solve(self.base, xp.concatenate([a, *sides], -1) if sides else a)
        rank = xp.shape_of(a)[-1]
        through = xp.getitem(together, (..., slice(None, rank))) if sides else together
        rest = (xp.getitem(together, (..., slice(rank, None))),) if sides else ()
        inner = xp.matmul(b, through)
        return through, xp.add(inner, xp.eye(rank, dtype=self.dtype)), rest

    def solved(self, b: Any) -> Any:
        """By Woodbury's identity; of a singular base NaN, of one near it few digits are left."""
        if not _is_structured(self.base):
            return NotImplemented
        xp = numpy_like(self, b)
        through, inner, (y,) = self._update_solved(xp, b)
        return xp.subtract(y, xp.matmul(through, xp.solve(inner, xp.matmul(self.b, y))))

    def inverted(self) -> Any:
        if not _is_structured(self.base):
            return NotImplemented
        xp = self.xp
        through, inner, _ = self._update_solved(xp)
        inverse = xp.inv(self.base)
        right = xp.solve(inner, xp.matmul(self.b, inverse))
        return LoRA(inverse, xp.negative(through), right)

    def slogdet(self) -> Any:
        """By the matrix determinant lemma; of a singular base NaN."""
        if not _is_structured(self.base):
            return NotImplemented
        xp = self.xp
        _, inner, _ = self._update_solved(xp)
        (one, base), (two, rest) = xp.slogdet(self.base), xp.slogdet(inner)
        return xp.multiply(one, two), xp.add(base, rest)

    # The same elements in other places.

    def swapped(self) -> Any:
        xp = self.xp
        base, a, b = [xp.swapaxes(x, -1, -2) for x in (self.base, self.a, self.b)]
        return LoRA(base, b, a, self.scale)

    def window(self, rows: range, columns: range) -> Any:
        xp = self.xp
        down, across = bounds(rows), bounds(columns)
        return LoRA(
            xp.getitem(self.base, (..., down, across)),
            xp.getitem(self.a, (..., down, slice(None))),
            xp.getitem(self.b, (..., slice(None), across)),
            self.scale,
        )

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        a, b = self.factors(xp)
        return xp.add(xp.getitem(self.base, index), xp.matmul(xp.getitem(a, index), b))

    def joined(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        parts: Any = (self, *others)
        if axis >= self.ndim - 2:
            return self.matrix_joined(others, axis - self.ndim)
        if not all(
            isinstance(x, LoRA) and lengths_of(x.b)[-2] == lengths_of(self.b)[-2] for x in parts
        ):
            return NotImplemented
        xp = numpy_like(*parts)
        fields = [[x.base for x in parts], [x.a for x in parts], [x.b for x in parts]]
        if any(x.scale is not None for x in parts):
            fields.append([x.strength(xp) for x in parts])
        return LoRA(*[xp.concatenate(field, axis) for field in fields])

    def columns_joined(self, parts: Sequence[Any]) -> Any:
        xp = numpy_like(*parts)
        base = xp.concatenate([x.base for x in parts], -1)
        return LoRA(base, *columns_joined(xp, [x.factors(xp) for x in parts]))

    # Element by element.

    def with_scale(self, base: Any, scale: Any) -> LoRA:
        """Another base and scale."""
        return LoRA(base, self.a, self.b, scale)

    def cast(self, dtype: Any) -> Any:
        if not keeps_products(self.dtype, dtype):
            return NotImplemented
        xp = self.xp
        return self.fieldwise(lambda x, own: xp.cast(x, dtype))

    def scaled(self, c: Any) -> Any:
        xp = numpy_like(self, c)
        return self.with_scale(xp.multiply(self.base, c), xp.multiply(self.strength(xp), c))

    def divided(self, c: Any) -> Any:
        if not is_inexact(str(self.dtype)):
            return NotImplemented
        xp = numpy_like(self, c)
        return self.with_scale(xp.divide(self.base, c), xp.divide(self.strength(xp), c))

    def shifted(self, c: Any) -> Any:
        return self.with_scale(numpy_like(self, c).add(self.base, c), self.scale)

    def weighted(self, vector: Any, axis: int) -> Any:
        xp = numpy_like(self, vector)
        behind = self.ndim - axis
        weights = spread(xp, vector, behind)
        base = xp.multiply(self.base, weights)
        if behind == 1:
            return LoRA(base, self.a, xp.multiply(self.b, weights), self.scale)
        return LoRA(base, xp.multiply(self.a, weights), self.b, self.scale)

    def added(self, other: Any) -> Any:
        xp = numpy_like(self, other)
        if not isinstance(other, Factored):
            return self.with_scale(xp.add(self.base, other), self.scale)
        base = self.base if other.more is None else xp.add(self.base, other.more)
        return LoRA(base, *beside(xp, self.factors(xp), other.factors(xp)))

    def mapped(self, name: str) -> Any:
        xp = self.xp
        match name:
            case "negative":
                return self.with_scale(xp.negative(self.base), xp.negative(self.strength(xp)))
            case "conj":
                return self.fieldwise(lambda x, own: xp.conj(x))
        return NotImplemented

    # Over axes.

    def matrix_reduced(self, name: str, axes: tuple[int, ...]) -> Any:
        if name != "sum":
            return NotImplemented
        xp = self.xp
        return xp.add(kept(xp, "sum", self.base, axes), total(xp, *self.factors(xp), axes))

    def batch_summed(self, axes: tuple[int, ...]) -> Any:
        xp = self.xp
        return LoRA(kept(xp, "sum", self.base, axes), *summed(xp, *self.factors(xp), axes))


def _is_structured(x: Any) -> bool:
    """Whether an array is implicit, or a symbolic one is made of an implicit one, as transposed."""
    while not is_implicit(x):
        if not isinstance(x, Node) or not x.inputs:
            return False
        x = x.array if hasattr(x, "array") else x.inputs[0]
    return True


def like(base: Any, x: np.ndarray[Any, Any]) -> Any:
    """An array of the library of another; NumPy's where that is symbolic."""
    xp = numpy_like(base)
    if xp.name == "graphc":
        return x
    return xp.cast(xp.array(x.astype(widened(x.dtype))), x.dtype)
