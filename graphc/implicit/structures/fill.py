"""Arrays of which all elements are one value: a value and a shape, never elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from graphc.implicit.array import ImplicitArray, aux_field, is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import Structured, is_scalar
from graphc.implicit.structures.stacked import kept, refuse
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name, is_inexact, numpy_dtype, promote


def widened(dtype: Any) -> Any:
    """The dtype that sums are made in: float32 for half-width floats, any other itself."""
    return np.dtype("float32") if str(dtype) in {"float16", "bfloat16"} else dtype


@dataclass(frozen=True, repr=False)
class Fill(Structured):
    """An array whose elements are all one value.

    Products with it are sums, ``Fill(v, (k, n))`` makes ``x @ fill`` the sums of x's rows times v,
    and whatever is done to each of its elements is done once. Where the value has axes of its
    own, they are the first ones of the shape: so a stack of such arrays, as of a loop or of
    ``vmap``, is one whose values are stacked.

    Attributes:
        value: The value; an array without axes, or of the first lengths of the shape.
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

    known: ClassVar[int | None] = None

    @classmethod
    def of(cls, shape: Sequence[int], value: Any, dtype: Any = None) -> Self:
        """The array of that shape.

        Args:
            shape: Its lengths.
            value: A number or an array without axes, of any library.
            dtype: Of the value; by default its own, or the one NumPy gives a number.

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
            raise refuse(
                f"{type(self).__name__} of lengths {self.lengths!r}.",
                "Give a tuple of integers from 0 on.",
            )

    @property
    def shape(self) -> tuple[Any, ...]:
        """The value's lengths, then the others."""
        return (*lengths_of(self.value), *self.lengths)

    @property
    def dtype(self) -> Any:
        """The value's."""
        return dtype_of(self.value)

    @property
    def number(self) -> Any:
        """The value of the elements, with the axes that it has."""
        if self.known is None:
            return self.value
        xp = self.xp
        return (xp.ones_like if self.known else xp.zeros_like)(self.value)

    @property
    def depth(self) -> int:
        """How many axes the value has."""
        return self.ndim - len(self.lengths)

    def spread(self, ndim: int) -> Any:
        """The value with axes of length 1 behind its own, so that it has so many."""
        return spread(self.xp, self.number, ndim)

    def over(self, value: Any, lengths: Sequence[int]) -> Any:
        """Return an array of this class whose value has other axes."""
        return type(self)(value, tuple(lengths)) if lengths or self.known is not None else value

    def materialize(self) -> Any:
        xp = self.xp
        shape = (*xp.shape_of(self.value), *self.lengths)
        return xp.broadcast_to(self.spread(self.ndim), shape)

    def on_diagonal(self) -> Any:
        """The elements at (i, i) of each matrix."""
        xp, ndim = self.xp, self.ndim - 1
        if self.depth > ndim:
            return xp.diagonal(self.number, 0, -2, -1)
        lead = (*xp.shape_of(self.value), *self.shape[self.depth : ndim])
        return xp.broadcast_to(self.spread(ndim), lead)

    # Products.

    def times(self, x: Any) -> Any:
        if not self.lengths:
            return NotImplemented
        xp = numpy_like(self, x)
        dtype, wide = product_dtype(xp, x, self), widened(dtype_of(x))
        rows = self._rowwise(xp, x if dtype_of(x) == wide else xp.cast(x, wide))
        lead = xp.shape_of(x)[:-1]
        y = xp.expand_dims(xp.cast(rows, dtype), -1)
        return xp.broadcast_to(y, (*lead, self.lengths[-1]))

    def _rowwise(self, xp: Any, x: Any) -> Any:
        """The product's only column, without the axis of columns."""
        rows = self.ndim - 1
        if self.depth == rows:
            return xp.getitem(xp.matmul(x, xp.expand_dims(self.number, -1)), (..., 0))
        return xp.multiply(xp.sum(x, -1), self.spread(rows) if self.depth else self.number)

    # The same elements in other places.

    def swapped(self) -> Any:
        order = tuple(range(self.ndim))
        return self.permuted((*order[:-2], order[-1], order[-2]))

    def permuted(self, axes: tuple[int, ...]) -> Any:
        k = self.depth
        if sorted(axes[:k]) != list(range(k)):
            return NotImplemented
        value = self.value
        if axes[:k] != tuple(range(k)):
            value = self.xp.transpose(value, axes[:k])
        return self.over(value, [self.lengths[axis - k] for axis in axes[k:]])

    def reshaped(self, shape: tuple[int, ...]) -> Any:
        own, xp = self.shape[: self.depth], self.xp
        if shape[: self.depth] == own:
            return self.over(self.value, shape[self.depth :])
        sizes = math.prod(own), math.prod(self.lengths)
        for k in range(len(shape) + 1):
            if (math.prod(shape[:k]), math.prod(shape[k:])) == sizes:
                return self.over(xp.reshape(self.value, shape[:k]), shape[k:])
        return NotImplemented

    def broadcast(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        k = self.depth
        if not k:
            return self.over(self.value, shape)
        # The value is repeated along new axes in front of its last one.
        first = axes[k - 1] + 1
        xp = self.xp
        new = tuple(axis for axis in range(first) if axis not in axes[:k])
        value = xp.expand_dims(self.value, new) if new else self.value
        return self.over(xp.broadcast_to(value, shape[:first]), shape[first:])

    # Parts.

    def part(self, starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...]) -> Any:
        k = self.depth
        bounds = list(zip(starts, stops, steps, strict=True))
        value = self.value
        if k:
            value = self.xp.getitem(value, tuple([slice(*bound) for bound in bounds[:k]]))
        return self.over(value, [len(range(*bound)) for bound in bounds[k:]])

    def rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        if self.depth:
            return self.over(xp.getitem(self.value, index), self.lengths)
        lead = xp.shape_of(index)
        if is_static(lead):
            return self.over(self.value, (*lead, *self.lengths[1:]))
        return self.over(xp.broadcast_to(self.value, lead), self.lengths[1:])

    def joined(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        parts = (self, *others)
        if not all(isinstance(x, Fill) for x in parts):
            return NotImplemented
        fills: Any = parts
        if self.known is not None and all(
            type(x) is type(self) and x.depth == self.depth <= axis for x in fills
        ):
            lengths = list(self.lengths)
            lengths[axis - self.depth] = sum(x.shape[axis] for x in fills)
            return self.over(self.value, lengths)
        k = max([axis + 1, *[x.depth for x in fills]])
        if k >= self.ndim:
            return NotImplemented
        xp = numpy_like(*fills)
        values = [
            xp.broadcast_to(x.spread(k), (*xp.shape_of(x.value), *x.shape[x.depth : k]))
            for x in fills
        ]
        return Fill(xp.concatenate(values, axis), self.shape[k:])

    # Element by element.

    def cast(self, dtype: Any) -> Any:
        return type(self)(self.xp.cast(self.value, dtype), self.lengths)

    def mapped(self, name: str) -> Any:
        return Fill(getattr(self.xp, name)(self.number), self.lengths)

    @property
    def uniform(self) -> Any:
        return self.value if self.known is None else np.asarray(self.known, self.dtype)

    def transformed(self, function: Callable[[Any], Any], keeps_zero: bool) -> Any:
        return Fill(function(self.number), self.lengths)

    def zipped(self, function: Callable[[Any, Any], Any], other: Any, keeps_zero: bool) -> Any:
        return paired(self, other, function) if isinstance(other, Fill) else NotImplemented

    def scaled(self, c: Any) -> Any:
        return self._with("multiply", c)

    def shifted(self, c: Any) -> Any:
        return self._with("add", c)

    def divided(self, c: Any) -> Any:
        return self._with("divide", c) if is_inexact(str(self.dtype)) else NotImplemented

    def _with(self, name: str, c: Any) -> Any:
        return Fill(getattr(numpy_like(self, c), name)(self.number, c), self.lengths)

    def weighted(self, vector: Any, axis: int) -> Any:
        xp = numpy_like(self, vector)
        k = max(self.depth, axis + 1)
        value = xp.multiply(self.spread(k), spread(xp, vector, k - axis))
        if axis > self.depth:
            lead = (*xp.shape_of(self.value), *self.shape[self.depth : k])
            value = xp.broadcast_to(value, lead)
        return Fill(value, self.shape[k:]) if k < self.ndim else value

    def added(self, other: Any) -> Any:
        return self._both("add", other)

    def multiplied(self, other: Any) -> Any:
        return self._both("multiply", other)

    def _both(self, name: str, other: Any) -> Any:
        """A function of this and an array of the same shape."""
        function = getattr(numpy_like(self, other), name)
        if isinstance(other, Fill):
            return paired(self, other, function)
        if not is_implicit(other):
            return function(other, self.spread(self.ndim))
        return function(other, self.number) if not self.depth else NotImplemented

    def chosen(self, mask: Any, other: Any, first: bool) -> Any:
        xp = numpy_like(self, mask, other)
        if isinstance(mask, Fill) and not mask.depth:
            mask = mask.number
        if is_implicit(mask) or (is_implicit(other) and not isinstance(other, Fill)):
            return NotImplemented

        def choose(a: Any, b: Any) -> Any:
            return xp.where(mask, a, b) if first else xp.where(mask, b, a)

        if not isinstance(other, Fill):
            return choose(self.spread(self.ndim), other)
        if is_scalar(mask):
            return paired(self, other, choose)
        return choose(self.spread(self.ndim), other.spread(self.ndim))

    # Over axes.

    def reduced(self, name: str, axes: tuple[int, ...]) -> Any:
        xp, k = self.xp, self.depth
        inner = tuple(axis for axis in axes if axis < k)
        n = math.prod(self.lengths[axis - k] for axis in axes if axis >= k)
        lengths = [m for i, m in enumerate(self.lengths) if i + k not in axes]
        value = REDUCED[name](xp, self.number, n)
        if inner:
            value = kept(xp, name, value, inner)
        return Fill(value, tuple(lengths)) if lengths else value


def spread(xp: Any, value: Any, ndim: int) -> Any:
    """An array with axes of length 1 behind its own, so that it has so many."""
    own = len(lengths_of(value))
    return xp.expand_dims(value, tuple(range(own, ndim))) if ndim > own else value


def paired(a: Fill, b: Fill, function: Callable[[Any, Any], Any]) -> Any:
    """A function of two that have the same shape, element by element."""
    k = max(a.depth, b.depth)
    value = function(a.spread(k), b.spread(k))
    shape = a.shape if a.depth <= b.depth else b.shape
    return Fill(value, tuple(shape[k:])) if k < a.ndim else value


def product_dtype(xp: Any, x: Any, y: Any) -> Any:
    """The dtype that a product of two arrays has, in a library."""
    a, b = dtype_of(x), dtype_of(y)
    if a == b:
        return a
    if xp.name == "graphc":
        return numpy_dtype(promote(dtype_name(a), dtype_name(b)))
    return xp.result_type(a, b)


def is_static(lengths: Sequence[Any]) -> bool:
    """Whether no length is symbolic."""
    return all(isinstance(n, int | np.integer) for n in lengths)


def _sum(xp: Any, value: Any, n: int) -> Any:
    dtype = dtype_of(value)
    if not n:
        return xp.zeros_like(value)
    if dtype.kind == "b":
        return value
    times: int | float = float(n)
    if dtype.kind in "iu":
        # Sums wrap around, and so may the number of terms.
        times = int(np.array(n % 2 ** (8 * dtype.itemsize), "uint64").astype(dtype))
    return xp.cast(xp.multiply(xp.cast(value, widened(dtype)), times), dtype)


def _product(xp: Any, value: Any, n: int) -> Any:
    """The n-th power by squaring, which wraps around as products of integers do."""
    dtype = dtype_of(value)
    square = xp.cast(value, widened(dtype))
    y = xp.ones_like(square)
    while n:
        y = xp.multiply(y, square) if n % 2 else y
        n //= 2
        square = xp.multiply(square, square) if n else square
    return xp.cast(y, dtype)


def _same(xp: Any, value: Any, n: int) -> Any:
    return value


def _any(xp: Any, value: Any, n: int) -> Any:
    return value if n else xp.zeros_like(value)


def _all(xp: Any, value: Any, n: int) -> Any:
    return value if n else xp.ones_like(value)


REDUCED: dict[str, Callable[[Any, Any, int], Any]] = {
    "sum": _sum,
    "prod": _product,
    "max": _same,
    "min": _same,
    "any": _any,
    "all": _all,
}
"""The reductions of n equal elements."""
