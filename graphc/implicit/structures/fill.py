"""Arrays whose elements are all equal, stored as a value and a shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray, aux_field, is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import ElementwiseFunction, Structured
from graphc.implicit.structures.stacked import as_slice, joint_dtype, reduce_in_dtype
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name, numpy_dtype


def accumulation_dtype(dtype: Any) -> Any:
    """Return the dtype for sums: float32 for half-width floats, else the dtype itself."""
    return np.dtype("float32") if str(dtype) in {"float16", "bfloat16"} else dtype


@dataclass(frozen=True, repr=False)
class Fill(Structured):
    """An array whose elements are all equal.

    Products with it are sums: ``x @ Fill(v, (k, n))`` is v times the sum of each row of x.
    Elementwise functions are computed once. If the value has axes, they are the first axes of the
    array: a stack of fills, as in a loop or under ``vmap``, is a fill with a stack of values.

    Attributes:
        value: The value; a 0-d array, or an array of the first lengths of the shape.
        lengths: The other lengths.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import Fill
        >>> x = Fill.of((2, 3), 0.5)
        >>> x, x.shape, (x @ np.ones((3, 4))).tolist()[0]
        (Fill(float64[], lengths=(2, 3)), (2, 3), [1.5, 1.5, 1.5, 1.5])
        >>> x * 4 + 1
        Fill(float64[], lengths=(2, 3))
    """

    value: Any
    lengths: tuple[int, ...] = aux_field(default=())

    constant: ClassVar[int | None] = None

    @classmethod
    def of(cls, shape: Sequence[int], value: Any, dtype: Any = None) -> Self:
        """Return an array of equal elements.

        Args:
            shape: The shape of the array.
            value: A number or a 0-d array of any library.
            dtype: The dtype of the array; by default the value's, or NumPy's for a number.

        Example:
            >>> Fill.of((2, 3), 1.5, "float32")
            Fill(float32[], lengths=(2, 3))
        """
        if not hasattr(value, "dtype"):
            value = np.asarray(value, None if dtype is None else numpy_dtype(dtype_name(dtype)))
        elif dtype is not None:
            value = numpy_like(value).cast(value, dtype_name(dtype))
        return cls(value, tuple(shape))

    @classmethod
    def spec(cls, shape: Any, dtype: Any) -> Self:  # type: ignore[override]
        """Return the type of an input; its value has the lengths up to the last unknown one.

        Example:
            >>> Fill.spec((None, 3), "float32")
            Fill(float32[?], lengths=(3,))
        """
        first = max([i + 1 for i, n in enumerate(shape) if n is None], default=0)
        return cls(TensorType(dtype, shape[:first]), tuple(shape[first:]))

    def check(self) -> None:
        if any(not isinstance(n, int | np.integer) or n < 0 for n in self.lengths):
            raise ImplicitArrayError(
                f"{type(self).__name__} of lengths {self.lengths!r}.",
                "Give a tuple of integers from 0 on.",
            )

    @property
    def shape(self) -> tuple[Any, ...]:
        """The lengths of the value, then the others."""
        return (*lengths_of(self.value), *self.lengths)

    @property
    def dtype(self) -> Any:
        """The dtype of the value."""
        return dtype_of(self.value)

    @property
    def number(self) -> Any:
        """The value of the elements, with the axes of ``value``."""
        if self.constant is None:
            return self.value
        xp = self.xp
        return (xp.ones_like if self.constant else xp.zeros_like)(self.value)

    @property
    def depth(self) -> int:
        """The number of axes of the value."""
        return self.ndim - len(self.lengths)

    def append_axes(self, ndim: int) -> Any:
        return append_axes(self.xp, self.number, ndim)

    def with_value(self, value: Any, lengths: Sequence[int]) -> Any:
        """Return an array of this class with another value and other lengths."""
        return type(self)(value, tuple(lengths)) if lengths or self.constant is not None else value

    def materialize(self) -> Any:
        xp = self.xp
        shape = (*xp.shape_of(self.value), *self.lengths)
        return xp.broadcast_to(self.append_axes(self.ndim), shape)

    def on_diagonal(self) -> Any:
        xp, ndim = self.xp, self.ndim - 1
        if self.depth > ndim:
            return xp.diagonal(self.number, 0, -2, -1)
        lead = (*xp.shape_of(self.value), *self.shape[self.depth : ndim])
        return xp.broadcast_to(self.append_axes(ndim), lead)

    # Products.

    def rmatmul(self, x: Any) -> Any:
        if not self.lengths:
            return NotImplemented
        xp = numpy_like(self, x)
        dtype, wide = joint_dtype(xp, x, self), accumulation_dtype(dtype_of(x))
        rows = self._product_column(xp, x if dtype_of(x) == wide else xp.cast(x, wide))
        lead = xp.shape_of(x)[:-1]
        y = xp.expand_dims(xp.cast(rows, dtype), -1)
        return xp.broadcast_to(y, (*lead, self.lengths[-1]))

    def _product_column(self, xp: Any, x: Any) -> Any:
        """Return ``x @ self``, whose columns are equal, as a single column."""
        rows = self.ndim - 1
        if self.depth == rows:
            return xp.getitem(xp.matmul(x, xp.expand_dims(self.number, -1)), (..., 0))
        return xp.multiply(xp.sum(x, -1), self.append_axes(rows) if self.depth else self.number)

    # The same elements in another order.

    def matrix_transpose(self) -> Any:
        order = tuple(range(self.ndim))
        return self.permute((*order[:-2], order[-1], order[-2]))

    def permute(self, axes: tuple[int, ...]) -> Any:
        k = self.depth
        if sorted(axes[:k]) != list(range(k)):
            return NotImplemented
        value = self.value
        if axes[:k] != tuple(range(k)):
            value = self.xp.transpose(value, axes[:k])
        return self.with_value(value, [self.lengths[axis - k] for axis in axes[k:]])

    def reshape_to(self, shape: tuple[int, ...]) -> Any:
        own, xp = self.shape[: self.depth], self.xp
        if shape[: self.depth] == own:
            return self.with_value(self.value, shape[self.depth :])
        sizes = math.prod(own), math.prod(self.lengths)
        for k in range(len(shape) + 1):
            if (math.prod(shape[:k]), math.prod(shape[k:])) == sizes:
                return self.with_value(xp.reshape(self.value, shape[:k]), shape[k:])
        return NotImplemented

    def broadcast(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        k = self.depth
        if not k:
            return self.with_value(self.value, shape)
        # The value is repeated along new axes before its last axis.
        first = axes[k - 1] + 1
        xp = self.xp
        new = tuple(axis for axis in range(first) if axis not in axes[:k])
        value = xp.expand_dims(self.value, new) if new else self.value
        return self.with_value(xp.broadcast_to(value, shape[:first]), shape[first:])

    # Parts.

    def window(self, ranges: tuple[range, ...]) -> Any:
        k = self.depth
        value = self.value
        if k:
            value = self.xp.getitem(value, tuple(map(as_slice, ranges[:k])))
        return self.with_value(value, [*map(len, ranges[k:])])

    def take_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        if self.depth:
            return self.with_value(xp.getitem(self.value, index), self.lengths)
        lead = xp.shape_of(index)
        if is_static(lead):
            return self.with_value(self.value, (*lead, *self.lengths[1:]))
        return self.with_value(xp.broadcast_to(self.value, lead), self.lengths[1:])

    def concatenate(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        fills: Any = (self, *others)
        if not all(isinstance(x, Fill) for x in fills):
            return NotImplemented
        if self.constant is not None and all(
            type(x) is type(self) and x.depth == self.depth <= axis for x in fills
        ):
            lengths = list(self.lengths)
            lengths[axis - self.depth] = sum(x.shape[axis] for x in fills)
            return self.with_value(self.value, lengths)
        k = max([axis + 1, *[x.depth for x in fills]])
        if k >= self.ndim:
            return NotImplemented
        xp = numpy_like(*fills)
        values = [
            xp.broadcast_to(x.append_axes(k), (*xp.shape_of(x.value), *x.shape[x.depth : k]))
            for x in fills
        ]
        return Fill(xp.concatenate(values, axis), self.shape[k:])

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        return type(self)(self.xp.cast(self.value, dtype), self.lengths)

    @property
    def uniform(self) -> Any:
        return self.value if self.constant is None else np.asarray(self.constant, self.dtype)

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        fills = [x for x in (self, *others) if isinstance(x, Fill)]
        if len(fills) > len(others):
            return _zip_fills(f, fills)
        ndim = self.ndim
        arrays = [x.append_axes(ndim) if isinstance(x, Fill) else x for x in (self, *others)]
        if not any(map(is_implicit, arrays)):
            return f(*arrays)
        is_broadcast = f.name in {"add", "multiply"} and not self.depth
        return f(self.number, *others) if is_broadcast else NotImplemented

    def scale_along(self, vector: Any, axis: int) -> Any:
        xp = numpy_like(self, vector)
        k = max(self.depth, axis + 1)
        value = xp.multiply(self.append_axes(k), append_axes(xp, vector, k - axis))
        if axis > self.depth:
            lead = (*xp.shape_of(self.value), *self.shape[self.depth : k])
            value = xp.broadcast_to(value, lead)
        return Fill(value, self.shape[k:]) if k < self.ndim else value

    # Over axes.

    def reduce(self, name: str, axes: tuple[int, ...]) -> Any:
        xp, k = self.xp, self.depth
        value_axes = tuple(axis for axis in axes if axis < k)
        count = math.prod(self.lengths[axis - k] for axis in axes if axis >= k)
        lengths = [m for i, m in enumerate(self.lengths) if i + k not in axes]
        value = REDUCTIONS[name](xp, self.number, count)
        if value_axes:
            value = reduce_in_dtype(xp, name, value, value_axes)
        return Fill(value, tuple(lengths)) if lengths else value


def append_axes(xp: Any, value: Any, ndim: int) -> Any:
    """Append axes of length 1 to an array of fewer than ``ndim`` axes."""
    own = len(lengths_of(value))
    return xp.expand_dims(value, tuple(range(own, ndim))) if ndim > own else value


def _zip_fills(f: ElementwiseFunction, fills: Sequence[Fill]) -> Any:
    """Apply a function to fills of one shape."""
    deepest = max(fills, key=lambda x: x.depth)
    k = deepest.depth
    value = f(*[x.append_axes(k) for x in fills])
    return Fill(value, deepest.lengths) if k < deepest.ndim or len(fills) == 1 else value


def is_static(lengths: Sequence[Any]) -> bool:
    """Return whether no length is symbolic."""
    return all(isinstance(n, int | np.integer) for n in lengths)


def _sum(xp: Any, value: Any, n: int) -> Any:
    dtype = dtype_of(value)
    if not n:
        return xp.zeros_like(value)
    if dtype.kind == "b":
        return value
    times: int | float = float(n)
    if dtype.kind in "iu":
        # Sums of integers wrap around, so the number of terms may wrap around too.
        times = int(np.array(n % 2 ** (8 * dtype.itemsize), "uint64").astype(dtype))
    return xp.cast(xp.multiply(xp.cast(value, accumulation_dtype(dtype)), times), dtype)


def _product(xp: Any, value: Any, n: int) -> Any:
    """Return the n-th power by squaring, which wraps around as products of integers do."""
    dtype = dtype_of(value)
    square = xp.cast(value, accumulation_dtype(dtype))
    y = xp.ones_like(square)
    while n:
        y = xp.multiply(y, square) if n % 2 else y
        n //= 2
        square = xp.multiply(square, square) if n else square
    return xp.cast(y, dtype)


REDUCTIONS: dict[str, Callable[[Any, Any, int], Any]] = {
    "sum": _sum,
    "prod": _product,
    "max": lambda xp, value, n: value,
    "min": lambda xp, value, n: value,
    "any": lambda xp, value, n: value if n else xp.zeros_like(value),
    "all": lambda xp, value, n: value if n else xp.ones_like(value),
}
"""Reductions of n equal elements."""
