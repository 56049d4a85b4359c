"""One-hot arrays, stored as the indices of their ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from graphc.errors import ImplicitArrayError
from graphc.implicit.array import ImplicitArray, aux_field, is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import ElementwiseFunction, Structured
from graphc.implicit.structures import classes as by_class
from graphc.implicit.structures.entries import Entries, as_indices
from graphc.implicit.structures.fill import append_axes
from graphc.implicit.structures.stacked import as_slice, reduce_in_dtype
from graphc.implicit.structures.zeros import BESIDE_ZEROS, Zeros
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name, numpy_dtype


@dataclass(frozen=True, repr=False)
class OneHot(Structured):
    """Zeros but for a one, or a weight, at an index along one axis.

    ``one_hot @ w`` gathers rows of w, ``x @ one_hot`` sums columns of x by class, and the
    elementwise product with an array reads one of its elements for each index. An index outside of
    the classes makes zeros only, for example for padding.

    Attributes:
        indices: Integers of any shape.
        classes: The number of classes: the length of the one-hot axis.
        weights: The values instead of ones, of the shape of the indices; None for ones.
        element: The name of the dtype of the ones; weights have their own dtype.
        axis: The one-hot axis: -1, or -2 in a transposed array.

    Example:
        >>> import numpy as np
        >>> from graphc.implicit import OneHot
        >>> x = OneHot.of(np.array([2, 0]), 3, "float64")
        >>> x @ np.arange(6.0).reshape(3, 2)
        array([[4., 5.],
               [0., 1.]])
        >>> np.asarray(x * 0.5)
        array([[0. , 0. , 0.5],
               [0.5, 0. , 0. ]])
    """

    indices: Any
    classes: int = aux_field()
    weights: Any = None
    element: str = aux_field(default="float32")
    axis: int = aux_field(default=-1)

    def field_specs(self, spec: tuple[Any, ...]) -> Mapping[str, tuple[Any, ...]]:
        entries = list(spec)
        del entries[self.axis]  # no field has the one-hot axis
        return dict.fromkeys(("indices", "weights"), tuple(entries))

    @classmethod
    def of(cls, indices: Any, classes: int, dtype: Any = "float32", axis: int = -1) -> Self:
        """Return the one-hot array of indices.

        Args:
            indices: Integers, of any shape and library.
            classes: The number of classes.
            dtype: The dtype of the result.
            axis: The one-hot axis: -1, or -2.

        Raises:
            ImplicitArrayError: If the indices are no integers, or the array has no such axis.

        Example:
            >>> OneHot.of([2, 0], 3).shape
            (2, 3)
        """
        indices = indices if hasattr(indices, "dtype") else np.asarray(indices, "int64")
        return cls(indices, classes, None, dtype_name(dtype), axis)

    @classmethod
    def spec(  # type: ignore[override]
        cls, shape: Any, dtype: Any, index: Any = "int32", weighted: bool = False, axis: int = -1
    ) -> Self:
        """Return the type of an input.

        Args:
            shape: The shape of the array; the length of the one-hot axis is known.
            dtype: The dtype of the array.
            index: The dtype of the indices.
            weighted: Whether the array has weights.
            axis: The one-hot axis.

        Raises:
            ImplicitArrayError: If the number of classes is unknown.

        Example:
            >>> OneHot.spec((None, 10), "float32")
            OneHot(int32[?], None, classes=10, element='float32', axis=-1)
        """
        lengths = list(shape)
        classes = lengths.pop(axis) if -len(lengths) <= axis else None
        if classes is None:
            raise ImplicitArrayError(
                f"OneHot.spec({tuple(shape)}, axis={axis}): the number of classes is not known.",
                "Give the length of that axis.",
            )
        weights = TensorType(dtype, lengths) if weighted else None
        return cls(TensorType(index, lengths), classes, weights, dtype_name(dtype), axis)

    def check(self) -> None:
        dtype, own = dtype_of(self.indices), lengths_of(self.indices)
        if dtype.kind not in "iu":
            raise ImplicitArrayError(f"OneHot: the indices are {dtype}.", "Give integers.")
        if self.axis not in {-1, -2} or len(own) + 1 < -self.axis:
            raise ImplicitArrayError(
                f"OneHot: axis={self.axis} of an array of {len(own) + 1} axes.",
                "Give -1, or -2 where there are two or more.",
            )
        if self.classes < 0:
            raise ImplicitArrayError(f"OneHot: {self.classes} classes.", "Give a number from 0 on.")
        if self.weights is None:
            return
        lengths = lengths_of(self.weights)
        if lengths != own:
            raise ImplicitArrayError(
                f"OneHot: weights of shape {list(lengths)} for indices of shape {list(own)}.",
                "Give a weight for each index.",
            )

    @property
    def shape(self) -> tuple[Any, ...]:
        """The lengths of the indices, with the number of classes at the one-hot axis."""
        own = lengths_of(self.indices)
        position = len(own) + 1 + self.axis
        return (*own[:position], self.classes, *own[position:])

    @property
    def dtype(self) -> Any:
        """The dtype of the ones or weights."""
        return numpy_dtype(self.element) if self.weights is None else dtype_of(self.weights)

    @property
    def one_hot_axis(self) -> int:
        """The one-hot axis, counted from the front."""
        return self.ndim + self.axis

    def with_indices(self, indices: Any, weights: Any = None, **settings: Any) -> OneHot:
        """Return an array of other indices, of the dtype of the weights if there are any."""
        element = self.element if weights is None else dtype_name(dtype_of(weights))
        classes, axis = settings.get("classes", self.classes), settings.get("axis", self.axis)
        return OneHot(indices, classes, weights, element, axis)

    def map_fields(self, function: Callable[[Any], Any], axis: int | None = None) -> OneHot:
        """Apply a function to the indices and to the weights."""
        weights = None if self.weights is None else function(self.weights)
        axis = self.axis if axis is None else axis
        return self.with_indices(function(self.indices), weights, axis=axis)

    def materialize(self) -> Any:
        xp = self.xp
        if self.weights is None:
            return xp.cast(self.hits(xp), self.dtype)
        weights = xp.expand_dims(self.weights, self.axis)
        return xp.where(self.hits(xp), weights, xp.zeros_like(weights))

    def hits(self, xp: Any) -> Any:
        """Return a dense boolean array that is true at the ones."""
        classes = xp.arange(self.classes)
        if self.axis == -2:
            classes = xp.expand_dims(classes, -1)
        return xp.equal(xp.expand_dims(self.indices, self.axis), classes)

    # Indices and weights.

    def safe_indices(self, xp: Any) -> tuple[Any, Any]:
        """Return indices within the classes, zero for others, and which are inside."""
        indices = as_indices(xp, self.indices)
        inside = xp.logical_and(indices >= 0, indices < self.classes)
        return xp.where(inside, indices, xp.zeros_like(indices)), inside

    def values(self, xp: Any) -> Any:
        if self.weights is not None:
            return self.weights
        return xp.ones(xp.shape_of(self.indices), self.dtype)

    def masked_weights(self, xp: Any) -> Any:
        """Return the weights, or ones, with zeros for indices outside of the classes."""
        _, inside = self.safe_indices(xp)
        if self.weights is None:
            return xp.cast(inside, self.dtype)
        return xp.where(inside, self.weights, xp.zeros_like(self.weights))

    def read(self, xp: Any, x: Any) -> Any:
        """Return an array's element at each index; undefined for indices outside of the classes."""
        safe_indices, _ = self.safe_indices(xp)
        at = xp.expand_dims(safe_indices, self.axis)
        return xp.squeeze(xp.take_along_axis(x, at, self.axis), self.axis)

    def on_diagonal(self) -> Any:
        xp = self.xp
        hits = xp.equal(self.indices, xp.arange(self.classes))
        return xp.where(hits, self.values(xp), xp.zeros_like(self.values(xp)))

    # Products.

    def rmatmul(self, x: Any) -> Any:
        if self.axis == -2:
            return by_class.gather_columns(self, x)
        if isinstance(x, OneHot):
            return by_class.count_pairs(x, self) if x.axis == -2 else by_class.compose(x, self)
        return NotImplemented if is_implicit(x) else by_class.scatter_columns(self, x)

    # The same elements in another order.

    def matrix_transpose(self) -> Any:
        order = tuple(range(self.ndim))
        return self.permute((*order[:-2], order[-1], order[-2]))

    def permute(self, axes: tuple[int, ...]) -> Any:
        axis = axes.index(self.one_hot_axis) - self.ndim
        if axis < -2:
            return NotImplemented
        order = [own - (own > self.one_hot_axis) for own in axes if own != self.one_hot_axis]
        xp = self.xp
        is_same = order == sorted(order)
        return self.map_fields(lambda x: x if is_same else xp.transpose(x, order), axis)

    def reshape_to(self, shape: tuple[int, ...]) -> Any:
        own, xp, axis = self.shape, self.xp, self.one_hot_axis
        sizes = math.prod(own[:axis]), math.prod(own[axis + 1 :])
        axes = [
            i
            for i in range(max(len(shape) - 2, 0), len(shape))
            if shape[i] == self.classes
            if (math.prod(shape[:i]), math.prod(shape[i + 1 :])) == sizes
        ]
        if not axes:
            return super().reshape_to(shape)
        lengths = shape[: axes[-1]] + shape[axes[-1] + 1 :]
        return self.map_fields(lambda x: xp.reshape(x, lengths), axes[-1] - len(shape))

    def broadcast(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        hot = axes[self.one_hot_axis]
        if len(shape) - hot > 2 or shape[hot] != self.classes:
            return NotImplemented
        xp = self.xp
        lengths = shape[:hot] + shape[hot + 1 :]
        own = {axis - (axis > hot) for axis in axes if axis != hot}
        new = tuple(axis for axis in range(len(lengths)) if axis not in own)

        def repeat(x: Any) -> Any:
            return xp.broadcast_to(xp.expand_dims(x, new) if new else x, lengths)

        return self.map_fields(repeat, hot - len(shape))

    # Parts.

    def window(self, ranges: tuple[range, ...]) -> Any:
        xp, rest = self.xp, list(ranges)
        classes = rest.pop(self.one_hot_axis)
        index = tuple(map(as_slice, rest))
        x = self.map_fields(lambda x: xp.getitem(x, index)) if index else self
        if classes == range(self.classes):
            return x
        indices = as_indices(xp, x.indices) - classes.start
        if classes.step > 1:
            is_inside = xp.equal(xp.remainder(indices, classes.step), 0)
            indices = xp.where(is_inside, xp.floor_divide(indices, classes.step), -1)
        return x.with_indices(indices, x.weights, classes=len(classes))

    def take_rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        if self.one_hot_axis:
            return self.map_fields(lambda x: xp.getitem(x, index))
        own = lengths_of(self.indices)
        expanded = xp.expand_dims(index, tuple(range(-len(own), 0))) if own else index
        hits = xp.equal(expanded, as_indices(xp, self.indices))
        return xp.where(hits, self.values(xp), xp.zeros_like(self.values(xp)))

    def concatenate(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        arrays: Any = (self, *others)
        if axis == self.one_hot_axis or not all(
            isinstance(x, OneHot) and x.axis == self.axis for x in arrays
        ):
            return NotImplemented
        xp = numpy_like(*arrays)
        field_axis = axis - (axis > self.one_hot_axis)
        indices = xp.concatenate([as_indices(xp, x.indices) for x in arrays], field_axis)
        if all(x.weights is None and x.element == self.element for x in arrays):
            return self.with_indices(indices)
        weights = xp.concatenate([x.values(xp) for x in arrays], field_axis)
        return self.with_indices(indices, weights)

    # Element by element.

    def with_weights(self, weights: Any) -> OneHot:
        """Return an array of the same indices with other weights."""
        return self.with_indices(self.indices, weights)

    def cast(self, dtype: Any) -> Any:
        if self.weights is not None:
            return self.with_weights(self.xp.cast(self.weights, dtype))
        return OneHot(self.indices, self.classes, None, dtype_name(dtype), self.axis)

    def elementwise(self, f: ElementwiseFunction, *others: Any) -> Any:
        xp = numpy_like(self, *others)
        own = self.values(xp)
        if not others and self.weights is None and f.keeps_zero and 1 in f.facts.fixed:
            return self.cast(dtype_of(f(xp.ones((), self.dtype))))
        if f.keeps_zero and all(self._is_partner(x, f) for x in f.partners(others)):
            values = [self._values_of(xp, x) for x in others]
            if any(x is NotImplemented for x in values):
                return NotImplemented
            return self.with_weights(f(own, *values))
        if f.name != "add" or is_implicit(others[0]):
            return NotImplemented
        sums = f(others[0], xp.expand_dims(own, self.axis))
        return xp.where(self.hits(xp), sums, xp.cast(others[0], dtype_of(sums)))

    def _is_partner(self, x: Any, f: ElementwiseFunction) -> bool:
        # The sum with zeros is this array itself, and the product is zeros.
        return self.shares_indices(x) or (
            isinstance(x, Zeros) and f.name not in {"add", "multiply"}
        )

    def _values_of(self, xp: Any, x: Any) -> Any:
        """Return the elements of an array of this shape at the indices."""
        if self.shares_indices(x):
            return x.values(xp)
        if isinstance(x, Zeros):
            return xp.zeros(xp.shape_of(self.indices), x.dtype)
        if isinstance(x, OneHot) and x.axis == self.axis:
            others = x.values(xp)
            return xp.where(xp.equal(self.indices, x.indices), others, xp.zeros_like(others))
        return NotImplemented if is_implicit(x) or not self.classes else self.read(xp, x)

    def to_entries(self) -> Entries:
        """Return the ones or weights, with their rows and columns."""
        xp = self.xp
        indices = as_indices(xp, self.indices)
        positions = xp.arange(xp.shape_of(indices)[-1])
        positions = xp.broadcast_to(positions, xp.shape_of(indices))
        pair = (positions, indices) if self.axis == -1 else (indices, positions)
        return self.values(xp), *pair

    def scale_along(self, vector: Any, axis: int) -> Any:
        xp = numpy_like(self, vector)
        if axis != self.one_hot_axis:
            field_axis = axis - (axis > self.one_hot_axis)
            ndim = len(lengths_of(self.indices)) - field_axis
            return self.with_weights(xp.multiply(self.values(xp), append_axes(xp, vector, ndim)))
        if not self.classes:
            return NotImplemented
        safe_indices, _ = self.safe_indices(xp)
        return self.with_weights(xp.multiply(self.values(xp), xp.getitem(vector, safe_indices)))

    def shares_indices(self, other: Any) -> bool:
        """Return whether another array has the same array of indices, as derived ones do."""
        same = isinstance(other, OneHot) and other.indices is self.indices
        return same and (other.classes, other.axis) == (self.classes, self.axis)

    # Over axes.

    def reduce(self, name: str, axes: tuple[int, ...]) -> Any:
        xp = self.xp
        if self.one_hot_axis not in axes:
            return by_class.count_classes(self, axes) if name == "sum" else NotImplemented
        if not self.classes:
            return NotImplemented
        y = self.masked_weights(xp)
        if self.classes > 1:
            y = BESIDE_ZEROS[name](xp, y)
        hot = self.one_hot_axis
        rest = tuple(axis - (axis > hot) for axis in axes if axis != hot)
        return reduce_in_dtype(xp, name, y, rest) if rest else y
