"""Arrays of zeros and of ones, whose values are known before a program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from graphc.config import config
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import ElementwiseFunction
from graphc.implicit.structures.fill import Fill, is_static
from graphc.implicit.structures.stacked import joint_dtype
from graphc.implicit.treedef import dtype_of
from graphc.ir import dtype_name, numpy_dtype


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
        dtype = joint_dtype(xp, self, other)
        return other if dtype_of(other) == dtype else xp.cast(other, dtype)

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        is_same = f.name == "where" and type(others[0]) is type(self)
        if is_same and others[0].depth == self.depth:
            return self
        return super().elementwise(f, *others)


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
        return Zeros(xp.cast(self.value, joint_dtype(xp, self, other)), self.lengths)

    def rmatmul(self, x: Any) -> Any:
        xp = numpy_like(self, x)
        lead = xp.shape_of(x)[:-1]
        if not self.lengths:
            return NotImplemented
        value = xp.zeros((), joint_dtype(xp, x, self))
        if is_static(lead):
            return Zeros(value, (*lead, self.lengths[-1]))
        return Zeros(xp.broadcast_to(value, lead), self.lengths[-1:])

    def reduce(self, name: str, axes: tuple[int, ...]) -> Any:
        y = super().reduce(name, axes)
        # The empty product is one, and ``all`` of no elements is true.
        is_zero = isinstance(y, Fill) and name not in {"prod", "all"}
        return Zeros(y.value, y.lengths) if is_zero else y

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        if f.name == "add":
            return self.promote(others[0])
        if f.name == "multiply":
            return self.promote_zeros(others[0])
        if f.keeps_zero and all(isinstance(x, Zeros) for x in f.partners(others)):
            xp = numpy_like(self, *others)
            return Zeros(f(self.number, *[xp.zeros((), dtype_of(x)) for x in others]), self.lengths)
        return super().elementwise(f, *others)

    def scale_along(self, vector: Any, axis: int) -> Any:
        return self.promote_zeros(vector)


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

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        return self.promote(others[0]) if f.name == "multiply" else super().elementwise(f, *others)


BESIDE_ZEROS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda xp, weights: weights,
    "any": lambda xp, weights: weights,
    "max": lambda xp, weights: xp.maximum(weights, xp.zeros_like(weights)),
    "min": lambda xp, weights: xp.minimum(weights, xp.zeros_like(weights)),
    "prod": lambda xp, weights: xp.multiply(weights, xp.zeros_like(weights)),
    "all": lambda xp, weights: xp.zeros_like(weights),
}
"""Reductions of a slice that holds zeros beside some weights, from the weights' own reduction."""
