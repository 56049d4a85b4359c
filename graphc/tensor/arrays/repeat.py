"""Elements and arrays repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir import Constant, Op, TensorType, is_integer
from graphc.ir.lengths import SymbolicLength, agree
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.shape import (
    are_equal,
    entries,
    length,
    lengths,
    mixed_entries,
    ravel,
    reshape,
)
from graphc.tensor.core.tensor import (
    Tensor,
    TensorLike,
    as_tensor,
    axes_of,
    constant,
    function,
    has_symbols,
)

__all__ = ["repeat", "tile"]


@function
def tile(x: TensorLike, reps: Any) -> Tensor:
    """Return an array repeated side by side.

    Args:
        x: Any shape and dtype.
        reps: The number of repetitions along each axis, Python or symbolic integers, or an int64
            vector of static length. If fewer than x's axes, they apply to its last ones; more make
            new axes in front.

    Raises:
        ShapeError: A number is negative.
        DTypeError: A number is not an integer.

    Example:
        >>> import graphc.tensor as gt
        >>> tile(gt.tensor("x", shape=(2, 3)), (4, 1, 2)).type
        float64[4, 2, 6]
    """
    x = as_tensor(x)
    counts = mixed_entries("tile", reps)
    counts = [1] * (x.ndim - len(counts)) + counts
    own = [1] * (len(counts) - x.ndim) + lengths(x)
    x = reshape(x, own)
    # Each axis that is repeated gets an axis for its copies in front of it.
    again = [axis for axis, count in enumerate(counts) if count != 1]
    if not again:
        return x
    apart = expand_dims(x, [axis + i for i, axis in enumerate(again)])
    shape = [
        n for axis, m in enumerate(own) for n in ((counts[axis], m) if axis in again else (m,))
    ]
    return reshape(broadcast_to(apart, shape), [n * m for n, m in zip(counts, own, strict=True)])


@dataclass(frozen=True, slots=True)
class RepeatIndices(Op):
    """Each index of a vector of counts, repeated as often as counted: an int64 vector.

    Inputs are the counts and their required number.
    """

    name = "repeat_indices"

    def infer(self, counts: TensorType, n: TensorType) -> TensorType:
        if not agree(counts.shape[0], n.value):
            raise ShapeError(f"repeat: {counts!r} for {n.value} elements.")
        total = None if counts.value is None else SymbolicLength.of("total", counts.value)
        return TensorType("int64", (total,))

    def perform(self, counts: np.ndarray[Any, Any], n: Any) -> np.ndarray[Any, Any]:
        if not are_equal(len(counts), n):
            raise ShapeError(
                f"repeat: got {len(counts)} counts for an axis of length {n}.",
                "Pass a count for each element, or a single one.",
            )
        if len(counts) and np.min(counts) < 0:
            raise ShapeError(f"repeat: the count {np.min(counts)} is negative.")
        return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


@function
def repeat(x: TensorLike, repeats: Any, axis: int | None = None) -> Tensor:
    """Return each element repeated several times in a row.

    Args:
        x: Any shape and dtype.
        repeats: The number of repetitions: a Python or symbolic integer, or a vector with one for
            each element along the axis. A vector of static length 1 applies to all.
        axis: The axis to repeat along; by default all elements are repeated, as a vector.

    Raises:
        ShapeError: x has no such axis, a number is negative, or there are not as many counts as
            elements.
        DTypeError: A number is not an integer.

    Example:
        >>> import graphc.tensor as gt
        >>> repeat(gt.tensor("x", shape=(2, 3)), 2, axis=1).type
        float64[2, 6]
    """
    x = as_tensor(x)
    if axis is None:
        x, axis = ravel(x), 0
    (at,) = axes_of("repeat", axis, x.ndim)
    # Counts given as numbers are part of the graph, as they determine its shapes.
    listed = isinstance(repeats, list | tuple) and has_symbols(repeats)
    counts = as_tensor(repeats) if listed else constant(repeats, bake=True)
    if counts.ndim > 1 or not is_integer(counts.dtype):
        raise DTypeError(
            f"repeat: expected integer counts, got {counts!r}.",
            "Pass an integer or a vector of integers.",
        )
    own = lengths(x)
    if counts.ndim and counts.type.shape != (1,):
        indices = _source_indices(counts, length(x, at))
        return x[(*[slice(None)] * at, indices)]
    (static,), symbolic = entries("repeat", counts)
    count = static if static is not None else symbolic[0]
    apart = expand_dims(x, at + 1)
    shape = [*own[: at + 1], count, *own[at + 1 :]]
    return reshape(broadcast_to(apart, shape), [*own[:at], own[at] * count, *own[at + 1 :]])


def _source_indices(counts: Tensor, n: int | Tensor) -> Any:
    """Return the source of each element, constants if the counts and the length are."""
    static = counts.type.shape[0]
    if static is not None and isinstance(n, int) and static != n:
        raise ShapeError(
            f"repeat: got {static} counts for an axis of length {n}.",
            "Pass a count for each element, or a single one.",
        )
    if not isinstance(counts.op, Constant) or not isinstance(n, int):
        return Tensor.make(RepeatIndices(), counts, as_tensor(n, dtype="int64"))
    try:
        return RepeatIndices().perform(counts.op.value, n)
    except ShapeError as error:
        raise ShapeError(error.problem, error.remedy) from None
