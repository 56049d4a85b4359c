"""Handlers of linear systems and determinants of sparse matrices."""

from __future__ import annotations

from typing import Any

from graphc.implicit.array import ImplicitArray
from graphc.implicit.namespace import numpy_like
from graphc.implicit.registry import register
from graphc.implicit.sparse_cholesky import SparseMatrix, with_numpy_positions
from graphc.implicit.structures.sparse import Sparse
from graphc.ir import Node, is_complex, picks
from graphc.tensor.core.exponential import exp
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.determinant import Det, SlogDet
from graphc.tensor.linalg.mirror import Mirror
from graphc.tensor.linalg.solve import Solve
from graphc.tensor.linalg.sparse.operations import SparseSlogDet, SparseSolve

TRIANGLES = {"gen": None, "sym": None, "her": None, "banded": None, "pos": "lower"}
"""The triangle that is read under each assumption that sparse factors support; None for both."""


def _fits(a: Sparse, assume: str) -> bool:
    m, n = a.matrix
    return m == n and assume in TRIANGLES and not is_complex(str(a.dtype))


@register(Solve)
def _solve(a: Sparse, b: Any, *, assume: str, transposed: bool) -> Any:
    if isinstance(b, ImplicitArray) or not _fits(a, assume):
        return NotImplemented
    matrix = SparseMatrix.of("solve", a)
    op = SparseSolve(matrix.n, TRIANGLES[assume], transposed)
    return Tensor.make(op, *matrix.inputs, b)


@register(SlogDet)
def _slogdet(a: Sparse, *, assume: str) -> Any:
    if not _fits(a, assume):
        return NotImplemented
    matrix = SparseMatrix.of("slogdet", a)
    return [*picks(Node.make(SparseSlogDet(matrix.n, TRIANGLES[assume]), *matrix.inputs))]


@register(Det)
def _det(a: Sparse, *, assume: str) -> Any:
    pair = _slogdet(a, assume=assume)
    if pair is NotImplemented:
        return pair
    sign, log = pair
    return sign * exp(log)


@register(Mirror)
def _mirror(a: Sparse, *, lower: bool, conjugated: bool) -> Any:
    """Return the triangle that is read plus the transpose of its off-diagonal elements."""
    if not _fits(a, "sym"):
        return NotImplemented
    n, _ = a.matrix
    _, rows, columns = with_numpy_positions(a).entries()
    xp = numpy_like(rows, columns)
    read, strict = (rows >= columns, rows > columns) if lower else (rows <= columns, rows < columns)
    rows, columns = (
        xp.concatenate([xp.where(read, x, n), xp.where(strict, y, n)], -1)
        for x, y in ((rows, columns), (columns, rows))
    )
    data = numpy_like(a.values).concatenate([a.values, a.values], -1)
    return a.with_entries((data, rows, columns), a.matrix, False)
