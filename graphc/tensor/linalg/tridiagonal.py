"""Linear systems with tridiagonal matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import ShapeError, UnsupportedOperationError
from graphc.ir import Node, Op, TensorType, TupleType, picks
from graphc.ir.lengths import agree, common, greatest
from graphc.tensor.arrays.broadcast import broadcast_batch, one_slice
from graphc.tensor.arrays.cumulative import shift_along
from graphc.tensor.arrays.diagonal import MatrixDiagonal
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.reduce import sum
from graphc.tensor.core.axes import squeeze
from graphc.tensor.core.elementwise import cast, conj
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function
from graphc.tensor.linalg.lu import check_square
from graphc.tensor.linalg.mirror import as_columns, check_floats, common_lengths, in_floats, lapack
from graphc.tensor.linalg.triangular import over_columns, with_columns

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class SolveTridiagonal(Op):
    """The solution x of ``a @ x = b``, from the diagonals below, on and above the main one.

    All are as long as the main one: the first element of the one below, and the last of the one
    above, stand outside of the matrix and are not read. A singular matrix gives NaN.
    """

    by_numpy = True
    name = "solve_tridiagonal"

    def infer(self, low: TensorType, d: TensorType, up: TensorType, b: TensorType) -> TensorType:
        types = (low, d, up, b)
        check_floats(self.name, *types)
        heads = common_lengths(self.name, types, (low.shape, d.shape, up.shape, b.shape[:-1]))
        return b.with_shape((*heads, b.shape[-1]))

    def padding_for(self, i: int, axis: int, type: TensorType) -> str | None:
        n = type.ndim - (2 if i == 3 else 1)
        return None if axis == n else "any"

    def perform(self, low: Array, d: Array, up: Array, b: Array) -> Any:
        gtsv = lapack("gtsv", d, b)
        y = np.empty_like(b)
        for index in np.ndindex(b.shape[:-2] if b.size else (0,)):
            if d.shape[-1] == 1:
                y[index] = b[index] / d[index][:, None] if d[index][0] else np.nan
                continue
            *_, x, info = gtsv(low[index][1:], d[index], up[index][:-1], b[index])
            y[index] = np.nan if info else x
        return y

    def pullback(
        self, g: Tensor, y: Tensor, low: Tensor, d: Tensor, up: Tensor, b: Tensor
    ) -> Sequence[Any]:
        last = d.ndim - 1
        later, earlier = shift_along(up, last, -1, 0), shift_along(low, last, 1, 0)
        by_b = conj(Tensor.make(self, later, d, earlier, conj(g)))
        x = conj(y)
        by_d = -sum(by_b * x, -1)
        by_low = -sum(by_b[..., 1:, :] * x[..., :-1, :], -1)
        by_up = -sum(by_b[..., :-1, :] * x[..., 1:, :], -1)
        n = length(d, -1)
        return _prepend_zero(by_low, n), by_d, _append_zero(by_up, n), by_b

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        return _batch_systems(self, size, batched, inputs)


def _batch_systems(op: Op, size: Any, batched: Sequence[bool], inputs: Sequence[Tensor]) -> Tensor:
    *matrix, b = inputs
    if not any(batched[:-1]):
        return as_columns(
            lambda _, b: Tensor.make(op, *matrix, b), size, (False, True), matrix[0], b
        )
    return Tensor.make(op, *broadcast_batch(size, batched, inputs))


def _prepend_zero(x: Tensor, n: int | Tensor) -> Tensor:
    return concatenate([one_slice(as_tensor(0, dtype=x.dtype), x, x.ndim - 1), x], -1)[..., :n]


def _append_zero(x: Tensor, n: int | Tensor) -> Tensor:
    return concatenate([x, one_slice(as_tensor(0, dtype=x.dtype), x, x.ndim - 1)], -1)[..., :n]


def diagonals(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the diagonals below, on and above the main one."""
    low, d, up = (Tensor.make(MatrixDiagonal(k), a) for k in (-1, 0, 1))
    return low, d, up


def solve_tridiagonal(a: Tensor, b: Tensor, transposed: bool) -> Tensor:
    """Return the solution x of ``a @ x = b``, or with a transposed, for tridiagonal a."""
    low, d, up = diagonals(check_square(a))
    if transposed:
        low, up = up, low
    n = length(d, -1)
    return Tensor.make(SolveTridiagonal(), _prepend_zero(low, n), d, _append_zero(up, n), b)


# Factors, for many right-hand sides one after the other.


@dataclass(frozen=True, slots=True)
class FactorTridiagonal(Op):
    """LAPACK's factors of matrices, from the diagonals below, on and above the main one.

    Results: the elements of L below its diagonal, the diagonal of U and the two above it, and the
    row that each was exchanged with, int32, from 1 on as LAPACK counts them.
    """

    by_numpy = True
    name = "factor_tridiagonal"
    core_ndim = 1

    def infer(self, low: TensorType, d: TensorType, up: TensorType) -> TupleType:
        check_floats(self.name, low, d, up)
        types = (low, d, up)
        *head, _ = common_lengths(self.name, types, [(*t.shape[:-1], None) for t in types])
        lengths = [(t.shape[-1], k) for t, k in zip(types, (1, 0, 1), strict=True)]
        counts = [None if n is None else n + k for n, k in lengths]
        if not agree(*counts):
            raise ShapeError(
                f"{self.name}({low!r}, {d!r}, {up!r}): the outer diagonals must be one element "
                "shorter."
            )
        n = common(*counts)
        sizes = [None if n is None else greatest(n - k, 0) for k in (1, 0, 1, 2)]
        factors = [d.with_shape((*head, size)) for size in sizes]
        return TupleType((*factors, TensorType("int32", (*head, n))))

    def perform(self, low: Array, d: Array, up: Array) -> Any:
        gttrf = lapack("gttrf", d)
        n = d.shape[-1]
        shapes = [max(n - k, 0) for k in (1, 0, 1, 2)]
        factors = [np.zeros((*d.shape[:-1], size), d.dtype) for size in shapes]
        exchanges = np.ones(d.shape, np.int32)
        factors[1][...] = d
        for index in np.ndindex(d.shape[:-1] if n > 1 else (0,)):
            elements = low[index], d[index], up[index]
            *results, order, _ = gttrf(*elements) if n > 2 else _factor_two_by_two(*elements)
            for part, result in zip(factors, results, strict=True):
                part[index] = result[: part.shape[-1]]
            exchanges[index] = order
        return (*factors, exchanges)

    def pullback(self, g: Any, y: Node, *inputs: Tensor) -> Sequence[Any]:
        return [_no_gradient()] * 3

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Node:
        return Node.make(self, *broadcast_batch(size, batched, inputs))


def _two_by_two_matrix(low: Array, d: Array, up: Array) -> Array:
    """Return the 2 by 2 matrix, which SciPy's wrappers of the tridiagonal routines refuse."""
    return np.array([[d[0], up[0]], [low[0], d[1]]])


def _factor_two_by_two(low: Array, d: Array, up: Array) -> tuple[Any, ...]:
    """Return the factors of a 2 by 2 matrix, as LAPACK has them for larger ones."""
    packed, order, info = lapack("getrf", d)(_two_by_two_matrix(low, d, up))
    return packed[1, :1], np.diagonal(packed), packed[0, 1:], d[:0], order + 1, info


def _no_gradient() -> Any:
    raise UnsupportedOperationError(
        "The factors of a tridiagonal matrix have no gradient.",
        "Write solve(a, b, assume_a='tridiagonal'), which has one.",
    )


@dataclass(frozen=True, slots=True)
class SolveTridiagonalFactors(Op):
    """The solution x of ``a @ x = b``, from FactorTridiagonal's five results, and b.

    Attributes:
        transposed: Whether a's transpose replaces a.
    """

    transposed: bool

    by_numpy = True
    name = "solve_tridiagonal_factors"

    def infer(self, *types: TensorType) -> TensorType:
        _, d, _, _, exchanges, b = types
        check_floats(self.name, *types[:4], b)
        heads = common_lengths(self.name, types, (d.shape, exchanges.shape, b.shape[:-1]))
        common_lengths(self.name, types, [t.shape[:-1] for t in types[:4]])
        return b.with_shape((*heads, b.shape[-1]))

    def padding_for(self, i: int, axis: int, type: TensorType) -> str | None:
        n = type.ndim - (2 if i == 5 else 1)
        return None if axis == n else "any"

    def perform(self, *values: Array) -> Any:
        *factors, b = values
        gttrs, getrs = lapack("gttrs", b), lapack("getrs", b)
        y = np.empty_like(b)
        for index in np.ndindex(b.shape[:-2] if b.size else (0,)):
            if b.shape[-2] == 1:
                y[index] = b[index] / factors[1][index][:, None]
                continue
            elements = [part[index] for part in factors]
            if b.shape[-2] == 2:
                packed = _two_by_two_matrix(*elements[:3])
                y[index] = getrs(packed, elements[4] - 1, b[index], trans=self.transposed)[0]
                continue
            y[index] = gttrs(*elements, b[index], trans="NT"[self.transposed])[0]
        return y

    def pullback_to(
        self, wanted: Sequence[bool], g: Tensor, y: Tensor, *inputs: Tensor
    ) -> Sequence[Any]:
        if any(wanted[:4]):
            _no_gradient()
        *factors, _ = inputs
        other = SolveTridiagonalFactors(not self.transposed)
        floats = [conj(part) for part in factors[:4]]
        return (*[None] * 5, Tensor.make(other, *floats, factors[4], g))

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        return _batch_systems(self, size, batched, inputs)


@function
def tridiagonal_lu_factor(a: TensorLike) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the arguments of ``tridiagonal_lu_solve``, for tridiagonal matrices.

    The factors have no gradient; ``solve(a, b, assume_a="tridiagonal")`` has one.

    Args:
        a: Square matrices in the last two axes; elements off the three diagonals are
            not read.

    Returns:
        The elements of L below its diagonal, the diagonal of U and the two above it, and the row
        that each was exchanged with, int32, from 1 on.

    Raises:
        ShapeError: a has fewer than two axes.

    Example:
        >>> import graphc.tensor as gt
        >>> factors = gt.linalg.tridiagonal_lu_factor([[2.0, 1.0], [1.0, 3.0]])
        >>> x = gt.linalg.tridiagonal_lu_solve(factors, [3.0, 4.0], b_ndim=1)
        >>> x.eval(mode="NUMPY").round(9).tolist()
        [1.0, 1.0]
    """
    (a,), dtype = in_floats("tridiagonal_lu_factor", a)
    if a.ndim < 2:
        raise ShapeError(f"tridiagonal_lu_factor: expected matrices, got {a!r}.")
    *factors, exchanges = picks(Node.make(FactorTridiagonal(), *diagonals(a)))
    low, d, up, second = (cast(part, dtype) for part in factors)
    return low, d, up, second, exchanges


@function
def tridiagonal_lu_solve(
    a_diagonals: Sequence[Any],
    b: TensorLike,
    *,
    b_ndim: int | None = None,
    transposed: bool = False,
) -> Tensor:
    """Return the solution x of ``a @ x = b``, given ``tridiagonal_lu_factor(a)``.

    Args:
        a_diagonals: The five arrays.
        b: A vector, or matrices in the last two axes. Axes in front broadcast.
        b_ndim: 1 where b's last axis is a vector, 2 for matrices in the last two; by default 1 for
            a vector alone.
        transposed: Solve with the transpose of a.

    Returns:
        An array of b's shape, with the axes in front of both.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> a, b = np.diag([2.0, 2.0, 2.0]) + np.eye(3, k=1), [3.0, 3.0, 2.0]
        >>> factors = gt.linalg.tridiagonal_lu_factor(a)
        >>> gt.linalg.tridiagonal_lu_solve(factors, b).round(6).eval(mode="NUMPY").tolist()
        [1.0, 1.0, 1.0]
    """
    *factors, exchanges = map(as_tensor, a_diagonals)
    (*factors, b), dtype = in_floats("tridiagonal_lu_solve", *factors, b)
    b, is_vector = with_columns(b, b_ndim, "tridiagonal_lu_solve")
    solve = partial(Tensor.make, SolveTridiagonalFactors(bool(transposed)))
    x = over_columns(solve, (*factors, exchanges), [1] * 5, b)
    return cast(squeeze(x, x.ndim - 1) if is_vector else x, dtype)
