"""Products of arrays over axes, and norms."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import Check, Op, Shape, TensorType, here, is_inexact, where as where_is
from graphc.tensor.elementwise import abs, cast, conj, equal, sqrt, square, where, widened
from graphc.tensor.exponential import power
from graphc.tensor.reduce import max, min, sum
from graphc.tensor.shape import (
    behind,
    broadcast_lengths,
    broadcast_to,
    expand_dims,
    lengths,
    moveaxis,
    ravel,
    squeeze,
    transpose,
)
from graphc.tensor.tensor import Axis, Tensor, as_tensor, axes_of, function, operands

__all__ = ["DotGeneral"]


@dataclass(frozen=True, slots=True)
class DotGeneral(Op):
    """Sums of products over pairs of axes; pairs of batch axes go along.

    The result has the batch axes first, then a's free axes, then b's. bool is "or" of "and".

    Attributes:
        contract: a's axes that are summed over, and b's, pair by pair.
        batch_axes: a's batch axes, and b's, pair by pair.
    """

    contract: tuple[tuple[int, ...], tuple[int, ...]]
    batch_axes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def name(self) -> str:
        # The rows of a matrix with the columns of another, or with a vector: written a @ b.
        rows_by_columns = self.contract == ((1,), (0,)) and not self.batch_axes[0]
        return "matmul" if rows_by_columns else "dot_general"

    def free(self, side: int, ndim: int) -> tuple[int, ...]:
        """The axes of one operand that are neither summed over nor batch axes."""
        bound = (*self.contract[side], *self.batch_axes[side])
        return tuple(axis for axis in range(ndim) if axis not in bound)

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        if a.dtype != b.dtype:
            problem = f"{self.name}({a!r}, {b!r}): one dtype is wanted."
            raise DTypeError(problem, "", where_is(here()))
        for i, j in self._pairs():
            n, m = a.shape[i], b.shape[j]
            if n is not None and m is not None and n != m:
                raise ShapeError(
                    f"Product of {a!r} and {b!r}: axis {i} of the first has length {n}, axis "
                    f"{j} of the second {m}.",
                    "Make them equal; transpose one of the arrays if its axes are exchanged.",
                    where_is(here()),
                )
        batch: Shape = tuple(
            a.shape[i] if a.shape[i] is not None else b.shape[j]
            for i, j in zip(*self.batch_axes, strict=True)
        )
        rest = [t.shape[axis] for s, t in enumerate((a, b)) for axis in self.free(s, t.ndim)]
        return a.with_shape((*batch, *rest))

    def _pairs(self) -> list[tuple[int, int]]:
        return [*zip(*self.contract, strict=True), *zip(*self.batch_axes, strict=True)]

    def checks(self, a: TensorType, b: TensorType) -> Sequence[Check]:
        return [(0, i, 1, j) for i, j in self._pairs() if a.shape[i] is None or b.shape[j] is None]

    def perform(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
        batch = [np.shape(a)[i] for i in self.batch_axes[0]]
        summed = [np.shape(a)[i] for i in self.contract[0]]
        rest = [
            [np.shape(x)[axis] for axis in self.free(s, np.ndim(x))] for s, x in enumerate((a, b))
        ]
        dtype = a.dtype
        left = np.transpose(a, (*self.batch_axes[0], *self.free(0, a.ndim), *self.contract[0]))
        right = np.transpose(b, (*self.batch_axes[1], *self.contract[1], *self.free(1, b.ndim)))
        left = left.reshape((*batch, math.prod(rest[0]), math.prod(summed)))
        right = right.reshape((*batch, math.prod(summed), math.prod(rest[1])))
        wide = widened(dtype)
        y = np.matmul(left.astype(wide, copy=False), right.astype(wide, copy=False))
        return y.astype(dtype, copy=False).reshape((*batch, *rest[0], *rest[1]))

    def pullback(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Sequence[Any]:
        if not is_inexact(a.dtype):
            return None, None
        return self._by(0, g, a, b), self._by(1, g, b, a)

    def _by(self, side: int, g: Tensor, x: Tensor, other: Tensor) -> Tensor:
        """The gradient by one operand: g summed with the other over the other's free axes."""
        n = len(self.batch_axes[0])
        mine, others = self.free(side, x.ndim), self.free(1 - side, other.ndim)
        first = n if side == 1 else n + len(mine)
        op = DotGeneral(
            (tuple(range(first, first + len(others))), others),
            (tuple(range(n)), self.batch_axes[1 - side]),
        )
        y = Tensor.make(op, g, conj(other))
        # y has the batch axes, x's free axes, then the summed ones in the other's order of axes.
        pairs = dict(zip(self.contract[1 - side], self.contract[side], strict=True))
        summed = [pairs[axis] for axis in sorted(self.contract[1 - side])]
        order = [*self.batch_axes[side], *mine, *summed]
        return transpose(y, [order.index(axis) for axis in range(x.ndim)])

    def pushforward(self, tangents: Sequence[Any], y: Tensor, a: Tensor, b: Tensor) -> Any:
        da, db = tangents
        parts = [] if da is None else [Tensor.make(self, da, b)]
        parts += [] if db is None else [Tensor.make(self, a, db)]
        return None if not parts else parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def batch(self, size: Any, batched: Sequence[bool], a: Tensor, b: Tensor) -> Tensor:
        """Two batches are a pair of batch axes; the axis of one alone is free, and moves first."""
        (i, j), (k, m) = (
            [
                behind(axes) if leading else axes
                for axes, leading in zip(pairs, batched, strict=True)
            ]
            for pairs in (self.contract, self.batch_axes)
        )
        if all(batched):
            return Tensor.make(DotGeneral((i, j), ((0, *k), (0, *m))), a, b)
        op = DotGeneral((i, j), (k, m))
        place = len(k) if batched[0] else len(k) + len(op.free(0, a.ndim))
        return moveaxis(Tensor.make(op, a, b), place, 0)


@function
def dot(a: Any, b: Any) -> Tensor:
    """The sum of products over a's last axis and b's last but one (its only one, of a vector).

    Args:
        a: Any shape; with a scalar, the elementwise product.
        b: Any shape.

    Returns:
        An array of a's other axes, then b's.

    Raises:
        ShapeError: The lengths summed over differ.
    """
    (a, b), _ = operands("dot", (a, b))
    if not a.ndim or not b.ndim:
        return a * b  # type: ignore[no-any-return]
    return Tensor.make(DotGeneral(((a.ndim - 1,), (b.ndim - 2 if b.ndim > 1 else 0,))), a, b)


@function
def matmul(a: Any, b: Any) -> Tensor:
    """The matrix product over the last two axes; the axes in front of them broadcast.

    Args:
        a: At least one axis; a vector is a row.
        b: At least one axis; a vector is a column.

    Returns:
        An array without the axes of vectors.

    Raises:
        ShapeError: A scalar, or lengths that do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> a, b = gt.tensor("a", shape=(5, 2, 3)), gt.tensor("b", shape=(3, 4))
        >>> (a @ b).type
        float64[5, 2, 4]
    """
    (a, b), _ = operands("matmul", (a, b))
    if not a.ndim or not b.ndim:
        raise ShapeError(
            f"matmul({a.type!r}, {b.type!r}): a scalar is no matrix.", "Use *.", where_is(here())
        )
    if a.ndim <= 2 or b.ndim == 1:
        y = dot(a, b)
        # dot puts a's axes before b's batch axes: a matrix goes behind them.
        return moveaxis(y, 0, -2) if a.ndim == 2 and b.ndim > 2 else y
    if b.ndim == 2:
        return dot(a, b)
    return _batched(a, b)


def _batched(a: Tensor, b: Tensor) -> Tensor:
    n = builtins.max(a.ndim, b.ndim) - 2
    heads = [expand_dims(x, tuple(range(n + 2 - x.ndim))) if x.ndim < n + 2 else x for x in (a, b)]
    if heads[0].type.shape[:n] != heads[1].type.shape[:n]:
        common = broadcast_lengths(heads, without=2)
        heads = [broadcast_to(x, (*common, *lengths(x)[n:])) for x in heads]
    batch = tuple(range(n))
    return Tensor.make(DotGeneral(((n + 1,), (n,)), (batch, batch)), *heads)


@function
def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """The sum of products over pairs of axes.

    Args:
        a: Any shape.
        b: Any shape.
        axes: How many of a's last and b's first axes, or a pair of lists: a's axes and b's.

    Returns:
        An array of a's other axes, then b's.

    Raises:
        ShapeError: Axes that are not there, differ in number, or differ in length.
    """
    (a, b), _ = operands("tensordot", (a, b))
    if isinstance(axes, int):
        n = axes
        if not 0 <= n <= a.ndim or n > b.ndim:
            raise ShapeError(f"tensordot: no {n} axes in both.", "", where_is(here()))
        pairs = [list(range(a.ndim - n, a.ndim)), list(range(n))]
    else:
        pairs = [list(side) if isinstance(side, list | tuple) else [side] for side in axes]
    if len(pairs) != 2 or len(pairs[0]) != len(pairs[1]):
        raise ShapeError(f"tensordot: {axes} are no pairs of axes.", "", where_is(here()))
    ends = [
        tuple(axes_of("tensordot", axis, x.ndim)[0] for axis in side)
        for x, side in zip((a, b), pairs, strict=True)
    ]
    for x, side in zip((a, b), ends, strict=True):
        axes_of("tensordot", side, x.ndim)
    return Tensor.make(DotGeneral((ends[0], ends[1])), a, b)


@function
def outer(a: Any, b: Any) -> Tensor:
    """The products of all elements of a with all of b: a matrix."""
    (a, b), _ = operands("outer", (a, b))
    return ravel(a)[:, None] * ravel(b)[None, :]


@function
def norm(x: Any, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The length of vectors, or of whole arrays as vectors.

    The gradient at 0 is 0, one of the subgradients there.

    Args:
        x: Any shape; real or complex.
        ord: None or 2 for the root of the sum of squares, 1 for the sum of magnitudes, ``inf``
            and ``-inf`` for the largest and smallest magnitude, 0 for how many are not zero, any
            other number p for ``sum(|x|**p)**(1/p)``; ``"fro"`` is None.
        axis: The axis of the vectors, or several to be taken as one; all by default.
        keepdims: Keep the reduced axes, of length 1.

    Returns:
        A real array without ``axis``.

    Raises:
        ArgumentError: ``ord`` is none of these; matrix norms are not there yet.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x = gt.vector("x")
        >>> graphc.grad(norm(x), x).eval({x: [0.0, 0.0]}, mode="NUMPY").tolist()
        [0.0, 0.0]
    """
    x = as_tensor(x)
    x = x if is_inexact(x.dtype) else cast(x, "float64")
    axes = axes_of("norm", axis, x.ndim)
    if ord not in {None, "fro"} and len(axes) > 1:
        raise ArgumentError(
            f"norm: ord={ord!r} over {len(axes)} axes would be a matrix norm.",
            "Matrix norms other than 'fro' are not there yet; name one axis for vectors.",
            where_is(here()),
        )
    y = _norm(abs(x), ord, axes)
    return y if keepdims else squeeze(y, axes) if axes else y


def _norm(x: Tensor, ord: Any, axes: tuple[int, ...]) -> Tensor:
    if ord in {None, "fro", 2}:
        # At 0 the root has no slope; the part chosen there has slope 0 instead.
        squares = sum(square(x), axes, keepdims=True)
        zero = equal(squares, 0)
        return where(zero, 0, sqrt(where(zero, 1, squares)))  # type: ignore[no-any-return]
    if ord == 1:
        return sum(x, axes, keepdims=True)
    if ord == math.inf:
        return max(x, axes, keepdims=True)
    if ord == -math.inf:
        return min(x, axes, keepdims=True)
    if ord == 0:
        return sum(cast(x > 0, x.dtype), axes, keepdims=True)
    if isinstance(ord, int | float):
        return power(sum(power(x, ord), axes, keepdims=True), 1 / ord)
    raise ArgumentError(f"norm: ord={ord!r} is no norm.", "", where_is(here()))
