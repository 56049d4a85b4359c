"""Handlers of linear systems and determinants of structured and of sparse matrices."""

from __future__ import annotations

from typing import Any

from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.registry import register
from graphc.implicit.sparse_cholesky import SparseMatrix
from graphc.implicit.structured import Structured
from graphc.implicit.structures.diagonal import SquareDiagonal
from graphc.implicit.structures.sparse import Sparse
from graphc.implicit.structures.sparse_product import indices_of
from graphc.ir import Node, is_complex, is_inexact, picks
from graphc.tensor.core.exponential import exp
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.determinant import Det, SlogDet
from graphc.tensor.linalg.inverse import Inverse
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.linalg.solve import Solve
from graphc.tensor.linalg.sparse.operations import SparseSlogDet, SparseSolve

GENERAL = frozenset(("gen", "sym", "her", "banded"))
"""The assumptions under which every element is read."""

DIAGONAL = GENERAL | {"diagonal", "tridiagonal", "lower triangular", "upper triangular"}
"""The assumptions that are true of a diagonal matrix; its diagonal is read under all of them."""


def _fits(a: Structured, assume: str) -> bool:
    if not can_solve(a):
        return False
    return assume in (DIAGONAL if isinstance(a, SquareDiagonal) else GENERAL)


def can_solve(a: Structured) -> bool:
    """Return whether an array consists of solvable square matrices of floating numbers."""
    is_square = a.ndim >= 2 and a.shape[-1] == a.shape[-2] and is_inexact(str(a.dtype))
    return is_square and a.is_solvable


def solution(a: Structured, b: Any) -> Any:
    """Return the x with ``a @ x = b``, for matrices b, which may be implicit."""
    if not isinstance(b, ImplicitArray):
        return a.solve(b)
    inverse = a.inverse()
    return inverse if inverse is NotImplemented else numpy_like(a, b).matmul(inverse, b)


@register(Solve)
def _solve(a: Structured, b: Any, *, assume: str, transposed: bool) -> Any:
    if not _fits(a, assume):
        return NotImplemented
    a = a.matrix_transpose() if transposed else a
    return solution(a, b) if isinstance(a, Structured) else NotImplemented


@register(Inverse)
def _inverse(a: Structured, *, assume: str) -> Any:
    return a.inverse() if _fits(a, assume) else NotImplemented


@register(SlogDet)
def _slogdet(a: Structured, *, assume: str) -> Any:
    pair = a.slogdet() if _fits(a, assume) else NotImplemented
    return pair if pair is NotImplemented else [*pair]


@register(Det)
def _det(a: Structured, *, assume: str) -> Any:
    return a.det() if _fits(a, assume) else NotImplemented


@register(Mirror)
def _mirror(a: SquareDiagonal, *, lower: bool, conjugated: bool) -> Any:
    return NotImplemented if conjugated and is_complex(str(a.dtype)) else a


TRIANGLES = {"gen": None, "sym": None, "her": None, "banded": None, "pos": "lower"}
"""The triangle that is read under each assumption that sparse factors support; None for both."""


def _sparse_fits(a: Sparse, assume: str) -> bool:
    m, n = a.matrix
    return m == n and assume in TRIANGLES and not is_complex(str(a.dtype))


@register(Solve)
def _sparse_solve(a: Sparse, b: Any, *, assume: str, transposed: bool) -> Any:
    if isinstance(b, ImplicitArray) or not _sparse_fits(a, assume):
        return NotImplemented
    matrix = SparseMatrix.of("solve", a)
    op = SparseSolve(matrix.n, TRIANGLES[assume], transposed)
    return Tensor.make(op, *matrix.inputs, b)


@register(SlogDet)
def _sparse_slogdet(a: Sparse, *, assume: str) -> Any:
    if not _sparse_fits(a, assume):
        return NotImplemented
    matrix = SparseMatrix.of("slogdet", a)
    return [*picks(Node.make(SparseSlogDet(matrix.n, TRIANGLES[assume]), *matrix.inputs))]


@register(Det)
def _sparse_det(a: Sparse, *, assume: str) -> Any:
    pair = _sparse_slogdet(a, assume=assume)
    if pair is NotImplemented:
        return pair
    sign, log = pair
    return sign * exp(log)


@register(Mirror)
def _sparse_mirror(a: Sparse, *, lower: bool, conjugated: bool) -> Any:
    """Return the triangle that is read plus the transpose of its off-diagonal elements."""
    if not _sparse_fits(a, "sym"):
        return NotImplemented
    n, _ = a.matrix
    rows, columns = indices_of(a)
    xp = numpy_like(rows, columns)
    read, strict = (rows >= columns, rows > columns) if lower else (rows <= columns, rows < columns)
    rows, columns = (
        xp.concatenate([xp.where(read, x, n), xp.where(strict, y, n)], -1)
        for x, y in ((rows, columns), (columns, rows))
    )
    data = numpy_like(a.values).concatenate([a.values, a.values], -1)
    return a.with_entries((data, rows, columns), a.matrix, False)
