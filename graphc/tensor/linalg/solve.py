"""Linear systems, solved by the declared kind of their matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphc.errors import ArgumentError
from graphc.ir import TensorType, is_complex
from graphc.tensor.arrays.diagonal import FromDiagonal, MatrixDiagonal
from graphc.tensor.arrays.reduce import Composite, sum
from graphc.tensor.arrays.triangle import tril, triu
from graphc.tensor.core.axes import expand_dims, matrix_transpose
from graphc.tensor.core.elementwise import cast, conj
from graphc.tensor.core.shape import entries, length
from graphc.tensor.core.specify import specify_shape
from graphc.tensor.core.tensor import Tensor, TensorLike, function
from graphc.tensor.linalg.cholesky import lower_factor
from graphc.tensor.linalg.dot import matmul
from graphc.tensor.linalg.lu import check_square, factors, solve_by_lu
from graphc.tensor.linalg.mirror import adjoint, as_columns, in_floats, symmetrise
from graphc.tensor.linalg.triangular import (
    SolveTriangular,
    solve_arrays,
    solve_type,
    solved_adjoint,
)
from graphc.tensor.linalg.tridiagonal import solve_tridiagonal


@dataclass(frozen=True, slots=True)
class Solve(Composite):
    """The solution x of ``a @ x = b``, for as many matrices a as b.

    The operation expands to factors of a and solutions with them, so that the same factors serve
    the gradient, the determinant and the inverse.

    Attributes:
        assume: The kind of a, one of ``SOLVERS``. Elements that follow from the kind need not be
            read.
        transposed: Whether a's transpose replaces a.
    """

    assume: str
    transposed: bool
    name = "solve"

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        return solve_type(self.name, a, b)

    def expand(self, a: Tensor, b: Tensor) -> Tensor:
        return SOLVERS[self.assume](a, b, self.transposed)

    def pullback(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        by_b = conj(Tensor.make(Solve(self.assume, not self.transposed), a, conj(g)))
        if self.assume == "diagonal":
            by_diagonal = -sum(by_b * conj(y), -1)
            static, symbolic = entries("solve", (length(a, -2), length(a, -1)))
            return Tensor.make(FromDiagonal(static, 0), by_diagonal, *symbolic), by_b
        by_a = matmul(conj(y), by_b.mT) if self.transposed else matmul(by_b, adjoint(y))
        return -PARTS.get(self.assume, _whole)(by_a), by_b

    def pushforward(self, tangents: Sequence[Any], y: Tensor, a: Tensor, b: Tensor) -> Any:
        da, db = tangents
        if da is None:
            return None if db is None else Tensor.make(self, a, db)
        da = PARTS.get(self.assume, _whole)(da)
        moved = matmul(matrix_transpose(da) if self.transposed else da, y)
        return Tensor.make(self, a, -moved if db is None else db - moved)

    def batch(self, size: Any, batched: Sequence[bool], a: Tensor, b: Tensor) -> Tensor:
        return as_columns(partial(Tensor.make, self), size, batched, a, b)


def _whole(x: Tensor) -> Tensor:
    return x


def _diagonal_part(x: Tensor) -> Tensor:
    static, symbolic = entries("solve", (length(x, -2), length(x, -1)))
    return Tensor.make(FromDiagonal(static, 0), Tensor.make(MatrixDiagonal(0), x), *symbolic)


def _tridiagonal_part(x: Tensor) -> Tensor:
    return triu(tril(x, 1), -1)


PARTS: dict[str, Callable[[Tensor], Tensor]] = {
    "diagonal": _diagonal_part,
    "tridiagonal": _tridiagonal_part,
    "lower triangular": tril,
    "upper triangular": triu,
}
"""The part of a matrix that is read, where it is not all of it."""


# How each kind of matrix is solved.


def _general(a: Tensor, b: Tensor, transposed: bool) -> Tensor:
    packed, _, order = factors(check_square(a))
    if b.type.shape[-2] is None or b.type.shape[-2] != a.type.shape[-2]:
        # Rows are exchanged before their number is known.
        b = specify_shape(b, [*[None] * (b.ndim - 2), length(a, -2), None])
    return solve_by_lu(packed, order, b, transposed)


def _positive(a: Tensor, b: Tensor, transposed: bool) -> Tensor:
    if transposed and is_complex(a.dtype):
        return conj(_positive(a, conj(b), False))
    lower = lower_factor(a)
    inner = Tensor.make(SolveTriangular(True, False, False), lower, b)
    return solved_adjoint(lower, inner)


def _triangular(a: Tensor, b: Tensor, transposed: bool, *, lower: bool) -> Tensor:
    return Tensor.make(SolveTriangular(lower, transposed, False), a, b)


def _diagonal(a: Tensor, b: Tensor, transposed: bool) -> Tensor:
    return b / expand_dims(Tensor.make(MatrixDiagonal(0), check_square(a)), a.ndim - 1)


def _orthogonal(a: Tensor, b: Tensor, transposed: bool) -> Tensor:
    a = check_square(a)
    return matmul(conj(a) if transposed else adjoint(a), b)


SOLVERS: dict[str, Callable[[Tensor, Tensor, bool], Tensor]] = {
    "gen": _general,
    "sym": _general,
    "her": _general,
    "banded": _general,
    "pos": _positive,
    "lower triangular": partial(_triangular, lower=True),
    "upper triangular": partial(_triangular, lower=False),
    "diagonal": _diagonal,
    "tridiagonal": solve_tridiagonal,
    "orthogonal": _orthogonal,
}
"""The solver of each kind of matrix, given the matrix, b, and whether it is transposed."""

ASSUMPTIONS = {kind: kind for kind in SOLVERS} | {
    "general": "gen",
    "symmetric": "sym",
    "hermitian": "her",
    "positive definite": "pos",
    "unitary": "orthogonal",
}
"""The kind of matrix by its names, long and short."""


def assumption_name(op: str, assume: Any) -> str:
    """Return the short name of an assumption."""
    name = "gen" if assume is None else ASSUMPTIONS.get(str(assume).lower())
    if name is None:
        raise ArgumentError(
            f"{op}: unknown assumption {assume!r}.",
            f"Use one of {', '.join(map(repr, ASSUMPTIONS))}.",
        )
    return name


@function
def solve(  # noqa: PLR0913 (SciPy's arguments)
    a: TensorLike,
    b: TensorLike,
    *,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = "gen",
    transposed: bool = False,
    b_ndim: int | None = None,
) -> Tensor:
    """Return the solution x of ``a @ x = b``.

    Singular matrices give infinities or NaN. With ``assume_a="pos"``, matrices that are not
    positive definite give NaN.

    Args:
        a: Square matrices in the last two axes.
        b: A vector, or matrices in the last two axes. Axes in front broadcast.
        lower: For symmetric, Hermitian and positive definite matrices, whether the lower triangle
            is read, not the upper one. The gradient is zero in the other triangle.
        overwrite_a: As in SciPy; a is never changed.
        overwrite_b: As in SciPy; b is never changed.
        check_finite: As in SciPy; non-finite values are computed with in any case.
        assume_a: The kind of a: ``"general"`` (or ``"gen"``), ``"symmetric"`` (``"sym"``),
            ``"hermitian"`` (``"her"``), ``"positive definite"`` (``"pos"``), ``"diagonal"``,
            ``"tridiagonal"``, ``"banded"``, ``"lower triangular"``, ``"upper triangular"``,
            ``"orthogonal"``. Elements that are zero by their kind are not read.
        transposed: Solve with the transpose of a.
        b_ndim: 1 where b's last axis is a vector, 2 for matrices in the last two; by default 1 for
            a vector alone.

    Returns:
        An array of b's shape, with the axes in front of both.

    Raises:
        ArgumentError: ``assume_a`` or ``b_ndim`` is none of these.
        ShapeError: a is not square, or lengths do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.solve([[0.0, 2.0], [4.0, 4.0]], [2.0, 8.0]).eval(mode="NUMPY").tolist()
        [1.0, 1.0]
    """
    kind = assumption_name("solve", assume_a)
    (a, b), dtype = in_floats("solve", a, b)
    if kind in {"sym", "her", "pos"}:
        a = symmetrise(a, lower, kind != "sym")
    op = Solve(kind, bool(transposed))
    return cast(solve_arrays("solve", partial(Tensor.make, op), a, b, b_ndim), dtype)


@function
def cho_solve(
    c_and_lower: tuple[Any, bool],
    b: TensorLike,
    *,
    check_finite: bool = True,
    overwrite_b: bool = False,
    b_ndim: int | None = None,
) -> Tensor:
    """Return the solution x of ``a @ x = b``, given the Cholesky factor of a.

    Args:
        c_and_lower: The factor, whose other triangle is not read, and whether it is the lower one.
        b: A vector, or matrices in the last two axes. Axes in front broadcast.
        check_finite: As in SciPy; non-finite values are computed with in any case.
        overwrite_b: As in SciPy; b is never changed.
        b_ndim: 1 where b's last axis is a vector, 2 for matrices in the last two; by default 1 for
            a vector alone.

    Returns:
        An array of b's shape, with the axes in front of both.

    Example:
        >>> import graphc.tensor as gt
        >>> c = gt.constant([[2.0, 0.0], [1.0, 3.0]])
        >>> gt.linalg.cho_solve((c, True), [6.0, 12.0]).eval(mode="NUMPY").tolist()
        [1.0, 1.0]
    """
    c, lower = c_and_lower

    def solve(a: Tensor, b: Tensor) -> Tensor:
        if lower:
            inner = Tensor.make(SolveTriangular(True, False, False), a, b)
            return solved_adjoint(a, inner)
        inner = conj(Tensor.make(SolveTriangular(False, True, False), a, conj(b)))
        return Tensor.make(SolveTriangular(False, False, False), a, inner)

    return solve_arrays("cho_solve", solve, c, b, b_ndim)
