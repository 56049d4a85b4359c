"""Adapters that learn a direction of low rank, and the length of each column apart from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from graphc.implicit.array import aux_field, is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import whole
from graphc.implicit.structures.fill import spread
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.structures.stacked import Stacked, refuse, same_dtype
from graphc.implicit.treedef import dtype_of, lengths_of


@dataclass(frozen=True, repr=False)
class DoRA(Stacked):
    """The columns of a ``LoRA``, each scaled to a length that learns; or a stack of such.

    With ``V = base + scale * a @ b`` it is ``magnitude * V / |V|``, where ``|V|`` are the lengths
    of columns. They follow from ``a``, ``b`` and products with the base, so that V is never made.

    Attributes:
        lora: The ``LoRA``, ``(*batch, m, n)``.
        magnitude: The lengths, ``(*batch, n)``; or ``(*batch, m)`` for those of rows.
        squares: The sums of squares of the base's columns, or rows. They do not learn.
        axis: Which axis has an element of ``magnitude`` each: -1 for columns, the outputs of
            ``x @ w``, or -2 for rows, those of ``w @ x``.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import DoRA
        >>> w = DoRA.of(np.ones((4, 3)), rank=2)
        >>> w, np.ones(4) @ w
        (DoRA(LoRA(float64[4, 3], float64[4, 2], float64[2, 3], float64[]), float64[3], float64[3],
         axis=-1), array([4., 4., 4.]))

    Source: Liu et al., DoRA: Weight-Decomposed Low-Rank Adaptation, ICML 2024.
    """

    lora: Any
    magnitude: Any
    squares: Any
    axis: int = aux_field(default=-1)

    materialize_through: ClassVar[bool] = False
    frozen_fields: ClassVar[tuple[str, ...] | None] = ("squares",)

    @classmethod
    def of(
        cls, base: Any, rank: int, *, alpha: float | None = None, axis: int = -1, seed: Any = 0
    ) -> Self:
        """The base, with an update that is zero before it learns.

        Args:
            base: ``(*batch, m, n)``, floating: an array of any library, or implicit. It is made
                whole once, to measure it.
            rank: The rank of the update, at least 1.
            alpha: Its strength, by default the rank, so that the scale is 1.
            axis: Which axis has a length for each element: -1 or -2.
            seed: What ``numpy.random.default_rng`` takes: an integer, or a generator.

        Raises:
            ImplicitArrayError: The base is no floating matrix, the rank is no positive integer, or
                the axis is another one.

        Example:
            >>> import numpy as np
            >>> DoRA.of(np.diag([3.0, 4.0]), 1).magnitude
            array([3., 4.])
        """
        if axis not in {-1, -2}:
            raise refuse(f"DoRA.of(axis={axis!r}).", "Give -1 for columns, or -2 for rows.")
        lora = LoRA.of(base, rank, alpha=alpha, seed=seed)
        xp = numpy_like(base)
        dense = whole(base) if is_implicit(base) else base
        squares = xp.sum(xp.multiply(dense, dense), -3 - axis)
        return cls(lora, xp.sqrt(squares), squares, axis)

    def check(self) -> None:
        lengths = lengths_of(self.lora)
        wanted = (*lengths[:-2], lengths[self.axis])
        for name in ("magnitude", "squares"):
            if lengths_of(getattr(self, name)) != wanted:
                raise refuse(
                    f"DoRA: {name} of shape {list(lengths_of(getattr(self, name)))} for a matrix "
                    f"of {list(lengths)}, axis {self.axis}.",
                    f"Give {list(wanted)}.",
                )
        same_dtype(self, lora=self.lora, magnitude=self.magnitude, squares=self.squares)

    def own_axes(self) -> Mapping[str, int]:
        return {"lora": 2, "magnitude": 1, "squares": 1}

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        own = (columns if self.axis == -1 else rows,)
        return {"lora": (rows, columns), "magnitude": own, "squares": own}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        """The adapter's rows and columns."""
        rows, columns = lengths_of(self.lora)[-2:]
        return rows, columns

    @property
    def dtype(self) -> Any:
        """The common dtype of all fields."""
        return dtype_of(self.magnitude)

    def ratio(self, xp: Any) -> Any:
        """By what the adapter's columns, or rows, are multiplied: wanted lengths over its own."""
        lora = self.lora if self.axis == -1 else self.lora.swapped()
        a, b = lora.factors(xp)
        across = xp.swapaxes(a, -1, -2)
        # |base + a b|² by columns; neither sum has an axis as long as both of the matrix's.
        mixed = xp.add(
            xp.multiply(xp.matmul(across, lora.base), 2), xp.matmul(xp.matmul(across, a), b)
        )
        own = xp.add(self.squares, xp.sum(xp.multiply(mixed, b), -2))
        return xp.divide(self.magnitude, xp.sqrt(own))

    def materialize(self) -> Any:
        xp = self.xp
        return xp.multiply(whole(self.lora), spread(xp, self.ratio(xp), -self.axis))

    def merged(self) -> Any:
        """The whole array, which no policy forbids."""
        return whole(self)

    def times(self, x: Any) -> Any:
        if is_implicit(x):
            return NotImplemented
        xp = numpy_like(self, x)
        ratio = xp.expand_dims(self.ratio(xp), -2)
        if self.axis == -1:
            return xp.multiply(xp.matmul(x, self.lora), ratio)
        return xp.matmul(xp.multiply(x, ratio), self.lora)

    def swapped(self) -> Any:
        return DoRA(self.lora.swapped(), self.magnitude, self.squares, -3 - self.axis)

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        rows, ratio = self.lora.matrix_rows(index), self.ratio(xp)
        if self.axis == -1:
            return xp.multiply(rows, ratio)
        return xp.multiply(rows, xp.expand_dims(xp.getitem(ratio, index), -1))
