"""Matrices with scaled rows or columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from graphc.implicit.array import aux_field, with_fields
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.stacked import (
    Stacked,
    check_same_dtype,
    materialize_unchecked,
    refuse,
)
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import dtype_name, is_inexact


class OfChannels(Stacked):
    """A matrix ``of`` with an operation on its rows, or, if ``columns`` holds, its columns."""

    if TYPE_CHECKING:
        # Fields of each subclass, which has its own fields between them.
        @property
        def of(self) -> Any: ...
        @property
        def columns(self) -> bool: ...

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        """The number of rows and columns."""
        rows, columns = lengths_of(self.of)[-2:]
        return rows, columns

    def swapped(self) -> Any:
        own: Any = with_fields(self, {"of": self.xp.swapaxes(self.of, -1, -2)})
        return replace(own, columns=not self.columns)


@dataclass(frozen=True, repr=False)
class ChannelScaled(OfChannels):
    """A matrix whose rows, or columns, are multiplied by numbers: ``factors[:, None] * of``.

    ``x @ w`` equals ``(x * factors) @ of``. So rows can be scaled before they are quantized, as in
    activation-aware quantization.

    Attributes:
        of: The other matrix, ``(*batch, m, n)``, an array or an implicit one.
        factors: ``(*batch, m)``; for columns ``(*batch, n)``.
        columns: Whether columns are multiplied.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit.quantized import quantize
        >>> w = ChannelScaled(quantize(np.ones((2, 64)), "int8"), np.array([1.0, 3.0]))
        >>> w.shape, (np.ones(2) @ w)[:2]
        ((2, 64), array([4., 4.]))
    """

    of: Any
    factors: Any
    columns: bool = aux_field(default=False)

    def check(self) -> None:
        of, factors = lengths_of(self.of), lengths_of(self.factors)
        channels = of[:-2] + (of[-1:] if self.columns else of[-2:-1])
        if len(of) < 2 or channels != factors:
            raise refuse(
                f"ChannelScaled: a matrix of shape {list(of)}, factors of {list(factors)}.",
                f"Give a factor for each {'column' if self.columns else 'row'}.",
            )
        check_same_dtype(self, of=self.of, factors=self.factors)

    def own_axes(self) -> Mapping[str, int]:
        return {"factors": 1, "of": 2}

    def matrix_specs(self, rows: Any, columns: Any) -> Mapping[str, tuple[Any, ...]]:
        return {"of": (rows, columns), "factors": (columns if self.columns else rows,)}

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return dtype_of(self.factors)

    def materialize(self) -> Any:
        return materialize_unchecked(self.of) * self.xp.expand_dims(
            self.factors, -2 if self.columns else -1
        )

    def times(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        factors = xp.expand_dims(self.factors, -2)
        if self.columns:
            return xp.matmul(x, self.of) * factors
        return xp.matmul(x * factors, self.of)

    def matrix_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        rows = materialize_unchecked(xp.take(self.of, index, 0))
        if self.columns:
            return rows * self.factors
        return rows * xp.expand_dims(xp.take(self.factors, index, 0), -1)

    def cast(self, dtype: Any) -> Any:
        if not is_inexact(dtype_name(dtype)):
            return NotImplemented
        xp, kind = self.xp, dtype_name(dtype)
        return with_fields(
            self, {"of": xp.cast(self.of, kind), "factors": xp.cast(self.factors, kind)}
        )

    def scaled(self, c: Any) -> Any:
        return with_fields(self, {"factors": numpy_like(self, c).multiply(self.factors, c)})
