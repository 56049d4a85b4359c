"""Cholesky factors of positive definite matrices, and inverses given the factors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import TensorType
from graphc.tensor.arrays.diagonal import MatrixDiagonal
from graphc.tensor.arrays.reduce import Composite
from graphc.tensor.arrays.triangle import tril
from graphc.tensor.core.assertion import CheckAndRaise
from graphc.tensor.core.elementwise import cast, isnan, logical_not, real
from graphc.tensor.core.tensor import Tensor, TensorLike, function
from graphc.tensor.linalg import mirror
from graphc.tensor.linalg.dot import matmul
from graphc.tensor.linalg.mirror import MatrixOp, adjoint, check_floats, lapack, square
from graphc.tensor.linalg.triangular import SolveTriangular, solved_adjoint


@dataclass(frozen=True, slots=True)
class Cholesky(mirror.MatrixOp):
    """The lower triangular L with ``L @ L^H = x``, for positive definite matrices x.

    The lower triangles of the matrices are read, and the real parts of their diagonals. A matrix
    that is not positive definite gives NaN throughout.
    """

    by_numpy = True
    name = "cholesky"
    core_padding = "identity"

    def infer(self, x: TensorType) -> TensorType:
        mirror.check_floats("cholesky", x)
        return mirror.square("cholesky", x)

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        try:
            y = np.linalg.cholesky(x)
        except np.linalg.LinAlgError:
            y = self._one_by_one(x)
        fails = np.isnan(np.diagonal(y, 0, -2, -1)).any(-1)
        y[fails] = np.nan
        return y

    def _one_by_one(self, x: np.ndarray[Any, Any]) -> Any:
        y = np.full_like(x, np.nan)
        for index in np.ndindex(x.shape[:-2]):
            with suppress(np.linalg.LinAlgError):
                y[index] = np.linalg.cholesky(x[index])
        return y

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """Return the gradient of the lower triangle, the only part that is read."""
        # Its steps have facts and rules, as for a diagonal g; some backends compute what remains
        # of them as one operation.
        return (CholeskyGradient().expand(y, g),)


@dataclass(frozen=True, slots=True)
class CholeskyGradient(Composite, mirror.MatrixOp):
    """The gradient of Cholesky factors L with respect to the lower triangles, given that of L.

    Source: I. Murray, Differentiation of the Cholesky decomposition, arXiv:1602.07527, 2016.
    """

    by_numpy = True
    name = "cholesky_gradient"

    def infer(self, y: TensorType, g: TensorType) -> TensorType:
        mirror.check_floats(self.name, y, g)
        y, g = square(self.name, y), square(self.name, g)
        return g.with_shape(mirror.common_lengths(self.name, (y, g), (y.shape, g.shape)))

    def padding_for(self, i: int, axis: int, type: TensorType) -> Any:
        return "any" if axis < type.ndim - 2 else 0 if i else "identity"

    def expand(self, y: Tensor, g: Tensor) -> Tensor:
        """Return the gradient by two systems of as many columns as rows."""
        inner = mirror.half_diagonal(matmul(mirror.adjoint(y), g))
        half = solved_adjoint(y, inner)
        gradient = solved_adjoint(y, mirror.adjoint(half))
        return mirror.half_diagonal(gradient + mirror.adjoint(gradient))

    def perform(self, y: np.ndarray[Any, Any], g: np.ndarray[Any, Any]) -> Any:
        """Return the gradient by blocks, in a sixth of the operations of ``expand``."""
        solve = SolveTriangular(True, True, False).perform

        def solve_adjoint(y: Any, b: Any) -> Any:
            return np.conj(solve(y, np.conj(b)))

        return factor_gradient(np, y, g, solve_adjoint)


BLOCK = 64
"""Columns of a block: fewer make more products of narrow matrices, more solve larger systems."""


def factor_gradient(xp: Any, y: Any, g: Any, solve_adjoint: Callable[[Any, Any], Any]) -> Any:
    """Return the gradient with respect to a matrix's lower triangle, from that of its factor.

    Args:
        xp: NumPy, or a library with the same functions.
        y: Lower triangular factors (..., n, n).
        g: Gradients with respect to ``y``; the lower triangles are read.
        solve_adjoint: Returns x with ``y^H @ x = b`` for lower triangles y.

    Source: I. Murray, arXiv:1602.07527, 2016, the algorithm with blocks of columns.
    """

    def adjoint(x: Any) -> Any:
        return xp.conj(xp.swapaxes(x, -1, -2))

    def half(x: Any) -> Any:
        return (xp.tril(x) + xp.tril(x, -1)) / 2

    rest = xp.tril(g)
    columns: list[Any] = []
    for stop in range(y.shape[-1], 0, -BLOCK):
        start = max(0, stop - BLOCK)
        row, diagonal = y[..., start:stop, :start], y[..., start:stop, start:stop]
        by_below = adjoint(solve_adjoint(diagonal, adjoint(rest[..., stop:, start:stop])))
        by_diagonal = rest[..., start:stop, start:stop] - xp.matmul(
            adjoint(by_below), y[..., stop:, start:stop]
        )
        inner = half(xp.matmul(adjoint(diagonal), xp.tril(by_diagonal)))
        gradient = solve_adjoint(diagonal, adjoint(solve_adjoint(diagonal, inner)))
        by_diagonal = half(gradient + adjoint(gradient))
        by_rows = by_diagonal + adjoint(by_diagonal)
        column = [xp.zeros_like(rest[..., :start, start:stop]), by_diagonal, by_below]
        columns.insert(0, xp.concatenate(column, -2))
        rest = xp.concatenate(
            [
                rest[..., :start, :start],
                rest[..., start:stop, :start]
                - xp.matmul(adjoint(by_below), y[..., stop:, :start])
                - xp.matmul(by_rows, row),
                rest[..., stop:, :start] - xp.matmul(by_below, row),
            ],
            -2,
        )
    return xp.concatenate(columns, -1) if columns else g


def lower_factor(x: Tensor) -> Tensor:
    """Return the Cholesky factors of Hermitian matrices, as one node for either triangle."""
    if isinstance(x.op, mirror.Mirror) and x.op.lower:
        (x,) = x.inputs  # type: ignore[assignment]
    return Tensor.make(Cholesky(), x)


REFUSED = CheckAndRaise(np.linalg.LinAlgError, "cholesky: a matrix is not positive definite.")


@function
def cholesky(
    x: TensorLike,
    lower: bool = True,
    *,
    check_finite: bool = True,
    overwrite_a: bool = False,
    on_error: str = "nan",
) -> Tensor:
    """Return the triangular factor whose product with its adjoint is a positive definite matrix.

    The gradient is zero in the triangle that is not read.

    Args:
        x: Square matrices in the last two axes, real or complex. Their lower triangle is read, or
            the upper one.
        lower: Whether the result L is a lower triangle and x is ``L @ L^H``; else it is an upper
            one U, and x is ``U^H @ U``.
        check_finite: As in SciPy; non-finite values give NaN in any case.
        overwrite_a: As in SciPy; x is never changed.
        on_error: The result for a matrix that is not positive definite: ``"nan"`` for NaN,
            ``"raise"`` for an error when the program runs.

    Returns:
        An array of x's shape, zero in the other triangle.

    Raises:
        ArgumentError: ``on_error`` is neither of these.
        ShapeError: The matrices are not square.
        LinAlgError: A matrix is not positive definite, at run time with ``on_error="raise"``. The
            class is NumPy's, and a GraphcError.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.constant([[4.0, 2.0], [2.0, 10.0]])
        >>> gt.linalg.cholesky(x).eval(mode="NUMPY").tolist()
        [[2.0, 0.0], [1.0, 3.0]]
    """
    if on_error not in {"nan", "raise"}:
        raise ArgumentError(f"cholesky: unknown on_error={on_error!r}.", "Use 'nan' or 'raise'.")
    (x,), dtype = mirror.in_floats("cholesky", x)
    factor = Tensor.make(Cholesky(), x if lower else mirror.adjoint(x))
    if on_error == "raise":
        factor = REFUSED(factor, logical_not(isnan(real(Tensor.make(MatrixDiagonal(0), factor)))))
    return cast(factor if lower else mirror.adjoint(factor), dtype)


@function
def cho_factor(
    a: TensorLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Tensor, bool]:
    """Return the arguments of ``cho_solve``: the Cholesky factor, and whether it is lower.

    Args:
        a: Positive definite matrices in the last two axes; one triangle is read.
        lower: Whether the lower triangle is read.
        overwrite_a: As in SciPy; a is never changed.
        check_finite: As in SciPy; non-finite values give NaN in any case.

    Returns:
        The factor, zero in the other triangle, and ``lower``.

    Example:
        >>> import graphc.tensor as gt
        >>> factor = gt.linalg.cho_factor([[4.0, 2.0], [2.0, 10.0]])
        >>> gt.linalg.cho_solve(factor, [6.0, 12.0]).eval(mode="NUMPY").tolist()
        [1.0, 1.0]
    """
    return cholesky(a, lower), lower


@dataclass(frozen=True, slots=True)
class CholeskyInverse(MatrixOp):
    """The inverses of ``L @ L^H`` for lower triangles L; the other triangle is not read.

    The diagonals of Cholesky factors are real. The inverse takes a third of the work of two systems
    with the identity: half of a triangle's inverse is zero, and the product is symmetric.
    """

    by_numpy = True
    name = "cholesky_inverse"
    core_padding = "identity"

    def infer(self, x: TensorType) -> TensorType:
        check_floats(self.name, x)
        return square(self.name, x)

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        potri = lapack("potri", x)
        y = np.empty_like(x)
        n = np.arange(x.shape[-1])
        for index in np.ndindex(x.shape[:-2] if x.size else (0,)):
            inverse, info = potri(x[index], lower=True)
            half = np.tril(inverse, -1)
            y[index] = half + half.conj().T
            y[(*index, n, n)] = np.diagonal(inverse).real
            if info:
                y[index] = np.nan
        return y

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """``d inv(x) = -inv(x) @ dx @ inv(x)``."""
        return (-tril(matmul(y, matmul(g + adjoint(g), matmul(y, tril(x))))),)
