"""One-hot arrays: the places of their ones, never the zeros."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from graphc.implicit.array import ImplicitArray, aux_field, is_implicit
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import Structured, is_scalar
from graphc.implicit.structures.classes import (
    counted,
    counted_together,
    gathered,
    in_sequence,
    scattered,
)
from graphc.implicit.structures.fill import spread
from graphc.implicit.structures.segments import Entries, as_places
from graphc.implicit.structures.stacked import facts_of, keeps_zero, kept, refuse
from graphc.implicit.structures.zeros import BESIDE_ZEROS, Zeros
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import TensorType, dtype_name, is_inexact, numpy_dtype


@dataclass(frozen=True, repr=False)
class OneHot(Structured):
    """Along one axis, a one at the place that an index says, and zeros; or a weight for the one.

    ``one_hot @ w`` gathers rows of w, ``x @ one_hot`` adds up columns of x, and the product with
    an array of the same shape, element by element, reads one of its elements for each index. An
    index outside of the classes makes zeros, as for what is to be left out.

    Attributes:
        indices: Integers of any shape.
        classes: How many classes there are: the length of the axis of ones.
        weights: What stands in the places of the ones, of the indices' shape; None for ones.
        element: The name of the ones' dtype; weights have their own.
        axis: Where the axis of ones is: -1, or -2 in a transposed one.

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
        del entries[self.axis]  # no field has the classes' axis
        return dict.fromkeys(("indices", "weights"), tuple(entries))

    @classmethod
    def of(cls, indices: Any, classes: int, dtype: Any = "float32", axis: int = -1) -> Self:
        """The one-hot array of these indices.

        Args:
            indices: Integers, of any shape and library.
            classes: How many classes there are.
            dtype: The result's, any.
            axis: Where the axis of ones goes: -1, or -2.

        Raises:
            ImplicitArrayError: The indices are no integers, or there is no such axis.

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
            shape: Its lengths; that of the axis of ones is known.
            dtype: Its dtype.
            index: The dtype of the indices.
            weighted: Whether it has weights.
            axis: Where the axis of ones is.

        Raises:
            ImplicitArrayError: The number of classes is not known.

        Example:
            >>> OneHot.spec((None, 10), "float32")
            OneHot(int32[?], None, classes=10, element='float32', axis=-1)
        """
        lengths = list(shape)
        classes = lengths.pop(axis) if -len(lengths) <= axis else None
        if classes is None:
            raise refuse(
                f"OneHot.spec({tuple(shape)}, axis={axis}): the number of classes is not known.",
                "Give the length of that axis.",
            )
        weights = TensorType(dtype, lengths) if weighted else None
        return cls(TensorType(index, lengths), classes, weights, dtype_name(dtype), axis)

    def check(self) -> None:
        kind, own = dtype_of(self.indices), lengths_of(self.indices)
        if kind.kind not in "iu":
            raise refuse(f"OneHot: the indices are {kind}.", "Give integers.")
        if self.axis not in {-1, -2} or len(own) + 1 < -self.axis:
            raise refuse(
                f"OneHot: axis={self.axis} of an array of {len(own) + 1} axes.",
                "Give -1, or -2 where there are two or more.",
            )
        if self.classes < 0:
            raise refuse(f"OneHot: {self.classes} classes.", "Give a number from 0 on.")
        if self.weights is None:
            return
        given = lengths_of(self.weights)
        if given != own:
            raise refuse(
                f"OneHot: weights of shape {list(given)} for indices of shape {list(own)}.",
                "Give a weight for each index.",
            )

    @property
    def shape(self) -> tuple[Any, ...]:
        """The indices' lengths, with the number of classes among them."""
        own = lengths_of(self.indices)
        at = len(own) + 1 + self.axis
        return (*own[:at], self.classes, *own[at:])

    @property
    def dtype(self) -> Any:
        """The dtype of the ones or weights."""
        return numpy_dtype(self.element) if self.weights is None else dtype_of(self.weights)

    @property
    def place(self) -> int:
        """The axis of ones, counted from the front."""
        return self.ndim + self.axis

    def moved(self, indices: Any, weights: Any = None, **settings: Any) -> OneHot:
        """Another of as many classes, by default, at other indices; of the weights' dtype."""
        element = self.element if weights is None else dtype_name(dtype_of(weights))
        classes, axis = settings.get("classes", self.classes), settings.get("axis", self.axis)
        return OneHot(indices, classes, weights, element, axis)

    def both(self, function: Callable[[Any], Any], axis: int | None = None) -> OneHot:
        """Apply a function to the indices and to the weights."""
        weights = None if self.weights is None else function(self.weights)
        axis = self.axis if axis is None else axis
        return self.moved(function(self.indices), weights, axis=axis)

    def materialize(self) -> Any:
        xp = self.xp
        if self.weights is None:
            return xp.cast(self.hits(xp), self.dtype)
        weights = xp.expand_dims(self.weights, self.axis)
        return xp.where(self.hits(xp), weights, xp.zeros_like(weights))

    def hits(self, xp: Any) -> Any:
        """Where the ones are, as a whole array of bools."""
        places = xp.arange(self.classes)
        if self.axis == -2:
            places = xp.expand_dims(places, -1)
        return xp.equal(xp.expand_dims(self.indices, self.axis), places)

    # What stands for the ones.

    def safe(self, xp: Any) -> tuple[Any, Any]:
        """Indices within the classes, of a signed dtype, and where they are the own ones."""
        indices = as_places(xp, self.indices)
        inside = xp.logical_and(indices >= 0, indices < self.classes)
        return xp.where(inside, indices, xp.zeros_like(indices)), inside

    def ones(self, xp: Any) -> Any:
        """The weights."""
        if self.weights is not None:
            return self.weights
        return xp.ones(xp.shape_of(self.indices), self.dtype)

    def kept(self, xp: Any) -> Any:
        """The weights, and zeros for indices outside."""
        _, inside = self.safe(xp)
        if self.weights is None:
            return xp.cast(inside, self.dtype)
        return xp.where(inside, self.weights, xp.zeros_like(self.weights))

    def read(self, xp: Any, x: Any) -> Any:
        """The element of an array of this shape at each index; anything for indices outside."""
        safe, _ = self.safe(xp)
        at = xp.expand_dims(safe, self.axis)
        return xp.squeeze(xp.take_along_axis(x, at, self.axis), self.axis)

    def on_diagonal(self) -> Any:
        """The elements at (i, i) of each matrix, of which both lengths are equal."""
        xp = self.xp
        hits = xp.equal(self.indices, xp.arange(self.classes))
        return xp.where(hits, self.ones(xp), xp.zeros_like(self.ones(xp)))

    # Products.

    def times(self, x: Any) -> Any:
        if self.axis == -2:
            return gathered(self, x)
        if isinstance(x, OneHot):
            return counted_together(x, self) if x.axis == -2 else in_sequence(x, self)
        return NotImplemented if is_implicit(x) else scattered(self, x)

    # The same elements in other places.

    def swapped(self) -> Any:
        order = tuple(range(self.ndim))
        return self.permuted((*order[:-2], order[-1], order[-2]))

    def permuted(self, axes: tuple[int, ...]) -> Any:
        axis = axes.index(self.place) - self.ndim
        if axis < -2:
            return NotImplemented
        order = [own - (own > self.place) for own in axes if own != self.place]
        xp = self.xp
        is_same = order == sorted(order)
        return self.both(lambda x: x if is_same else xp.transpose(x, order), axis)

    def reshaped(self, shape: tuple[int, ...]) -> Any:
        own, xp, place = self.shape, self.xp, self.place
        sizes = math.prod(own[:place]), math.prod(own[place + 1 :])
        ends = [
            at
            for at in range(max(len(shape) - 2, 0), len(shape))
            if shape[at] == self.classes
            if (math.prod(shape[:at]), math.prod(shape[at + 1 :])) == sizes
        ]
        if not ends:
            return super().reshaped(shape)
        lengths = shape[: ends[-1]] + shape[ends[-1] + 1 :]
        return self.both(lambda x: xp.reshape(x, lengths), ends[-1] - len(shape))

    def broadcast(self, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
        place = axes[self.place]
        if len(shape) - place > 2 or shape[place] != self.classes:
            return NotImplemented
        xp = self.xp
        lengths = shape[:place] + shape[place + 1 :]
        own = {axis - (axis > place) for axis in axes if axis != place}
        new = tuple(axis for axis in range(len(lengths)) if axis not in own)

        def repeated(x: Any) -> Any:
            return xp.broadcast_to(xp.expand_dims(x, new) if new else x, lengths)

        return self.both(repeated, place - len(shape))

    # Parts.

    def part(self, starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...]) -> Any:
        xp = self.xp
        bounds = list(zip(starts, stops, steps, strict=True))
        start, stop, step = bounds.pop(self.place)
        cut = tuple([slice(*bound) for bound in bounds])
        x = self.both(lambda x: xp.getitem(x, cut)) if cut else self
        if (start, stop, step) == (0, self.classes, 1):
            return x
        indices = as_places(xp, x.indices) - start
        if step > 1:
            hit = xp.equal(xp.remainder(indices, step), 0)
            indices = xp.where(hit, xp.floor_divide(indices, step), -1)
        return x.moved(indices, x.weights, classes=len(range(start, stop, step)))

    def rows(self, index: Any) -> Any:
        xp = numpy_like(self, index)
        if self.place:
            return self.both(lambda x: xp.getitem(x, index))
        own = lengths_of(self.indices)
        at = xp.expand_dims(index, tuple(range(-len(own), 0))) if own else index
        hits = xp.equal(at, as_places(xp, self.indices))
        return xp.where(hits, self.ones(xp), xp.zeros_like(self.ones(xp)))

    def joined(self, others: Sequence[ImplicitArray], axis: int) -> Any:
        parts: Any = (self, *others)
        if axis == self.place or not all(
            isinstance(x, OneHot) and x.axis == self.axis for x in parts
        ):
            return NotImplemented
        xp = numpy_like(*parts)
        at = axis - (axis > self.place)
        indices = xp.concatenate([as_places(xp, x.indices) for x in parts], at)
        if all(x.weights is None and x.element == self.element for x in parts):
            return self.moved(indices)
        return self.moved(indices, xp.concatenate([x.ones(xp) for x in parts], at))

    # Element by element.

    def weigh(self, weights: Any) -> OneHot:
        """Another of these weights."""
        return self.moved(self.indices, weights)

    def cast(self, dtype: Any) -> Any:
        if self.weights is not None:
            return self.weigh(self.xp.cast(self.weights, dtype))
        return OneHot(self.indices, self.classes, None, dtype_name(dtype), self.axis)

    def mapped(self, name: str) -> Any:
        if not keeps_zero(name):
            return NotImplemented
        xp = self.xp
        function = getattr(xp, name)
        if self.weights is None and 1 in facts_of(name).fixed:
            return self.cast(dtype_of(function(xp.ones((), self.dtype))))
        return self.weigh(function(self.ones(xp)))

    def transformed(self, function: Callable[[Any], Any], keeps_zero: bool) -> Any:
        return self.weigh(function(self.ones(self.xp))) if keeps_zero else NotImplemented

    def zipped(self, function: Callable[[Any, Any], Any], other: Any, keeps_zero: bool) -> Any:
        if not keeps_zero or not self.is_beside(other):
            return NotImplemented
        xp = numpy_like(self, other)
        return self.weigh(function(self.ones(xp), other.ones(xp)))

    def against(self, function: Callable[[Any, Any], Any], other: Any) -> Any:
        xp = numpy_like(self, other)
        if isinstance(other, OneHot) and other.axis == self.axis:
            there = other.ones(xp)
            equal = xp.equal(self.indices, other.indices)
            there = xp.where(equal, there, xp.zeros_like(there))
            return self.weigh(function(self.ones(xp), there))
        if is_implicit(other) or not self.classes:
            return NotImplemented
        return self.weigh(function(self.ones(xp), self.read(xp, other)))

    def placed(self) -> Entries:
        """The ones or weights, and their places."""
        xp = self.xp
        indices = as_places(xp, self.indices)
        along = xp.arange(xp.shape_of(indices)[-1])
        along = xp.broadcast_to(along, xp.shape_of(indices))
        pair = (along, indices) if self.axis == -1 else (indices, along)
        return self.ones(xp), *pair

    def scaled(self, c: Any) -> Any:
        xp = numpy_like(self, c)
        return self.weigh(xp.multiply(self.ones(xp), c))

    def divided(self, c: Any) -> Any:
        xp = numpy_like(self, c)
        return (
            self.weigh(xp.divide(self.ones(xp), c)) if is_inexact(self.element) else NotImplemented
        )

    def weighted(self, vector: Any, axis: int) -> Any:
        xp = numpy_like(self, vector)
        if axis != self.place:
            at = axis - (axis > self.place)
            behind = len(lengths_of(self.indices)) - at
            return self.weigh(xp.multiply(self.ones(xp), spread(xp, vector, behind)))
        if not self.classes:
            return NotImplemented
        safe, _ = self.safe(xp)
        return self.weigh(xp.multiply(self.ones(xp), xp.getitem(vector, safe)))

    def is_beside(self, other: Any) -> bool:
        """Whether another has its ones at the same indices, as one made of this has."""
        same = isinstance(other, OneHot) and other.indices is self.indices
        return same and (other.classes, other.axis) == (self.classes, self.axis)

    def added(self, other: Any) -> Any:
        xp = numpy_like(self, other)
        if self.is_beside(other):
            return self.weigh(xp.add(self.ones(xp), other.ones(xp)))
        if is_implicit(other):
            return NotImplemented
        sums = xp.add(other, xp.expand_dims(self.ones(xp), self.axis))
        return xp.where(self.hits(xp), sums, xp.cast(other, dtype_of(sums)))

    def multiplied(self, other: Any) -> Any:
        return self.against(numpy_like(self, other).multiply, other)

    def chosen(self, mask: Any, other: Any, first: bool) -> Any:
        xp = numpy_like(self, mask, other)
        own = self.ones(xp)
        if self.is_beside(other):
            others = other.ones(xp)
        elif isinstance(other, Zeros):
            others = xp.zeros_like(own)
        else:
            return super().chosen(mask, other, first)
        if is_implicit(mask) or not self.classes:
            return NotImplemented
        here = mask if is_scalar(mask) else self.read(xp, mask)
        return self.weigh(xp.where(here, *((own, others) if first else (others, own))))

    # Over axes.

    def reduced(self, name: str, axes: tuple[int, ...]) -> Any:
        xp = self.xp
        if self.place not in axes:
            return counted(self, axes) if name == "sum" else NotImplemented
        if not self.classes:
            return NotImplemented
        y = self.kept(xp)
        if self.classes > 1:
            y = BESIDE_ZEROS[name](xp, y)
        rest = tuple(axis - (axis > self.place) for axis in axes if axis != self.place)
        return kept(xp, name, y, rest) if rest else y
