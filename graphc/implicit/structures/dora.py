"""Adapters that learn an update of low rank and, separately, the length of each column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import aux_field, is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.policy import densify
from graphc.implicit.structures.channels import ChannelScaled
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.structures.stacked import Stacked, check_same_dtype
from graphc.implicit.treedef import lengths_of


@dataclass(frozen=True, repr=False)
class DoRA(Stacked):
    """A ``LoRA`` whose columns are scaled to lengths that learn, or a stack of such matrices.

    With ``V = base + scale * a @ b`` the matrix is ``magnitude * V / |V|``, where ``|V|`` are the
    lengths of columns. They follow from ``a``, ``b`` and products with the base: V is never formed.

    Attributes:
        lora: The ``LoRA``, ``(*batch, m, n)``.
        magnitude: The lengths of columns, ``(*batch, n)``, or of rows, ``(*batch, m)``.
        squares: The sums of squares of the base's columns, or rows. They do not learn.
        axis: The axis along which ``magnitude`` lies: -1 has a length for each column, an output
            of ``x @ w``; -2 for each row, an output of ``w @ x``.

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
        cls,
        base: Any,
        rank: int,
        *,
        alpha: float | None = None,
        axis: int = -1,
        seed: Any = 0,
        key: Any = None,
    ) -> Self:
        """Return the base with an update that is zero before training.

        Args:
            base: ``(*batch, m, n)``, floating: an array of any library, or an implicit one, which
                is made dense once to measure its columns.
            rank: The rank of the update, at least 1.
            alpha: The strength of the update, by default the rank, so that the scale is 1.
            axis: The axis along which lengths lie, -1 or -2.
            seed: A seed or generator of ``numpy.random.default_rng``.
            key: Replaces the seed: the data of a key, as ``jax.random.key_data`` returns it.

        Raises:
            ImplicitArrayError: If the base is no floating matrix, the rank no positive integer, or
                the axis neither -1 nor -2.

        Example:
            >>> import numpy as np
            >>> DoRA.of(np.diag([3.0, 4.0]), 1).magnitude
            array([3., 4.])
        """
        if axis not in {-1, -2}:
            raise ImplicitArrayError(
                f"DoRA.of(axis={axis!r}).", "Give -1 for columns, or -2 for rows."
            )
        lora = LoRA.of(base, rank, alpha=alpha, seed=seed, key=key)
        xp = numpy_like(base)
        dense = densify(base) if is_implicit(base) else base
        squares = xp.sum(xp.multiply(dense, dense), -3 - axis)
        return cls(lora, xp.sqrt(squares), squares, axis)

    def check(self) -> None:
        lengths = lengths_of(self.lora)
        expected = (*lengths[:-2], lengths[self.axis])
        for name in ("magnitude", "squares"):
            if lengths_of(getattr(self, name)) != expected:
                raise ImplicitArrayError(
                    f"DoRA: {name} of shape {list(lengths_of(getattr(self, name)))} for a matrix "
                    f"of {list(lengths)}, axis {self.axis}.",
                    f"Give {list(expected)}.",
                )
        check_same_dtype(self, lora=self.lora, magnitude=self.magnitude, squares=self.squares)

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        lengths_spec = (columns if self.axis == -1 else rows,)
        return {"lora": (rows, columns), "magnitude": lengths_spec, "squares": lengths_spec}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        rows, columns = lengths_of(self.lora)[-2:]
        return rows, columns

    def ratio(self, xp: Any) -> Any:
        """Return the factor of each column, or row: its learned length over the adapter's."""
        lora = self.lora if self.axis == -1 else self.lora.matrix_transpose()
        a, b = lora.factors(xp)
        a_transposed = xp.swapaxes(a, -1, -2)
        # |base + a b|² of columns = |base|² + (2 aᵀ base + aᵀ a b) · b, without forming a b.
        cross = xp.add(
            xp.multiply(xp.matmul(a_transposed, lora.base), 2),
            xp.matmul(xp.matmul(a_transposed, a), b),
        )
        squares = xp.add(self.squares, xp.sum(xp.multiply(cross, b), -2))
        return xp.divide(self.magnitude, xp.sqrt(squares))

    @property
    def scaled(self) -> ChannelScaled:
        """The adapter with scaled columns, or rows: the same matrix."""
        return ChannelScaled(self.lora, self.ratio(self.xp), self.axis == -1)

    def materialize(self) -> Any:
        return self.scaled.materialize()

    def merged(self) -> Any:
        """Return the dense array. The materialization policy does not apply."""
        return densify(self)

    def rmatmul(self, x: Any) -> Any:
        return NotImplemented if is_implicit(x) else self.scaled.rmatmul(x)

    def matrix_transpose(self) -> Any:
        return DoRA(self.lora.matrix_transpose(), self.magnitude, self.squares, -3 - self.axis)

    def matrix_rows(self, index: Any) -> Any:
        return self.scaled.matrix_rows(index)
