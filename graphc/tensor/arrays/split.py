"""Arrays split along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import Node, Pick, Shape as StaticShape, TensorType, TupleType
from graphc.tensor.arrays.create import zeros_like
from graphc.tensor.arrays.join import Concatenate
from graphc.tensor.core.axes import slice_at_axis, squeeze
from graphc.tensor.core.elementwise import repeated_like, split_mask, where as select
from graphc.tensor.core.shape import AxisOp, are_equal, entries, fill_shape, length, target_shape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, axes_of, function

__all__ = ["array_split", "dsplit", "hsplit", "split", "unstack", "vsplit"]


@dataclass(frozen=True, slots=True)
class Split(AxisOp):
    """Consecutive parts of these lengths along an axis, a tuple; None stands for an input."""

    axis: int
    sizes: StaticShape
    name = "split"
    core_ndim = 0

    def infer(self, x: TensorType, *symbolic: TensorType) -> TupleType:
        n = x.shape[self.axis]
        if isinstance(n, int):
            total = sum(size for size in self.sizes if size is not None)
            if total > n or (total < n and None not in self.sizes):
                raise ShapeError(
                    f"split({x!r}, {self.sizes}): axis {self.axis} has length {n}.",
                    "Pass sizes that add up to it.",
                )
        shape = x.shape
        return TupleType(
            tuple(
                x.with_shape((*shape[: self.axis], size, *shape[self.axis + 1 :]))
                for size in fill_shape(self.sizes, symbolic)
            )
        )

    def bounds(self, n: int, symbolic: Sequence[Any]) -> list[int]:
        """Return where each part starts, and where the last one ends, in an axis of length n."""
        sizes = target_shape(self.sizes, symbolic)
        if not are_equal(sum(sizes), n):
            raise ShapeError(
                f"split: the sizes {sizes} do not add up to {n}, the length of axis {self.axis}.",
                "Pass sizes that do.",
            )
        return [0, *np.cumsum(sizes).tolist()]

    def perform(self, x: np.ndarray[Any, Any], *symbolic: Any) -> tuple[np.ndarray[Any, Any], ...]:
        bounds = self.bounds(np.shape(x)[self.axis], symbolic)
        return tuple(np.split(x, bounds[1:-1], self.axis))

    def pullback(
        self, g: Sequence[Tensor | None], y: Node, x: Tensor, *symbolic: Tensor
    ) -> Sequence[Any]:
        """Join the parts' gradients; zeros where a branch of ``where`` was not chosen."""
        outputs = [Tensor.make(Pick(i), y) for i in range(len(self.sizes))]
        gs = [zeros_like(p) if part is None else part for p, part in zip(outputs, g, strict=True)]
        joined = Tensor.make(Concatenate(self.axis), *gs)
        masks = [split_mask(part)[0] for part in gs] if x.inputs else []
        if any(mask is not None for mask in masks):
            chosen = [
                repeated_like(as_tensor(True) if mask is None else mask, part)
                for mask, part in zip(masks, gs, strict=True)
            ]
            joined = select(Tensor.make(Concatenate(self.axis), *chosen), joined, 0)
        return (joined, *(None for _ in symbolic))

    def pushforward(self, tangents: Sequence[Any], y: Node, x: Tensor, *symbolic: Tensor) -> Any:
        if tangents[0] is None:
            return [None] * len(self.sizes)
        pushed = Node.make(self, tangents[0], *symbolic)
        return [Tensor.make(Pick(i), pushed) for i in range(len(self.sizes))]


def parts_of(x: Tensor, sizes: Any, axis: int) -> list[Tensor]:
    """Return the parts of these lengths along an axis, which is not negative."""
    static, symbolic = entries("split", sizes)
    if not static:
        raise ShapeError("split: expected at least one part.")
    several = Node.make(Split(axis, static), x, *symbolic)
    return [Tensor.make(Pick(i), several) for i in range(len(static))]


@function
def split(
    x: TensorLike, splits_size: Any, *, n_splits: int | None = None, axis: int = 0
) -> list[Tensor]:
    """Return consecutive parts of given lengths along an axis.

    Args:
        x: At least one axis.
        splits_size: The length of each part: Python or symbolic integers, or an integer
            vector. They add up to the axis's length.
        n_splits: The number of parts, if a symbolic ``splits_size`` does not state it.
        axis: The axis to split.

    Returns:
        The parts, in order.

    Raises:
        ArgumentError: ``splits_size`` is no sequence of lengths, nor a symbolic vector of them.
        ShapeError: x has no such axis, a length is negative, or lengths do not add up.
        DTypeError: A length is not an integer.

    Example:
        >>> import graphc.tensor as gt
        >>> [part.type for part in split(gt.tensor("x", shape=(5, 2)), [1, 4])]
        [float64[1, 2], float64[4, 2]]
    """
    x = as_tensor(x)
    (at,) = axes_of("split", axis, x.ndim)
    if isinstance(splits_size, Tensor) and splits_size.ndim == 1 and n_splits is not None:
        if splits_size.type.shape == (None,):
            splits_size = [splits_size[i] for i in range(n_splits)]
    elif not isinstance(splits_size, list | tuple | np.ndarray | Tensor):
        raise ArgumentError(
            f"split({x!r}, {splits_size!r}): expected the length of each part.",
            "Use gt.array_split(x, n) for n parts of about one length.",
        )
    pieces = parts_of(x, splits_size, at)
    if n_splits is not None and len(pieces) != n_splits:
        raise ShapeError(f"split: got {len(pieces)} lengths and n_splits={n_splits}.")
    return pieces


@function
def array_split(x: TensorLike, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Return consecutive parts along an axis, a number of them or cut at given positions.

    Args:
        x: At least one axis.
        indices_or_sections: The number of parts, whose lengths differ by at most one; or a list of
            the positions where a part ends and the next one starts, Python's integers or symbolic;
            negative ones and those behind the end count as in a slice.
        axis: The axis to split.

    Returns:
        The parts, in order.

    Raises:
        ShapeError: No such axis, or a number of parts below 1.

    Example:
        >>> import graphc.tensor as gt
        >>> [part.type for part in array_split(gt.tensor("x", shape=(5,)), 2)]
        [float64[3], float64[2]]
    """
    x = as_tensor(x)
    (at,) = axes_of("array_split", axis, x.ndim)
    if not isinstance(indices_or_sections, int | np.integer):
        positions = [None, *_cut_positions(indices_or_sections), None]
        return [x[slice_at_axis(slice(*ends), at)] for ends in pairwise(positions)]
    count, n = int(indices_or_sections), length(x, at)
    if count < 1:
        raise ShapeError(f"array_split: cannot split {x!r} into {count} parts.", "Pass 1 or more.")
    return parts_of(x, [(n + count - 1 - i) // count for i in range(count)], at)


def _cut_positions(positions: Any) -> list[Any]:
    """Return the positions to cut at, which may be symbolic; a vector's length must be static."""
    if isinstance(positions, np.ndarray):
        return positions.tolist()  # type: ignore[no-any-return]
    if isinstance(positions, Tensor) and positions.ndim != 1:
        raise DTypeError(
            f"array_split: expected a vector of positions, got {positions!r}.",
            "Pass the number of parts as a Python integer.",
        )
    return list(positions)


def _split_along(op: str, x: Any, indices_or_sections: Any, axis: int, ndim: int) -> list[Tensor]:
    x = as_tensor(x)
    if x.ndim < ndim:
        raise ShapeError(f"{op}: {x!r} has fewer than {ndim} axes.")
    n = length(x, axis)
    if isinstance(indices_or_sections, int | np.integer):
        count = int(indices_or_sections)
        if count < 1 or (isinstance(n, int) and n % count):
            raise ShapeError(
                f"{op}({x!r}, {count}): cannot split into {count} parts of equal length.",
                "Use gt.array_split for parts of unequal lengths.",
            )
        return parts_of(x, [n // count] * count, axis)
    return array_split(x, indices_or_sections, axis)


@function
def hsplit(x: TensorLike, indices_or_sections: Any) -> list[Tensor]:
    """Return parts along the second axis, or of a vector along its only one.

    Args:
        x: At least one axis.
        indices_or_sections: The number of parts of equal length, or the positions to cut at.

    Example:
        >>> import graphc.tensor as gt
        >>> [y.eval(mode="NUMPY").tolist() for y in gt.hsplit([1, 2, 3, 4], 2)]
        [[1, 2], [3, 4]]
    """
    x = as_tensor(x)
    return _split_along("hsplit", x, indices_or_sections, 1 if x.ndim > 1 else 0, 1)


@function
def vsplit(x: TensorLike, indices_or_sections: Any) -> list[Tensor]:
    """Return parts along the first axis of an array of at least two.

    Args:
        x: At least two axes.
        indices_or_sections: The number of parts of equal length, or the positions to cut at.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> [part.type for part in gt.vsplit(np.ones((4, 3)), 2)]
        [float64[2, 3], float64[2, 3]]
    """
    return _split_along("vsplit", x, indices_or_sections, 0, 2)


@function
def dsplit(x: TensorLike, indices_or_sections: Any) -> list[Tensor]:
    """Return parts along the third axis.

    Args:
        x: At least three axes.
        indices_or_sections: The number of parts of equal length, or the positions to cut at.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> [part.type for part in gt.dsplit(np.ones((2, 3, 4)), 2)]
        [float64[2, 3, 2], float64[2, 3, 2]]
    """
    return _split_along("dsplit", x, indices_or_sections, 2, 3)


@function
def unstack(x: TensorLike, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along an axis of static length, each without it.

    Args:
        x: At least one axis.
        axis: The axis to split.

    Raises:
        ShapeError: No such axis, or its length is unknown.

    Example:
        >>> import graphc.tensor as gt
        >>> [part.type for part in unstack(gt.tensor(shape=(2, 3)))]
        [float64[3], float64[3]]
    """
    x = as_tensor(x)
    (at,) = axes_of("unstack", axis, x.ndim)
    n = x.type.shape[at]
    if n is None:
        raise ShapeError(
            f"unstack({x!r}): the length of axis {at} is unknown.",
            "Declare it, as with gt.specify_shape(x, (3, None)).",
        )
    return tuple(squeeze(part, at) for part in parts_of(x, [1] * n, at)) if n else ()
