"""Linear systems with triangular matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import Op, TensorType
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.triangle import tril, triu
from graphc.tensor.core.axes import expand_dims, matrix_transpose, moveaxis, squeeze
from graphc.tensor.core.elementwise import cast, conj
from graphc.tensor.core.shape import length, lengths, reshape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function
from graphc.tensor.linalg import mirror
from graphc.tensor.linalg.dot import matmul


def solve_type(op: str, a: TensorType, b: TensorType) -> TensorType:
    """Return the type of x in ``a @ x = b``, for as many matrices a as b.

    Raises:
        ShapeError: a is not square, or lengths differ.
        DTypeError: a and b are not of one dtype of floats.
    """
    mirror.check_floats(op, a, b)
    a = mirror.square(op, a)
    if b.ndim < 2:
        raise ShapeError(f"{op}({a!r}, {b!r}): expected matrices.")
    return b.with_shape(
        (*mirror.common_lengths(op, (a, b), (a.shape[:-1], b.shape[:-1])), b.shape[-1])
    )


@dataclass(frozen=True, slots=True)
class SolveTriangular(Op):
    """The solution x of ``a @ x = b`` for triangular a; the other triangle is not read.

    Attributes:
        lower: Whether a is a lower triangle.
        transposed: Whether a's transpose replaces a.
        unit_diagonal: Whether the diagonal is taken to be ones and not read.
    """

    lower: bool
    transposed: bool
    unit_diagonal: bool

    by_numpy = True
    name = "solve_triangular"

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        return solve_type(self.name, a, b)

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        if axis < type.ndim - 2 or (i and axis == type.ndim - 1):
            return "any"
        return 0 if i else "identity"

    def perform(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
        y = np.empty_like(b)
        trtrs = mirror.lapack("trtrs", a, b)
        for index in np.ndindex(b.shape[:-2] if b.size else (0,)):
            y[index] = self._one(trtrs, a[index], b[index])
        return y

    def _one(self, trtrs: Any, a: Any, b: Any) -> Any:
        # LAPACK reads columns first: a's transpose is there without a copy.
        x, info = trtrs(
            a.T, b, lower=not self.lower, trans=not self.transposed, unitdiag=self.unit_diagonal
        )
        return x if info == 0 else self._substitute(a, b)

    def _substitute(self, a: Any, b: Any) -> Any:
        """Solve by substitution, so that a zero on the diagonal gives infinities and NaN."""
        a = a.T if self.transposed else a
        lower = self.lower != self.transposed
        x = b.copy()
        for i in range(len(a)) if lower else reversed(range(len(a))):
            previous = slice(0, i) if lower else slice(i + 1, None)
            x[i] = b[i] - a[i, previous] @ x[previous]
            if not self.unit_diagonal:
                x[i] = x[i] / a[i, i]
        return x

    def pullback(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        other = SolveTriangular(self.lower, not self.transposed, self.unit_diagonal)
        by_b = conj(Tensor.make(other, a, conj(g)))
        by_a = matmul(conj(y), by_b.mT) if self.transposed else matmul(by_b, mirror.adjoint(y))
        k = int(self.unit_diagonal)
        return -(tril(by_a, -k) if self.lower else triu(by_a, k)), by_b

    def pushforward(self, tangents: Sequence[Any], y: Tensor, a: Tensor, b: Tensor) -> Any:
        da, db = tangents
        k = int(self.unit_diagonal)
        if da is None:
            return None if db is None else Tensor.make(self, a, db)
        moved = tril(da, -k) if self.lower else triu(da, k)
        moved = matmul(matrix_transpose(moved) if self.transposed else moved, y)
        return Tensor.make(self, a, -moved if db is None else db - moved)

    def batch(self, size: Any, batched: Sequence[bool], a: Tensor, b: Tensor) -> Tensor:
        return mirror.as_columns(partial(Tensor.make, self), size, batched, a, b)


def solved_adjoint(lower: Tensor, b: Tensor) -> Tensor:
    """Return the solution x of ``lower^H @ x = b``, for lower triangles."""
    return conj(Tensor.make(SolveTriangular(True, True, False), lower, conj(b)))


def over_columns(
    solve: Callable[..., Tensor], arrays: Sequence[Tensor], cores: Sequence[int], b: Tensor
) -> Tensor:
    """Return x for matrices and right-hand sides whose axes in front broadcast.

    Right-hand sides of one matrix stand beside each other, so that it is factorised once.

    Args:
        solve: Function that returns x for the arrays and b with equal axes in front.
        arrays: Arrays that define the matrices.
        cores: The number of last axes of each array that belong to one matrix.
        b: Matrices in the last two axes.
    """
    rank = max(x.ndim - core for x, core in zip((*arrays, b), (*cores, 2), strict=True))
    arrays = [as_tensor(x, ndim=rank + core) for x, core in zip(arrays, cores, strict=True)]
    b = as_tensor(b, ndim=rank + 2)
    shared = tuple(
        axis
        for axis in range(rank)
        if b.type.shape[axis] != 1 and all(x.type.shape[axis] == 1 for x in arrays)
    )
    k = len(shared)
    if shared:
        arrays = [squeeze(x, shared) for x in arrays]
        b = moveaxis(b, shared, tuple(range(-k - 1, -1)))
    beside = lengths(b)[-k - 1 :]
    if shared:
        b = reshape(b, (*lengths(b)[: -k - 1], math.prod(beside)))
    front = [_common_length([*arrays, b], axis) for axis in range(rank - k)]
    *arrays, b = (
        broadcast_to(x, (*front, *lengths(x)[x.ndim - core :]))
        for x, core in zip((*arrays, b), (*cores, 2), strict=True)
    )
    x = solve(*arrays, b)
    if not shared:
        return x
    x = reshape(x, (*lengths(x)[:-1], *beside))
    return moveaxis(x, tuple(range(-k - 1, -1)), shared)


def _common_length(xs: Sequence[Tensor], axis: int) -> int | Tensor:
    """Return the length of an axis among the arrays that do not broadcast along it."""
    having = [x for x in xs if x.type.shape[axis] != 1]
    static = [x for x in having if x.type.shape[axis] is not None]
    source = static or having
    return length(source[0], axis) if source else 1


def with_columns(b: Tensor, b_ndim: int | None, op: str) -> tuple[Tensor, bool]:
    """Return the right-hand sides as matrices, and whether they were vectors."""
    b_ndim = min(b.ndim, 2) if b_ndim is None else b_ndim
    if b_ndim not in {1, 2}:
        raise ArgumentError(f"{op}: expected b_ndim 1 or 2, got {b_ndim!r}.")
    if b.ndim < b_ndim:
        raise ShapeError(f"{op}: expected {'vectors' if b_ndim == 1 else 'matrices'}, got {b!r}.")
    return (expand_dims(b, b.ndim), True) if b_ndim == 1 else (b, False)


def solve_arrays(
    op: str,
    solve: Callable[[Tensor, Tensor], Tensor],
    a: Any,
    b: Any,
    b_ndim: int | None,
) -> Tensor:
    """Return x for any array-likes, in their common dtype."""
    (a, b), dtype = mirror.in_floats(op, a, b)
    if a.ndim < 2:
        raise ShapeError(f"{op}: expected a matrix, got {a!r}.")
    b, is_vector = with_columns(b, b_ndim, op)
    x = over_columns(solve, [a], [2], b)
    return cast(squeeze(x, x.ndim - 1) if is_vector else x, dtype)


TRANSPOSES = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}
"""The transformations of a matrix; False and True are 0 and 1."""


@function
def solve_triangular(  # noqa: PLR0913 (SciPy's arguments)
    a: TensorLike,
    b: TensorLike,
    *,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    check_finite: bool = True,
    b_ndim: int | None = None,
) -> Tensor:
    """Return the solution x of ``a @ x = b`` for a triangular matrix a.

    A zero on the diagonal gives infinities and NaN.

    Args:
        a: Square matrices in the last two axes; the other triangle is not read.
        b: A vector, or matrices in the last two axes. Axes in front broadcast.
        trans: 0 or ``"N"`` to solve with a, 1 or ``"T"`` with its transpose, 2 or ``"C"`` with its
            adjoint.
        lower: Whether a is a lower triangle, not an upper one.
        unit_diagonal: Take the diagonal to be ones, and do not read it.
        check_finite: As in SciPy; non-finite values are computed with in any case.
        b_ndim: 1 where b's last axis is a vector, 2 for matrices in the last two; by default 1 for
            a vector alone.

    Returns:
        An array of b's shape, with the axes in front of both.

    Raises:
        ArgumentError: ``trans`` or ``b_ndim`` is none of these.
        ShapeError: a is not square, or lengths do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> a = gt.constant([[2.0, 0.0], [1.0, 4.0]])
        >>> gt.linalg.solve_triangular(a, [2.0, 5.0], lower=True).eval(mode="NUMPY").tolist()
        [1.0, 1.0]
    """
    how = TRANSPOSES.get(trans)
    if how is None:
        raise ArgumentError(
            f"solve_triangular: unknown trans={trans!r}.", "Use 0, 1 or 2, or 'N', 'T' or 'C'."
        )
    if how == "C":
        a = conj(as_tensor(a))
    op = SolveTriangular(bool(lower), how != "N", bool(unit_diagonal))
    return solve_arrays("solve_triangular", partial(Tensor.make, op), a, b, b_ndim)
