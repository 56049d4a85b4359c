"""Identity matrices and their multiples, stored as one number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from graphc.config import config
from graphc.errors import ImplicitArrayError
from graphc.implicit.array import aux_field, is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import ElementwiseFunction, Structured, scaling
from graphc.implicit.structures.diagonal import SquareDiagonal, diagonal_mask
from graphc.implicit.structures.fill import append_axes
from graphc.ir import TensorType, dtype_name, numpy_dtype


@dataclass(frozen=True, repr=False)
class Identity(SquareDiagonal):
    """A multiple of the identity matrix, or a stack of such matrices.

    A product multiplies the other operand by the number. Sums, products and parts that are no
    multiples of the identity are ``Diagonal`` or one-hot.

    Attributes:
        scale: The number on the diagonal, ``(*batch,)``.
        n: The number of rows and columns.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Identity
        >>> i = Identity.of(3)
        >>> i @ (i + i), (i * 2.0) @ np.array([1.0, 2.0, 3.0])
        (Identity(float64[], n=3), array([2., 4., 6.]))
    """

    scale: Any
    n: int = aux_field()

    @classmethod
    def of(cls, n: int, dtype: Any = None) -> Self:
        """Return the identity matrix, by default of dtype ``config.floatX``.

        Example:
            >>> np.asarray(Identity.of(2, "int64")).tolist()
            [[1, 0], [0, 1]]
        """
        dtype = numpy_dtype(dtype_name(config.floatX if dtype is None else dtype))
        return cls(np.ones((), dtype), n)

    @classmethod
    def spec(cls, shape: Any, dtype: Any) -> Self:  # type: ignore[override]
        """Return the type of an input of shape ``(*batch, n, n)`` with known n.

        Raises:
            ImplicitArrayError: If the last two lengths differ or are unknown.
        """
        *batch, m, n = shape
        if m != n or n is None:
            raise ImplicitArrayError(
                f"Identity.spec({tuple(shape)}): {m} rows and {n} columns.",
                "Give the lengths of a square matrix, which are part of its type.",
            )
        return cls(TensorType(dtype, tuple(batch)), n)

    def check(self) -> None:
        if not isinstance(self.n, int | np.integer) or self.n < 0:
            raise ImplicitArrayError(f"Identity of {self.n!r} rows.", "Give an integer from 0 on.")

    def own_axes(self) -> Mapping[str, int]:
        return {"scale": 0}

    @property
    def matrix(self) -> tuple[int | None, int | None]:
        return self.n, self.n

    @property
    def entries(self) -> Any:
        xp = self.xp
        return xp.broadcast_to(xp.expand_dims(self.scale, -1), (*xp.shape_of(self.scale), self.n))

    def materialize(self) -> Any:
        xp = self.xp
        scale = append_axes(xp, self.scale, self.ndim)
        return xp.where(diagonal_mask(xp, self.n), scale, xp.zeros_like(scale))

    def map_entries(self, function: Any) -> Any:
        return Identity(function(self.scale), self.n)

    def rmatmul(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        if isinstance(x, Identity):
            return Identity(xp.multiply(x.scale, self.scale), self.n)
        if not is_implicit(x):
            return xp.multiply(x, append_axes(xp, self.scale, self.ndim))
        if self.ndim == 2 and isinstance(x, Structured):
            return x.elementwise(scaling(self.scale))
        return super().rmatmul(x)

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if f.keeps_zero and all(isinstance(x, Identity) for x in others):
            return Identity(f(self.scale, *[x.scale for x in others]), self.n)
        return super().elementwise(f, *others)
