"""LU factorisation with partial pivoting, and solutions by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import Node, Op, Pick, TensorType, TupleType, is_integer, picks, real_dtype
from graphc.ir.lengths import least
from graphc.tensor.arrays.broadcast import broadcast_to
from graphc.tensor.arrays.create import eye, zeros
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.select import take, take_along_axis
from graphc.tensor.arrays.sort import argsort
from graphc.tensor.arrays.triangle import tril, triu
from graphc.tensor.core.axes import expand_dims, squeeze
from graphc.tensor.core.elementwise import cast, conj, minimum
from graphc.tensor.core.shape import length, lengths
from graphc.tensor.core.specify import specify, specify_shape
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function
from graphc.tensor.linalg.dot import matmul
from graphc.tensor.linalg.mirror import MatrixOp, adjoint, check_floats, in_floats, lapack
from graphc.tensor.linalg.triangular import SolveTriangular, over_columns, with_columns


@dataclass(frozen=True, slots=True)
class LU(MatrixOp):
    """Triangular factors L and U with ``L @ U = a[permutation]``, by partial pivoting.

    Results: L below the diagonal, where it has ones, and U, in one array; the row that each was
    exchanged with, one after the other, int32; and the resulting permutation, int32.
    """

    by_numpy = True
    name = "lu"
    core_padding = "identity"

    def infer(self, a: TensorType) -> TupleType:
        check_floats("lu", a)
        if a.ndim < 2:
            raise ShapeError(f"lu: expected matrices, got {a!r}.")
        *head, n, m = a.shape
        exchanges = TensorType("int32", (*head, least(n, m)))
        return TupleType((a, exchanges, TensorType("int32", (*head, n))))

    def perform(self, a: np.ndarray[Any, Any]) -> Any:
        *head, n, m = a.shape
        y = np.array(a)
        exchanges = np.zeros((*head, min(n, m)), np.int32)
        getrf = lapack("getrf", a)
        for index in np.ndindex(*head):
            if min(n, m):
                y[index], exchanges[index], _ = getrf(a[index])
        others = np.broadcast_to(np.arange(min(n, m), n), (*head, n - min(n, m)))
        order = PivotsToPermutation().perform(np.concatenate([exchanges, others], -1))
        return y, exchanges, order

    def pullback(self, g: Sequence[Tensor | None], y: Node, a: Tensor) -> Sequence[Any]:
        """Return the gradient by the largest square block, and the parts below and beside it.

        Source: F. R. de Hoog, R. S. Anderssen & M. A. Lukas, Differentiation of matrix functionals
        using triangular factorization, Math. Comp. 80(275), 2011.
        """
        if g[0] is None:
            return (None,)
        packed, _, order = picks(y)
        n, m = lengths(a)[-2:]
        if n is m or (isinstance(n, int) and n == m):
            return (_put_back(_square_gradient(g[0], packed), order),)
        k = minimum(n, m)
        block, by_block = packed[..., :k, :k], g[0][..., :k, :k]
        # Beside the block: U2 = inverse(L) A2.
        beside = _under_lower(block, g[0][..., :k, k:])
        by_block = by_block - tril(matmul(beside, adjoint(packed[..., :k, k:])), -1)
        # Below the block: L2 = A2 inverse(U).
        below = _over_upper(block, g[0][..., k:, :k])
        by_block = by_block - triu(matmul(adjoint(packed[..., k:, :k]), below))
        rest = zeros([*lengths(a)[:-2], n - k, m - k], dtype=a.dtype)
        top = concatenate([_square_gradient(by_block, block), beside], -1)
        return (_put_back(concatenate([top, concatenate([below, rest], -1)], -2), order),)


def _under_lower(packed: Tensor, b: Tensor) -> Tensor:
    """Return the solution x of ``L^H @ x = b``."""
    return conj(Tensor.make(SolveTriangular(True, True, True), packed, conj(b)))


def _over_upper(packed: Tensor, b: Tensor) -> Tensor:
    """Return the solution x of ``x @ U^H = b``."""
    return Tensor.make(SolveTriangular(False, False, False), conj(packed), b.mT).mT


def _square_gradient(g: Tensor, packed: Tensor) -> Tensor:
    """Return the gradient of square, row-permuted matrices, given their factors' gradient."""
    low, up = adjoint(packed), triu(packed)
    # The ones on L's diagonal are constant: g's diagonal belongs to U.
    by_low = tril(g, -1)
    unit_upper = triu(low, 1) + eye(length(low, -1), dtype=low.dtype)
    inner = tril(matmul(unit_upper, by_low), -1) + triu(matmul(triu(g), adjoint(up)))
    return _over_upper(packed, _under_lower(packed, inner))


def permute_rows(x: Tensor, order: Tensor) -> Tensor:
    """Return the rows of matrices in a given order for each."""
    if x.ndim == 2:
        return take(x, order, 0)
    indices = expand_dims(cast(order, "int64"), order.ndim)
    return take_along_axis(x, broadcast_to(indices, lengths(x)), -2)


def _put_back(x: Tensor, order: Tensor) -> Tensor:
    return permute_rows(x, argsort(order, -1))


def factors(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return both triangles in one array, the row exchanges and the permutation."""
    packed, exchanges, order = picks(Node.make(LU(), a))
    return packed, exchanges, order


def check_square(a: Tensor) -> Tensor:
    """Return the matrices, checked to be square at run time if their type leaves it open."""
    n, m = a.type.shape[-2:]
    if n is not None and n == m:
        return a
    return specify_shape(a, [*[None] * (a.ndim - 1), length(a, -2)])


def solve_by_lu(packed: Tensor, order: Tensor, b: Tensor, transposed: bool) -> Tensor:
    """Return the solution x of ``a @ x = b``, or with a transposed, given a's factors."""
    lower, upper = (
        partial(Tensor.make, SolveTriangular(low, transposed, low), packed) for low in (True, False)
    )
    if transposed:
        return _put_back(lower(upper(b)), order)
    return upper(lower(permute_rows(b, order)))


@dataclass(frozen=True, slots=True)
class PivotsToPermutation(Op):
    """The permutation of row exchanges, int32: the row that each was exchanged with, in order."""

    by_numpy = True
    name = "pivots_to_permutation"
    core_ndim = 1
    core_padding = "index"

    def infer(self, exchanges: TensorType) -> TensorType:
        return TensorType("int32", exchanges.shape)

    def perform(self, exchanges: np.ndarray[Any, Any]) -> Any:
        n = exchanges.shape[-1]
        order = np.broadcast_to(np.arange(n, dtype=np.int32), exchanges.shape).copy()
        for i in range(n):
            other = exchanges[..., i, None].astype(np.int64)
            taken = np.take_along_axis(order, other, -1)
            np.put_along_axis(order, other, order[..., i, None], -1)
            order[..., i] = taken[..., 0]
        return order


@function
def pivot_to_permutation(p: TensorLike, inverse: bool = False) -> Tensor:
    """Return row exchanges, as ``lu_factor`` gives them, as a permutation.

    Args:
        p: Integers: the row that each was exchanged with, one after the other; the last axis.
        inverse: The order in which a's rows are taken, ``a[p] = L @ U``; without it, the order that
            puts these back, ``a = (L @ U)[p]``.

    Returns:
        An int64 array of p's shape.

    Raises:
        DTypeError: p holds no integers.
        ShapeError: p is a scalar.

    Example:
        >>> import graphc.tensor as gt
        >>> p = gt.linalg.pivot_to_permutation([1, 2, 2], inverse=True)
        >>> p.eval(mode="NUMPY").tolist()
        [1, 2, 0]
    """
    p = as_tensor(p)
    if not is_integer(p.dtype):
        raise DTypeError(f"pivot_to_permutation: expected integers, got {p!r}.")
    if not p.ndim:
        raise ShapeError("pivot_to_permutation: expected a vector, got a scalar.")
    order = Tensor.make(PivotsToPermutation(), cast(p, "int32"))
    return cast(order, "int64") if inverse else argsort(order, -1)


@function
def lu(
    a: TensorLike,
    permute_l: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
    overwrite_a: bool = False,
) -> list[Tensor]:
    """Return matrices as products ``P @ L @ U``: a permutation, a lower and an upper triangle.

    Args:
        a: Matrices in the last two axes, n by m; k is the smaller of these.
        permute_l: Return ``P @ L`` and U.
        check_finite: As in SciPy; non-finite values are computed with in any case.
        p_indices: Return P as an int32 vector p, with ``a = L[p] @ U``.
        overwrite_a: As in SciPy; a is never changed.

    Returns:
        P, n by n; L, n by k, with ones on its diagonal; and U, k by m.

    Raises:
        ArgumentError: Both options are set.
        ShapeError: a has fewer than two axes.

    Example:
        >>> import graphc.tensor as gt
        >>> p, low, up = gt.linalg.lu([[0.0, 2.0], [4.0, 4.0]])
        >>> (p @ low @ up).eval(mode="NUMPY").tolist()
        [[0.0, 2.0], [4.0, 4.0]]
    """
    if permute_l and p_indices:
        raise ArgumentError("lu: permute_l and p_indices exclude each other.")
    (a,), dtype = in_floats("lu", a)
    packed, _, order = factors(a)
    n, m = lengths(packed)[-2:]
    k = n if n is m else minimum(n, m)
    if isinstance(n, int) and isinstance(m, int):
        k = min(n, m)
    low = cast(tril(packed[..., :, :k], -1) + eye(n, k, dtype=packed.dtype), dtype)
    up = cast(triu(packed[..., :k, :]), dtype)
    back = argsort(order, -1)
    if permute_l:
        return [permute_rows(low, back), up]
    if p_indices:
        return [cast(back, "int32"), low, up]
    rows = broadcast_to(eye(n, dtype=real_dtype(dtype)), (*lengths(packed)[:-2], n, n))
    return [permute_rows(rows, back), low, up]


@function
def lu_factor(
    a: TensorLike, *, check_finite: bool = True, overwrite_a: bool = False
) -> list[Tensor]:
    """Return the arguments of ``lu_solve``: both triangles in one array, and the row exchanges.

    Args:
        a: Matrices in the last two axes.
        check_finite: As in SciPy; non-finite values are computed with in any case.
        overwrite_a: As in SciPy; a is never changed.

    Returns:
        An array of a's shape, with U in and above the diagonal and L below it, and an int32 array:
        the row that each was exchanged with, one after the other.

    Example:
        >>> import graphc.tensor as gt
        >>> factors = gt.linalg.lu_factor([[0.0, 2.0], [4.0, 4.0]])
        >>> gt.linalg.lu_solve(factors, [2.0, 8.0]).eval(mode="NUMPY").tolist()
        [1.0, 1.0]
    """
    (a,), dtype = in_floats("lu_factor", a)
    packed, exchanges, _ = factors(a)
    return [cast(packed, dtype), exchanges]


@function
def lu_solve(
    LU_and_pivots: tuple[Any, Any],  # noqa: N803 (PyTensor's name)
    b: TensorLike,
    trans: Any = False,
    b_ndim: int | None = None,
    check_finite: bool = True,
    overwrite_b: bool = False,
) -> Tensor:
    """Return the solution x of ``a @ x = b``, given ``lu_factor(a)``.

    Args:
        LU_and_pivots: The triangles and the exchanges.
        b: A vector, or matrices in the last two axes. Axes in front broadcast.
        trans: True or 1 to solve with a's transpose, 2 with its adjoint.
        b_ndim: 1 where b's last axis is a vector, 2 for matrices in the last two; by default 1 for
            a vector alone.
        check_finite: As in SciPy; non-finite values are computed with in any case.
        overwrite_b: As in SciPy; b is never changed.

    Returns:
        An array of b's shape, with the axes in front of both.

    Example:
        >>> import graphc.tensor as gt
        >>> a, b = [[2.0, 1.0], [1.0, 3.0]], [3.0, 4.0]
        >>> gt.linalg.lu_solve(gt.linalg.lu_factor(a), b).round(6).eval(mode="NUMPY").tolist()
        [1.0, 1.0]
    """
    packed, exchanges = map(as_tensor, LU_and_pivots)
    order = _order_of(exchanges)
    (packed, b), dtype = in_floats("lu_solve", packed, b)
    b, is_vector = with_columns(b, b_ndim, "lu_solve")

    def solve(packed: Tensor, order: Tensor, b: Tensor) -> Tensor:
        b = specify(b, [*[None] * (b.ndim - 2), length(order, -1), None], "lu_solve")
        x = solve_by_lu(packed, order, conj(b) if trans == 2 else b, bool(trans))
        return conj(x) if trans == 2 else x

    x = over_columns(solve, [packed, order], [2, 1], b)
    return cast(squeeze(x, x.ndim - 1) if is_vector else x, dtype)


def _order_of(exchanges: Tensor) -> Tensor:
    """Return the permutation of row exchanges, taken from a factorisation if there is one."""
    if isinstance(exchanges.op, Pick) and isinstance(exchanges.inputs[0].op, LU):
        several = exchanges.inputs[0]
        if several.type.items[0].shape[-2:] == several.type.items[0].shape[:-3:-1]:
            return picks(several)[2]  # type: ignore[no-any-return]
    return Tensor.make(PivotsToPermutation(), cast(exchanges, "int32"))
