"""Arrays of zeros and of ones, whose values are known before a program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from graphc.config import config
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structures.fill import Fill, is_static, product_dtype
from graphc.implicit.structures.stacked import keeps_zero
from graphc.implicit.treedef import dtype_of
from graphc.ir import dtype_name, is_inexact, numpy_dtype


@dataclass(frozen=True, repr=False)
class ConstantFill(Fill):
    """A fill whose class determines the number; the field ``value`` has its dtype and axes."""

    @classmethod
    def of(cls, shape: Sequence[int], dtype: Any = None) -> Self:  # type: ignore[override]
        """Return an array of a shape, by default of dtype ``config.floatX``.

        Example:
            >>> Ones.of((2, 3), "int8").sum().item()
            6
        """
        dtype = numpy_dtype(dtype_name(config.floatX if dtype is None else dtype))
        return cls(np.full((), cls.constant, dtype), tuple(shape))

    def promote(self, other: Any) -> Any:
        """Return ``other`` in the dtype of its product with this array."""
        xp = numpy_like(self, other)
        dtype = product_dtype(xp, self, other)
        return other if dtype_of(other) == dtype else xp.cast(other, dtype)

    def chosen(self, mask: Any, other: Any, first: bool) -> Any:
        if type(other) is type(self) and other.depth == self.depth:
            return self
        return super().chosen(mask, other, first)


@dataclass(frozen=True, repr=False)
class Zeros(ConstantFill):
    """Zeros: a sum with them is the other operand, and every product with them is zero.

    The product with an infinity or NaN is zero too.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Zeros
        >>> Zeros.of((2, 3), "float32") @ np.ones((3, 4), "float32")
        Zeros(float32[], lengths=(2, 4))
    """

    constant = 0

    def promote_zeros(self, other: Any) -> Zeros:
        """Return these zeros in the dtype of the product with ``other``."""
        xp = numpy_like(self, other)
        return Zeros(xp.cast(self.value, product_dtype(xp, self, other)), self.lengths)

    def times(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        lead = xp.shape_of(x)[:-1]
        if not self.lengths:
            return NotImplemented
        value = xp.zeros((), product_dtype(xp, x, self))
        if is_static(lead):
            return Zeros(value, (*lead, self.lengths[-1]))
        return Zeros(xp.broadcast_to(value, lead), self.lengths[-1:])

    def reduced(self, name: str, axes: tuple[int, ...]) -> Any:
        y = super().reduced(name, axes)
        # The empty product is one, and ``all`` of no elements is true.
        is_zero = isinstance(y, Fill) and name not in {"prod", "all"}
        return Zeros(y.value, y.lengths) if is_zero else y

    def mapped(self, name: str) -> Any:
        y = super().mapped(name)
        return Zeros(y.value, y.lengths) if keeps_zero(name) else y

    def transformed(self, function: Callable[[Any], Any], keeps_zero: bool) -> Any:
        y = super().transformed(function, keeps_zero)
        return Zeros(y.value, y.lengths) if keeps_zero else y

    def against(self, function: Callable[[Any, Any], Any], other: Any) -> Any:
        value = function(self.number, numpy_like(self, other).zeros((), dtype_of(other)))
        return Zeros(value, self.lengths)

    def scaled(self, c: Any) -> Any:
        return self.promote_zeros(c)

    def divided(self, c: Any) -> Any:
        return self.promote_zeros(c) if is_inexact(str(self.dtype)) else NotImplemented

    def weighted(self, vector: Any, axis: int) -> Any:
        return self.promote_zeros(vector)

    def added(self, other: Any) -> Any:
        return self.promote(other)

    def multiplied(self, other: Any) -> Any:
        return self.promote_zeros(other)


@dataclass(frozen=True, repr=False)
class Ones(ConstantFill):
    """Ones: an elementwise product with them is the other operand.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Ones
        >>> Ones.of((2, 3)) * np.arange(6.0).reshape(2, 3)
        array([[0., 1., 2.],
               [3., 4., 5.]])
    """

    constant = 1

    def multiplied(self, other: Any) -> Any:
        return self.promote(other)


BESIDE_ZEROS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda xp, weights: weights,
    "any": lambda xp, weights: weights,
    "max": lambda xp, weights: xp.maximum(weights, xp.zeros_like(weights)),
    "min": lambda xp, weights: xp.minimum(weights, xp.zeros_like(weights)),
    "prod": lambda xp, weights: xp.multiply(weights, xp.zeros_like(weights)),
    "all": lambda xp, weights: xp.zeros_like(weights),
}
"""Reductions of a slice that holds one weight, and zeros elsewhere."""
