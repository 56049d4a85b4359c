"""Products of arrays, summed over axes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir import Node, Op, Shape, TensorType, dtype_name, is_inexact
from graphc.ir.lengths import agree, common
from graphc.ir.line import Code, Writer, call, operator
from graphc.ir.op import parameters_of
from graphc.tensor.arrays.reduce import AxisComposite
from graphc.tensor.core.axes import expand_dims, moveaxis, squeeze, transpose
from graphc.tensor.core.elementwise import broadcast_shapes, cast, conj, wide_dtype
from graphc.tensor.core.shape import ravel, shifted_axes
from graphc.tensor.core.tensor import (
    Tensor,
    TensorLike,
    as_tensor,
    axes_of,
    function,
    known_axes,
    operands,
)

__all__ = [
    "batched_dot", "dot", "inner", "matmul", "matvec", "outer", "tensordot", "vdot", "vecdot",
    "vecmat",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class DotGeneral(Op):
    """Sums of products over pairs of axes; pairs of batch axes are kept.

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

    def as_code(self, inputs: Sequence[Node], write: Writer) -> Code:
        of_vectors = self.contract == ((0,), (0,)) and inputs[0].type.ndim == 1
        sign = "matmul" if of_vectors and not self.batch_axes[0] else self.name
        code = operator(sign, inputs, write)
        return code or call(self.name, inputs, parameters_of(self), write)

    def free(self, side: int, ndim: int) -> tuple[int, ...]:
        bound = (*self.contract[side], *self.batch_axes[side])
        return tuple(axis for axis in range(ndim) if axis not in bound)

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        if a.dtype != b.dtype:
            problem = f"{self.name}({a!r}, {b!r}): expected operands of one dtype."
            raise DTypeError(problem)
        for i, j in self._pairs():
            if not agree(a.shape[i], b.shape[j]):
                raise ShapeError(
                    f"Product of {a!r} and {b!r}: axis {i} of the first has length {a.shape[i]}, "
                    f"axis {j} of the second {b.shape[j]}.",
                    "Make them equal; transpose one of the arrays if its axes are exchanged.",
                )
        batch: Shape = tuple(
            common(a.shape[i], b.shape[j]) for i, j in zip(*self.batch_axes, strict=True)
        )
        rest = [t.shape[axis] for s, t in enumerate((a, b)) for axis in self.free(s, t.ndim)]
        return a.with_shape((*batch, *rest))

    def _pairs(self) -> list[tuple[int, int]]:
        return [*zip(*self.contract, strict=True), *zip(*self.batch_axes, strict=True)]

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        return 0 if axis in self.contract[i] else "any"

    def perform(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
        """Multiply batches of matrices: the axes of each kind are merged into one."""
        wide = wide_dtype(a.dtype)
        left, right = (x.astype(wide, copy=False) for x in (a, b))
        if a.ndim <= 2 and b.ndim <= 2 and len(self.contract[0]) == 1 and not self.batch_axes[0]:
            (i,), (j,) = self.contract
            y = np.matmul(left if i == a.ndim - 1 else left.T, right.T if j else right)
            return y.astype(a.dtype, copy=False)
        free = [self.free(side, x.ndim) for side, x in enumerate((a, b))]
        left = np.transpose(left, (*self.batch_axes[0], *free[0], *self.contract[0]))
        right = np.transpose(right, (*self.batch_axes[1], *self.contract[1], *free[1]))
        k = len(self.batch_axes[0])
        batch, rows = left.shape[:k], left.shape[k : k + len(free[0])]
        columns = right.shape[k + len(self.contract[1]) :]
        summed = math.prod(right.shape[k : k + len(self.contract[1])])
        left = left.reshape((*batch, math.prod(rows), summed))
        right = right.reshape((*batch, summed, math.prod(columns)))
        y = np.matmul(left, right).astype(a.dtype, copy=False)
        return y.reshape((*batch, *rows, *columns))

    def pullback_to(
        self, wanted: Sequence[bool], g: Tensor, y: Tensor, a: Tensor, b: Tensor
    ) -> Sequence[Any]:
        if not is_inexact(a.dtype):
            return None, None
        by_a, by_b = wanted
        return self._operand_gradient(0, g, a, b) if by_a else None, self._operand_gradient(
            1, g, b, a
        ) if by_b else None

    def _operand_gradient(self, side: int, g: Tensor, x: Tensor, other: Tensor) -> Tensor:
        """Return one operand's gradient: g times the other, summed over the other's free axes."""
        n = len(self.batch_axes[0])
        mine, others = self.free(side, x.ndim), self.free(1 - side, other.ndim)
        # Axes of g and of the other are labelled with x's axes; other labels are summed over.
        pairs = dict(zip(self.contract[1 - side], self.contract[side], strict=True))
        pairs |= zip(self.batch_axes[1 - side], self.batch_axes[side], strict=True)
        of_other: list[Hashable] = [pairs.get(axis, f"{axis}") for axis in range(other.ndim)]
        rest: list[Hashable] = [f"{axis}" for axis in others]
        free = [*mine, *rest] if side == 0 else [*rest, *mine]
        of_g = [*self.batch_axes[side], *free]
        assert g.ndim == n + len(free)
        return contract_axes(g, of_g, conj(other), of_other, list(range(x.ndim)))

    def pushforward(self, tangents: Sequence[Any], y: Tensor, a: Tensor, b: Tensor) -> Any:
        da, db = tangents
        terms = [] if da is None else [Tensor.make(self, da, b)]
        terms += [] if db is None else [Tensor.make(self, a, db)]
        return None if not terms else terms[0] if len(terms) == 1 else terms[0] + terms[1]

    def batch(self, size: Any, batched: Sequence[bool], a: Tensor, b: Tensor) -> Tensor:
        """Pair two batches as batch axes; one operand's batch becomes a free axis, in front."""
        (i, j), (k, m) = (
            [
                shifted_axes(axes) if leading else axes
                for axes, leading in zip(pairs, batched, strict=True)
            ]
            for pairs in (self.contract, self.batch_axes)
        )
        if all(batched):
            return Tensor.make(DotGeneral((i, j), ((0, *k), (0, *m))), a, b)
        op = DotGeneral((i, j), (k, m))
        axis = len(k) if batched[0] else len(k) + len(op.free(0, a.ndim))
        return moveaxis(Tensor.make(op, a, b), axis, 0)


@dataclass(frozen=True, slots=True)
class ProductAndSum(AxisComposite):
    """``a @ b + c``, with b a matrix, summed over a's last axis; c has the product's shape.

    Backends fuse products and sums into this operation after all gradients: it has no pullback.

    Attributes:
        axes: The last axis of a alone.
    """

    def infer(self, a: TensorType, b: TensorType, c: TensorType) -> TensorType:  # type: ignore[override]
        y = self.product.infer(a, b)
        return y.with_shape(broadcast_shapes("add", (y, c)))

    @property
    def product(self) -> DotGeneral:
        """The product without c."""
        return DotGeneral((self.axes, (0,)))

    def expand(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:  # type: ignore[override]
        return Tensor.make(self.product, a, b) + c


def contract_axes(
    a: Tensor, left: Sequence[Hashable], b: Tensor, right: Sequence[Hashable], out: Sequence[Any]
) -> Tensor:
    """Return the product of two arrays with labelled axes, summed over labels not in ``out``.

    A label occurs at most once in each of the three; one that is summed over occurs in both inputs.
    """
    plan = _plan(tuple(left), tuple(right), tuple(out))
    if plan is None:
        return align_axes(a, left, out) * align_axes(b, right, out)
    product = Tensor.make(plan.op, b, a) if plan.swaps else Tensor.make(plan.op, a, b)
    return product if plan.order is None else transpose(product, plan.order)


class Contraction(NamedTuple):
    """A product of labelled axes as one operation, its operands' order and its result's axes."""

    op: DotGeneral
    swaps: bool
    order: tuple[int, ...] | None


@lru_cache(4096)
def _plan(
    left: tuple[Hashable, ...], right: tuple[Hashable, ...], out: tuple[Hashable, ...]
) -> Contraction | None:
    """Return how to multiply two arrays; None for an elementwise product."""
    common = [x for x in left if x in right]
    batch = [x for x in out if x in common]
    summed = [x for x in common if x not in batch]
    free = [[x for x in side if x not in common] for side in (left, right)]
    if not summed and not (free[0] and free[1]):
        return None
    swaps = [*batch, *free[0], *free[1]] != [*out] == [*batch, *free[1], *free[0]]
    if swaps:
        left, right = right, left
        free.reverse()
    op = DotGeneral(
        (tuple(map(left.index, summed)), tuple(map(right.index, summed))),
        (tuple(map(left.index, batch)), tuple(map(right.index, batch))),
    )
    labels = [*batch, *free[0], *free[1]]
    return Contraction(op, swaps, None if labels == [*out] else tuple(map(labels.index, out)))


def align_axes(x: Tensor, labels: Sequence[Hashable], out: Sequence[Any]) -> Tensor:
    """Return the array with its axes ordered as ``out``, and new ones for labels it lacks."""
    x = transpose(x, [labels.index(label) for label in out if label in labels])
    new = tuple(i for i, label in enumerate(out) if label not in labels)
    return expand_dims(x, new) if new else x


def without_ones(
    xs: Sequence[Tensor], labels: Sequence[list[Any]], which: Sequence[Any]
) -> tuple[list[Tensor], list[list[Any]]]:
    """Return the arrays without axes of static length 1 that broadcast against another's."""
    if not which:
        return list(xs), list(labels)
    long = {
        label
        for x, names in zip(xs, labels, strict=True)
        for label, n in zip(names, x.type.shape, strict=True)
        if n != 1 and label in which
    }
    arrays, remaining = [], []
    for x, names in zip(xs, labels, strict=True):
        unit_axes = [i for i, n in enumerate(x.type.shape) if n == 1 and names[i] in long]
        arrays.append(squeeze(x, tuple(unit_axes)) if unit_axes else x)
        remaining.append([label for i, label in enumerate(names) if i not in unit_axes])
    return arrays, remaining


def _operand(name: str, x: Tensor, dtype: Any) -> Tensor:
    if is_inexact(x.dtype) and not is_inexact(dtype_name(dtype)):
        raise DTypeError(
            f"{name}: dtype={dtype!r} would drop the fractions of {x!r}.",
            f"Cast the result: {name}(...).astype({dtype_name(dtype)!r}).",
        )
    return cast(x, dtype)


def _product(name: str, a: Any, b: Any, cores: str, dtype: Any = None) -> Tensor:
    """Multiply over the last axes, in letters such as ``"mn,np->mp"``; axes in front broadcast."""
    xs, _ = operands(name, (a, b))
    if dtype is not None:
        xs = [_operand(name, x, dtype) for x in xs]
    inputs, _, result = cores.partition("->")
    letters = inputs.split(",")
    for x, core in zip(xs, letters, strict=True):
        if x.ndim < len(core):
            raise ShapeError(
                f"{name}({', '.join(map(repr, xs))}): expected at least "
                f"{len(core)} axes ({core}), got {x.ndim}.",
                "Use * to multiply by a scalar.",
            )
    # Axes in front are labelled from the end, so that equal labels broadcast.
    heads = [range(len(core) - x.ndim, 0) for x, core in zip(xs, letters, strict=True)]
    labels = [[*head, *core] for head, core in zip(heads, letters, strict=True)]
    longest = min(heads, key=lambda head: head.start)
    (a, b), (a_labels, b_labels) = without_ones(xs, labels, longest)
    return contract_axes(a, a_labels, b, b_labels, [*longest, *result])


@function
def dot(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the sum of products over a's last axis and b's second to last (a vector's only) axis.

    Args:
        a: Any shape; with a scalar, the elementwise product.
        b: Any shape.

    Returns:
        An array of a's other axes, then b's.

    Raises:
        ShapeError: The lengths summed over differ.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.dot([[1, 2], [3, 4]], [5, 6]).eval(mode="NUMPY").tolist()
        [17, 39]
    """
    (a, b), _ = operands("dot", (a, b))
    if not a.ndim or not b.ndim:
        return a * b
    return Tensor.make(DotGeneral(((a.ndim - 1,), (b.ndim - 2 if b.ndim > 1 else 0,))), a, b)


@function
def matmul(a: TensorLike, b: TensorLike, dtype: Any = None) -> Tensor:
    """Return the matrix product over the last two axes; the axes in front of them broadcast.

    Args:
        a: At least one axis; a vector is a row.
        b: At least one axis; a vector is a column.
        dtype: The dtype to compute in, by default the common one.

    Returns:
        An array without the axes of vectors.

    Raises:
        ShapeError: An argument is a scalar, or lengths do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> a, b = gt.tensor("a", shape=(5, 2, 3)), gt.tensor("b", shape=(3, 4))
        >>> (a @ b).type
        float64[5, 2, 4]
    """
    a, b = as_tensor(a), as_tensor(b)
    if not a.ndim or not b.ndim:
        raise ShapeError(
            f"matmul({a!r}, {b!r}): expected at least one axis, got a scalar.", "Use *."
        )
    row, column = "m" if a.ndim > 1 else "", "p" if b.ndim > 1 else ""
    return _product("matmul", a, b, f"{row}n,n{column}->{row}{column}", dtype)


@function
def matvec(x1: TensorLike, x2: TensorLike, dtype: Any = None) -> Tensor:
    """Return matrices times vectors; the axes in front broadcast.

    Args:
        x1: Matrices, the last two axes.
        x2: Vectors, the last axis.
        dtype: The dtype to compute in, by default the common one.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.matvec(gt.tensor(shape=(5, 2, 3)), gt.tensor(shape=(4, 1, 3))).type
        float64[4, 5, 2]
    """
    return _product("matvec", x1, x2, "mn,n->m", dtype)


@function
def vecmat(x1: TensorLike, x2: TensorLike, dtype: Any = None) -> Tensor:
    """Return vectors, conjugated, times matrices; the axes in front broadcast.

    Args:
        x1: Vectors, the last axis.
        x2: Matrices, the last two axes.
        dtype: The dtype to compute in, by default the common one.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.vecmat(gt.tensor(shape=(4, 1, 2)), gt.tensor(shape=(5, 2, 3))).type
        float64[4, 5, 3]
    """
    return _product("vecmat", conj(x1), x2, "m,mn->n", dtype)


@function
def vecdot(x1: TensorLike, x2: TensorLike, dtype: Any = None, *, axis: int = -1) -> Tensor:
    """Return the sums of products of vectors, the first conjugated; the other axes broadcast.

    Args:
        x1: Vectors, along ``axis``.
        x2: As many vectors, or one, or shapes that broadcast.
        dtype: The dtype to compute in, by default the common one.
        axis: The axis of the vectors, in both.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.vecdot(gt.constant([1 + 1j, 2]), gt.constant([3, 1j])).eval(mode="NUMPY").item()
        (3-1j)
    """
    x1, x2 = (as_tensor(x) for x in (x1, x2))
    if axis != -1:
        x1, x2 = (moveaxis(x, axis, -1) for x in (x1, x2))
    return _product("vecdot", conj(x1), x2, "n,n->", dtype)


@function
def inner(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the sums of products over the last axis of both.

    Args:
        a: Any shape; with a scalar, the elementwise product.
        b: Any shape.

    Returns:
        An array of a's other axes, then b's.

    Raises:
        ShapeError: The last lengths differ.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.inner([1, 2], [3, 4]).eval(mode="NUMPY").tolist()
        11
    """
    (a, b), _ = operands("inner", (a, b))
    if not a.ndim or not b.ndim:
        return a * b
    return Tensor.make(DotGeneral(((a.ndim - 1,), (b.ndim - 1,))), a, b)


@function
def vdot(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the sum of products of all elements in row-major order, the first array's conjugated.

    Args:
        a: Any shape.
        b: As many elements.

    Raises:
        ShapeError: The numbers of elements differ.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.vdot([1j, 2], [1j, 3]).eval(mode="NUMPY").tolist()
        (7+0j)
    """
    return inner(conj(ravel(a)), ravel(b))


@function
def batched_dot(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the product ``dot`` of each pair of elements of two batches.

    Args:
        a: At least one axis, the first of which is the batch.
        b: The same.

    Raises:
        ShapeError: An argument is a scalar, or lengths differ.

    Example:
        >>> import graphc.tensor as gt
        >>> batched_dot(gt.tensor(shape=(5, 2, 3)), gt.tensor(shape=(5, 3, 4))).type
        float64[5, 2, 4]
    """
    (a, b), _ = operands("batched_dot", (a, b))
    if not a.ndim or not b.ndim:
        raise ShapeError(f"batched_dot({a!r}, {b!r}): expected a batch, got a scalar.")
    summed = ((a.ndim - 1,), (max(b.ndim - 2, 1),)) if a.ndim > 1 and b.ndim > 1 else ((), ())
    return Tensor.make(DotGeneral(summed, ((0,), (0,))), a, b)


@function
def tensordot(a: TensorLike, b: TensorLike, axes: Any = 2) -> Tensor:
    """Return the sum of products over pairs of axes.

    Args:
        a: Any shape.
        b: Any shape.
        axes: The number of a's last and b's first axes, or a pair of lists: a's axes and b's.

    Returns:
        An array of a's other axes, then b's.

    Raises:
        ShapeError: The axes do not exist, or differ in number or length.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.tensordot([[1, 2], [3, 4]], [[1, 0], [0, 1]], axes=2).eval(mode="NUMPY").tolist()
        5
    """
    (a, b), _ = operands("tensordot", (a, b))
    axes = known_axes(axes)
    if isinstance(axes, int):
        n = axes
        if not 0 <= n <= a.ndim or n > b.ndim:
            raise ShapeError(f"tensordot: an operand has fewer than {n} axes.")
        pairs = [list(range(a.ndim - n, a.ndim)), list(range(n))]
    else:
        pairs = [list(side) if isinstance(side, list | tuple) else [side] for side in axes]
    if len(pairs) != 2 or len(pairs[0]) != len(pairs[1]):
        raise ShapeError(f"tensordot: the lists of axes {axes} differ in length.")
    ends = [
        tuple(axes_of("tensordot", axis, x.ndim)[0] for axis in side)
        for x, side in zip((a, b), pairs, strict=True)
    ]
    for x, side in zip((a, b), ends, strict=True):
        axes_of("tensordot", side, x.ndim)
    return Tensor.make(DotGeneral((ends[0], ends[1])), a, b)


@function
def outer(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the products of all elements of a with all elements of b, as a matrix.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.outer([1, 2], [3, 4]).eval(mode="NUMPY").tolist()
        [[3, 4], [6, 8]]
    """
    (a, b), _ = operands("outer", (a, b))
    return ravel(a)[:, None] * ravel(b)[None, :]
