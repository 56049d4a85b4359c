"""Arrays concatenated and stacked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir import Op, TensorType
from graphc.ir.lengths import agree, common, total
from graphc.tensor.arrays.broadcast import broadcast_batch, broadcast_lengths, broadcast_to
from graphc.tensor.core import axes
from graphc.tensor.core.elementwise import broadcast_shapes, equal, where
from graphc.tensor.core.shape import length, lengths, ravel, reshape
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import (
    TABLE,
    Tensor,
    TensorLike,
    as_tensor,
    axes_of,
    function,
    operands,
)

__all__ = [
    "block", "column_stack", "concat_with_broadcast", "concatenate", "dstack",
    "horizontal_stack", "hstack", "join", "make_vector", "stack", "stacklists",
    "vertical_stack", "vstack",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Concatenate(Op):
    """Arrays of one dtype concatenated along an axis."""

    axis: int

    rearranges = True
    name = "concatenate"

    def infer(self, *types: TensorType) -> TensorType:
        first = types[0]
        shape: list[Any] = []
        for axis in range(first.ndim):
            lengths = [t.shape[axis] for t in types]
            if axis == self.axis:
                shape.append(total(*lengths))
                continue
            if not agree(*lengths):
                raise ShapeError(
                    f"concatenate({', '.join(map(repr, types))}, axis={self.axis}): lengths "
                    f"differ on axis {axis}.",
                    "Make them equal on every other axis.",
                )
            shape.append(common(*lengths))
        return first.with_shape(tuple(shape))

    def perform(self, *xs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.concatenate(xs, self.axis)

    def pullback(self, g: Tensor, y: Tensor, *xs: Tensor) -> Sequence[Tensor]:
        gradients: list[Tensor] = []
        start: Any = 0
        for x in xs:
            stop = start + length(x, self.axis)
            gradients.append(g[axes.slice_at_axis(slice(start, stop), self.axis)])
            start = stop
        return gradients

    def pushforward(self, tangents: Sequence[Any], y: Tensor, *xs: Tensor) -> Any:
        full = [
            TABLE["zeros_like"](x) if t is None else t for t, x in zip(tangents, xs, strict=True)
        ]
        return Tensor.make(self, *full)

    def batch(self, size: Any, batched: Sequence[bool], *xs: Tensor) -> Tensor:
        return Tensor.make(Concatenate(self.axis + 1), *broadcast_batch(size, batched, xs))


@function
def concatenate(tensors: Sequence[Any], axis: Any = 0) -> Tensor:
    """Return arrays joined along an axis.

    Args:
        tensors: At least one array; equal shapes but for that axis.
        axis: The axis to join along, also symbolic; None joins all elements, in row-major order.

    Returns:
        An array of the common dtype.

    Raises:
        ShapeError: If there is no array, an array is 0-d, or shapes do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.concatenate([[1, 2], [3]]).eval(mode="NUMPY").tolist()
        [1, 2, 3]
    """
    xs = list(tensors)
    if not xs:
        raise ShapeError("concatenate: expected at least one array.")
    xs, _ = operands("concatenate", xs)
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    if len({x.ndim for x in xs}) != 1 or not xs[0].ndim:
        raise ShapeError(
            f"concatenate({', '.join(map(repr, xs))}): expected arrays of one rank, at least 1.",
            "Use gt.stack for 0-d arrays, gt.expand_dims for a missing axis.",
        )
    if axes.is_symbolic(axis):
        return _join_along(xs, axis)
    (at,) = axes_of("concatenate", axis, xs[0].ndim)
    return xs[0] if len(xs) == 1 else Tensor.make(Concatenate(at), *xs)


def _join_along(xs: Sequence[Tensor], axis: Tensor) -> Tensor:
    """Join arrays along a symbolic axis; their other lengths are compared in a call."""
    axis = axes.from_front("concatenate", axis, xs[0].ndim)
    shape = lengths(xs[0])
    own = [equal(axis, k) for k in range(len(shape))]
    fitting = [xs[0]]
    for x in xs[1:]:
        pairs = zip(own, lengths(x), lengths(xs[0]), strict=True)
        fitting.append(specify_shape(x, [where(is_own, n, m) for is_own, n, m in pairs]))
        longer = zip(own, shape, lengths(x), strict=True)
        shape = [n + where(is_own, m, 0) for is_own, n, m in longer]
    return reshape(
        Tensor.make(Concatenate(1), *[axes.around_axis(x, axis) for x in fitting]), shape
    )


@function
def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Return arrays of one shape stacked along a new axis.

    Args:
        tensors: At least one array; equal shapes.
        axis: The position of the new axis in the result.

    Raises:
        ShapeError: There is no array, or shapes do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.stack([[1, 2], [3, 4]], axis=1).eval(mode="NUMPY").tolist()
        [[1, 3], [2, 4]]
    """
    arrays = [as_tensor(x) if not isinstance(x, int | float | complex) else x for x in tensors]
    if not arrays:
        raise ShapeError("stack: expected at least one array.")
    xs, _ = operands("stack", arrays)
    if len({x.ndim for x in xs}) != 1:
        raise ShapeError(f"stack({', '.join(map(repr, xs))}): expected arrays of one rank.")
    return concatenate([axes.expand_dims(x, axis) for x in xs], axis)


@function
def join(axis: Any, *tensors: TensorLike) -> Tensor:
    """Return arrays joined along an axis; arguments as for ``concatenate``, axis first.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.join(0, [1.0], [2.0, 3.0]).eval(mode="NUMPY").tolist()
        [1.0, 2.0, 3.0]
    """
    return concatenate(tensors, axis)


@function
def make_vector(*scalars: TensorLike) -> Tensor:
    """Return scalars as a vector of their common dtype; without any, an empty int64 vector.

    Raises:
        ShapeError: An argument is not a scalar.

    Example:
        >>> make_vector(1, 2.5).type
        float64[2]
    """
    if not scalars:
        return as_tensor(np.zeros(0, np.int64))
    xs, _ = operands("make_vector", scalars)
    if any(x.ndim for x in xs):
        raise ShapeError(f"make_vector{tuple(xs)}: expected scalars.")
    return stack(xs)


@function
def stacklists(arg: Any) -> Tensor:
    """Return nested lists of arrays of one shape as an array, a new axis for each nesting level.

    Example:
        >>> import graphc.tensor as gt
        >>> stacklists([[gt.vector(), gt.vector()]]).type
        float64[1, 2, ?]
    """
    if isinstance(arg, list | tuple):
        return stack([stacklists(part) for part in arg])
    return as_tensor(arg)


@function
def concat_with_broadcast(tensor_list: Sequence[Any], axis: int = 0) -> Tensor:
    """Return arrays joined along an axis, broadcast to one shape on all others.

    Args:
        tensor_list: At least one array, all of one rank.
        axis: The axis to join along.

    Raises:
        ShapeError: There is no array, or shapes do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> rows, row = gt.tensor(shape=(4, 2)), gt.tensor(shape=(1, 3))
        >>> concat_with_broadcast([rows, row], axis=1).type
        float64[4, 5]
    """
    xs = [as_tensor(x) for x in tensor_list]
    if not xs or len({x.ndim for x in xs}) != 1:
        raise ShapeError(
            f"concat_with_broadcast({', '.join(map(repr, xs))}): expected at least one "
            "array, all of one rank."
        )
    (at,) = axes_of("concat_with_broadcast", axis, xs[0].ndim)
    without = [x.type.with_shape(_replace_length(x.type.shape, at, 1)) for x in xs]
    broadcast_shapes("concat_with_broadcast", without)
    common = broadcast_lengths(xs)
    return concatenate(
        [broadcast_to(x, _replace_length(common, at, length(x, at))) for x in xs], at
    )


def _replace_length(shape: Sequence[Any], axis: int, n: Any) -> tuple[Any, ...]:
    return (*shape[:axis], n, *shape[axis + 1 :])


@function
def horizontal_stack(*args: TensorLike) -> Tensor:
    """Return matrices joined side by side.

    Args:
        args: At least one matrix, all of as many rows.

    Raises:
        ShapeError: An array is not a matrix, or shapes do not fit.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.horizontal_stack(np.ones((2, 1)), np.zeros((2, 2))).eval(mode="NUMPY").tolist()
        [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    return concatenate(_matrices("horizontal_stack", args), 1)


@function
def vertical_stack(*args: TensorLike) -> Tensor:
    """Return matrices joined one below the other.

    Args:
        args: At least one matrix, all of as many columns.

    Raises:
        ShapeError: An array is not a matrix, or shapes do not fit.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> gt.vertical_stack(np.ones((1, 2)), np.zeros((1, 2))).eval(mode="NUMPY").tolist()
        [[1.0, 1.0], [0.0, 0.0]]
    """
    return concatenate(_matrices("vertical_stack", args), 0)


def _matrices(op: str, xs: Sequence[Any]) -> list[Tensor]:
    matrices = [as_tensor(x) for x in xs]
    for x in matrices:
        if x.ndim != 2:
            raise ShapeError(
                f"{op}: expected a matrix, got {x!r}.",
                "Use gt.hstack or gt.vstack for other arrays.",
            )
    return matrices


@function
def hstack(tensors: Sequence[Any]) -> Tensor:
    """Return arrays joined along the second axis, or vectors along their only one.

    Args:
        tensors: At least one array; scalars count as vectors.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.hstack([[[1], [2]], [[3], [4]]]).eval(mode="NUMPY").tolist()
        [[1, 3], [2, 4]]
    """
    xs = [axes.atleast_1d(x) for x in tensors]
    return concatenate(xs, 0 if xs and xs[0].ndim == 1 else 1)


@function
def vstack(tensors: Sequence[Any]) -> Tensor:
    """Return arrays joined along the first axis.

    Args:
        tensors: At least one array; vectors count as rows.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.vstack([[1, 2], [3, 4]]).eval(mode="NUMPY").tolist()
        [[1, 2], [3, 4]]
    """
    return concatenate([axes.atleast_2d(x) for x in tensors], 0)


@function
def dstack(tensors: Sequence[Any]) -> Tensor:
    """Return arrays joined along the third axis.

    Args:
        tensors: At least one array; a vector of n elements counts as of shape (1, n, 1), a matrix
            gets an axis of length 1 behind its own.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.dstack([[1.0, 2.0], [3.0, 4.0]]).eval(mode="NUMPY").tolist()
        [[[1.0, 3.0], [2.0, 4.0]]]
    """
    return concatenate([axes.atleast_3d(axes.atleast_2d(x), left=False) for x in tensors], 2)


@function
def column_stack(tensors: Sequence[Any]) -> Tensor:
    """Return vectors as the columns of a matrix, and matrices beside them.

    Args:
        tensors: At least one vector or matrix.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.column_stack([[1, 2], [3, 4]]).eval(mode="NUMPY").tolist()
        [[1, 3], [2, 4]]
    """
    xs = [as_tensor(x) for x in tensors]
    return concatenate([axes.atleast_2d(x, left=False) if x.ndim < 2 else x for x in xs], 1)


@function
def block(arrays: TensorLike) -> Tensor:
    """Return nested lists of blocks as one array.

    Args:
        arrays: Blocks in nested lists: the innermost lists are joined along the last axis, those
            around them along the one before it, and so on. Blocks get axes of length 1 in front
            where they lack them.

    Raises:
        ShapeError: A list is empty, blocks are nested to different depths, or lengths do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> a, b = gt.tensor(shape=(2, 2)), gt.tensor(shape=(2, 1))
        >>> block([[a, b], [a, b]]).type
        float64[4, 3]
    """
    depth = _nesting_depth(arrays)
    blocks = [as_tensor(x) for x in _flat(arrays)]
    return _join_blocks(arrays, depth, max([depth, *(x.ndim for x in blocks)]))


def _nesting_depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_nesting_depth(part) for part in arrays}
    if len(depths) != 1:
        raise ShapeError(
            "block: a list is empty."
            if not depths
            else "block: blocks are nested to different depths.",
            "Nest all blocks to the same depth.",
        )
    return 1 + depths.pop()


def _flat(arrays: Any) -> Iterator[Any]:
    if not isinstance(arrays, list):
        yield arrays
        return
    for part in arrays:
        yield from _flat(part)


def _join_blocks(arrays: Any, depth: int, ndim: int) -> Tensor:
    if not depth:
        return axes.atleast_Nd(arrays, n=ndim)
    return concatenate([_join_blocks(part, depth - 1, ndim) for part in arrays], -depth)
