"""Arrays broadcast to a larger shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import RuntimeShapeError, ShapeError
from graphc.ir import Op, Shape as StaticShape, TensorType
from graphc.ir.lengths import agree, common, require
from graphc.tensor.core.assertion import CheckAndRaise
from graphc.tensor.core.axes import expand_dims
from graphc.tensor.core.elementwise import broadcast_shapes, equal, sum_gradient
from graphc.tensor.core.shape import (
    are_equal,
    entries,
    fill_shape,
    length,
    lengths,
    read_from,
    target_shape,
    with_batch_length,
)
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, constant, function

__all__ = [
    "broadcast_arrays", "broadcast_shape", "broadcast_to", "fill", "second",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class BroadcastTo(Op):
    """The array broadcast to a larger shape; None stands for an input.

    Attributes:
        shape: The requested lengths.
        repeated: The array's own axes, each of static length 1, that are repeated; on the others
            its length must be the requested one. Axes it lacks are new ones in front.
    """

    shape: StaticShape
    repeated: tuple[int, ...]
    name = "broadcast_to"
    is_linear = True

    def infer(self, x: TensorType, *symbolic: TensorType) -> TensorType:
        new = len(self.shape) - x.ndim
        result = fill_shape(self.shape, symbolic)
        require(*result)
        for axis, n in enumerate(x.shape):
            if axis in self.repeated:
                continue
            wanted = result[new + axis]
            result[new + axis] = common(n, wanted)
            if not agree(n, wanted):
                raise ShapeError(
                    f"broadcast_to({x!r}, {self.shape}): lengths differ on axis {axis - x.ndim}.",
                    "Only an axis of static length 1 is repeated.",
                )
        return x.with_shape(tuple(result))

    def target(self, x_shape: tuple[int, ...], symbolic: Sequence[Any]) -> tuple[int, ...]:
        target = target_shape(self.shape, symbolic)
        new = len(target) - len(x_shape)
        for axis, n in enumerate(x_shape):
            if axis not in self.repeated and not are_equal(n, target[new + axis]):
                raise ShapeError(
                    f"broadcast_to: an array of shape {x_shape} does not go to {target}: axis "
                    f"{axis - len(x_shape)} is not repeated, as its length is not statically 1.",
                    "Declare the length, as in gt.tensor(shape=(1, None)), or squeeze it.",
                )
        return target

    def perform(self, x: np.ndarray[Any, Any], *symbolic: Any) -> np.ndarray[Any, Any]:
        return np.broadcast_to(x, self.target(np.shape(x), symbolic))

    def pullback(self, g: Tensor, y: Tensor, x: Tensor, *symbolic: Tensor) -> Sequence[Any]:
        new = y.ndim - x.ndim
        axes = (*range(new), *(new + axis for axis in self.repeated))
        if axes:
            g = sum_gradient(g, axes, x)
        if self.repeated:
            g = expand_dims(g, self.repeated)
        return (g, *(None for _ in symbolic))

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor, *symbolic: Tensor) -> Tensor:
        """Insert the new axes between the batch axis and x's own, and repeat them, too."""
        new = len(self.shape) + 1 - x.ndim
        x = expand_dims(x, tuple(range(1, new + 1)))
        again = tuple(i + 1 for i, n in enumerate(self.shape) if i < new and n != 1)
        again += tuple(new + 1 + axis for axis in self.repeated)
        first, lengths = with_batch_length(size, symbolic)
        return Tensor.make(BroadcastTo((first, *self.shape), again), x, *lengths)


@function
def broadcast_to(x: TensorLike, shape: Any) -> Tensor:
    """Return the array repeated along new leading axes and along axes of static length 1.

    Args:
        x: Any shape and dtype.
        shape: Python or symbolic integers, or an int64 vector of static length.

    Returns:
        An array of that shape.

    Raises:
        ShapeError: x has more axes, or a length that is neither 1 nor the requested one.

    Example:
        >>> import graphc.tensor as gt
        >>> broadcast_to(gt.tensor("x", shape=(3, 1)), (2, 3, 4)).type
        float64[2, 3, 4]
    """
    x = as_tensor(x)
    static, symbolic = entries("broadcast_to", shape)
    new = len(static) - x.ndim
    if new < 0:
        raise ShapeError(f"broadcast_to({x!r}, {static}): the shape has fewer axes than the array.")
    if static == x.type.shape and None not in static:
        return x
    repeated = tuple(
        axis for axis, n in enumerate(x.type.shape) if n == 1 and static[new + axis] != 1
    )
    result = Tensor.make(BroadcastTo(static, repeated), x, *symbolic)
    # Lengths that are x's own are known to fit.
    has_own_lengths = [*symbolic] == [n for n in lengths(x) if isinstance(n, Tensor)]
    return x if has_own_lengths and not new and not repeated and result.type is x.type else result


@function
def broadcast_arrays(*xs: TensorLike) -> list[Tensor]:
    """Return the arrays, each broadcast to their common shape.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> [y.type for y in gt.broadcast_arrays(np.ones((2, 1)), np.ones(3))]
        [float64[2, 3], float64[2, 3]]
    """
    tensors = [as_tensor(x) for x in xs]
    common = broadcast_lengths(tensors) if tensors else []
    return [broadcast_to(x, common) for x in tensors]


@function
def broadcast_shape(*arrays: TensorLike, arrays_are_shapes: bool = False) -> tuple[Tensor, ...]:
    """Return the lengths of the arrays' common shape.

    Args:
        arrays: Arrays of any shape, or with ``arrays_are_shapes`` tuples of lengths.
        arrays_are_shapes: Whether shapes are given. There, too, only a 1 that is known statically
            is repeated.

    Returns:
        An int64 scalar for each axis, a constant where all lengths are static.

    Raises:
        ShapeError: Two known lengths differ and neither is 1.
        RuntimeShapeError: At run time, a length that is not static differs from the others.

    Example:
        >>> import graphc.tensor as gt
        >>> broadcast_shape(gt.tensor(shape=(3, 1)), gt.tensor(shape=(4,)))
        (3: int64[], 4: int64[])
    """
    if arrays_are_shapes:
        # An array of each shape, for its lengths alone; it is never computed.
        nothing = constant(0, dtype="int8")
        xs = [broadcast_to(nothing, shape) for shape in arrays]
    else:
        xs = [as_tensor(x) for x in arrays]
    if not xs:
        return ()
    broadcast_shapes("broadcast_shape", [x.type for x in xs])
    common = [as_tensor(n, dtype="int64") for n in broadcast_lengths(xs)]
    return tuple(_check_lengths(n, axis - len(common), xs) for axis, n in enumerate(common))


def _check_lengths(n: Tensor, axis: int, xs: Sequence[Tensor]) -> Tensor:
    others = [length(x, axis) for x in xs if x.ndim >= -axis]
    others = [m for m in others if isinstance(m, Tensor) and m is not n]
    if not others:
        return n
    problem = f"broadcast_shape: lengths differ on axis {axis}."
    return CheckAndRaise(RuntimeShapeError, problem)(n, *[equal(n, m) for m in others])


@function
def second(a: TensorLike, b: TensorLike) -> Tensor:
    """Return ``b`` broadcast to the common shape of both; only the lengths of ``a`` matter.

    Args:
        a: Any shape and dtype.
        b: An array that broadcasts with it.

    Returns:
        An array of b's dtype.

    Raises:
        ShapeError: Two known lengths differ and neither is 1.

    Example:
        >>> import graphc.tensor as gt
        >>> second(gt.tensor(shape=(2, 3)), 1.5).type
        float64[2, 3]
    """
    xs = [as_tensor(a), as_tensor(b)]
    broadcast_shapes("second", [x.type for x in xs])
    return read_from(xs[0], broadcast_to(xs[1], broadcast_lengths(xs)))


@function
def fill(a: TensorLike, b: TensorLike) -> Tensor:
    """Return an array of a's shape filled with ``b``; arguments as for ``second``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.fill([[0, 0], [0, 0]], 5).eval(mode="NUMPY").tolist()
        [[5, 5], [5, 5]]
    """
    a = as_tensor(a)
    return read_from(a, second(a, b))


def broadcast_lengths(xs: Sequence[Tensor], without: int = 0) -> list[int | Tensor]:
    """Return the lengths of the common shape of all axes but the last few."""
    ndim = max(x.ndim for x in xs)
    result: list[int | Tensor] = []
    for axis in range(-ndim, -without):
        having = [x for x in xs if x.ndim >= -axis and x.type.shape[axis] != 1]
        static = [x for x in having if x.type.shape[axis] is not None]
        source = static or having
        result.append(length(source[0], axis) if source else 1)
    return result


def batch_of(x: Tensor, size: int | Tensor) -> Tensor:
    """Return a batch of ``size`` copies of x."""
    return broadcast_to(x, (size, *lengths(x)))


def broadcast_batch(size: Any, batched: Sequence[bool], xs: Sequence[Tensor]) -> list[Tensor]:
    """Return the inputs of a batch, where unbatched inputs are repeated."""
    pairs = zip(xs, batched, strict=True)
    return [x if flag else batch_of(x, size) for x, flag in pairs]


def one_slice(value: Any, x: Tensor, axis: int) -> Tensor:
    """Return a value as one more slice of an array along an axis, to be joined with it."""
    return broadcast_to(value, [1 if i == axis else n for i, n in enumerate(lengths(x))])
