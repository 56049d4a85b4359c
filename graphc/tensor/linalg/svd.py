"""Singular value decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Node, TensorType, TupleType, picks, real_dtype
from graphc.ir.lengths import least
from graphc.tensor.core.elementwise import cast, less_equal, where
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Tensor, TensorLike, function
from graphc.tensor.linalg import spectra
from graphc.tensor.linalg.dot import matmul
from graphc.tensor.linalg.mirror import MatrixOp, adjoint


@dataclass(frozen=True, slots=True)
class SVD(MatrixOp):
    """``u``, ``s`` and ``vh`` with ``x = u @ diag(s) @ vh``; NaN for a matrix that is not finite.

    The singular values are real and fall; there are k of an m by n matrix, the smaller of the two.

    Attributes:
        full: Whether u is m by m and vh n by n, not m by k and k by n.
    """

    full: bool
    name = "svd"

    def infer(self, x: TensorType) -> TupleType:
        spectra.check_matrix("svd", x)
        *front, m, n = x.shape
        k = least(m, n)
        rows, columns = (m, n) if self.full else (k, k)
        s = TensorType(real_dtype(x.dtype), (*front, k))
        return TupleType((x.with_shape((*front, m, rows)), s, x.with_shape((*front, columns, n))))

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        m, n = x.shape[-2:]
        k = min(m, n)
        rows, columns = (m, n) if self.full else (k, k)
        return spectra.by_lapack(
            lambda a: np.linalg.svd(a, self.full),
            [x],
            [(m, rows), (k,), (columns, n)],
            [x.dtype, real_dtype(x.dtype.name), x.dtype],
        )

    def pullback(self, g: Sequence[Any], y: Node, x: Tensor) -> tuple[Tensor]:
        """Derive the rotations of u and v from the parts of ``p = uh @ dx @ v``.

        The Hermitian part is divided by differences of singular values, the other by sums:
        functions of u @ vh alone have a gradient where singular values are equal.
        Of the vectors in ``full`` without a singular value, only the span has a gradient.

        Source: Wan & Zhang, arXiv:1909.02659, 2019.
        """
        u, s, vh = picks(y)
        gu, gs, gvh = g
        k = length(s, -1)
        left, right = u[..., :, :k], vh[..., :k, :]
        core = 0 if gs is None else spectra.on_diagonal(cast(gs, x.dtype))
        of_u: Any = 0 if gu is None else matmul(adjoint(left), gu[..., :, :k])
        of_v: Any = 0 if gvh is None else matmul(right, adjoint(gvh[..., :k, :]))
        if gu is not None or gvh is not None:
            near = cast(spectra.inverse_gaps(s), x.dtype) * (of_u + of_v)
            far = cast(_inverse_sums(s), x.dtype) * (of_u - of_v)
            core = core + (near + adjoint(near) + far - adjoint(far)) / 2
        gradient = matmul(matmul(left, core), right)
        inverse = cast(safe_inverse(s), x.dtype)
        m, n = x.type.shape[-2:]
        if gu is not None and _has_extra_vectors(m, n):
            rest = gu[..., :, :k] - matmul(left, of_u)
            if self.full:
                rest = rest - matmul(u[..., :, k:], matmul(adjoint(gu[..., :, k:]), left))
            gradient = gradient + matmul(rest * spectra.row(inverse), right)
        if gvh is not None and _has_extra_vectors(n, m):
            rest = gvh[..., :k, :] - matmul(adjoint(of_v), right)
            if self.full:
                rest = rest - matmul(matmul(right, adjoint(gvh[..., k:, :])), vh[..., k:, :])
            gradient = gradient + matmul(left * spectra.row(inverse), rest)
        return (gradient,)


@dataclass(frozen=True, slots=True)
class Svdvals(MatrixOp):
    """The singular values, real and descending; NaN for a matrix that is not finite."""

    name = "svdvals"
    core_padding = 0

    def infer(self, x: TensorType) -> TensorType:
        spectra.check_matrix("svdvals", x)
        return TensorType(real_dtype(x.dtype), (*x.shape[:-2], least(*x.shape[-2:])))

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        (s,) = spectra.by_lapack(
            lambda a: (np.linalg.svd(a, compute_uv=False),),
            [x],
            [(min(x.shape[-2:]),)],
            [real_dtype(x.dtype.name)],
        )
        return s

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        u, _, vh = picks(Node.make(SVD(full=False), x))
        return (matmul(u * spectra.row(cast(g, x.dtype)), vh),)


def _has_extra_vectors(m: int | None, n: int | None) -> bool:
    return m is None or n is None or m > n


def safe_inverse(s: Tensor) -> Tensor:
    """Return ``1 / s``, and 0 where a singular value is zero up to rounding."""
    zero = less_equal(s, spectra.nearly_zero(s))
    return where(zero, 0, 1 / where(zero, 1, s))


def _inverse_sums(s: Tensor) -> Tensor:
    sums = spectra.row(s) + spectra.column(s)
    zero = less_equal(sums, spectra.row(spectra.nearly_zero(s)))
    return where(zero, 0, 1 / where(zero, 1, sums))


@overload
def svd(
    a: TensorLike, full_matrices: bool = True, compute_uv: Literal[True] = True
) -> list[Tensor]: ...


@overload
def svd(a: TensorLike, full_matrices: bool = True, *, compute_uv: Literal[False]) -> Tensor: ...


@function
def svd(
    a: TensorLike, full_matrices: bool = True, compute_uv: bool = True
) -> Tensor | list[Tensor]:
    """Return singular values and vectors: ``a = u @ diag(s) @ vh``.

    The vectors of equal singular values are not unique. The gradient is right there for functions
    that do not depend on the choice to first order, such as norms and the orthonormal factor
    ``u @ vh``.

    Args:
        a: Matrices of m rows and n columns, the last two axes. Integers and bool become float64;
            half-width floats are computed in float32.
        full_matrices: u is m by m and vh n by n; otherwise u is m by k and vh k by n, where k is
            the smaller of m and n.
        compute_uv: Return all three; otherwise the singular values alone.

    Returns:
        A list of ``u``, ``s`` and ``vh``, or ``s``; the singular values are real and descending.
        All are NaN for a matrix that holds NaN or infinity.

    Raises:
        ShapeError: a has fewer than two axes.

    Example:
        >>> import graphc.tensor as gt
        >>> u, s, vh = gt.linalg.svd([[3.0, 0.0], [0.0, 4.0]])
        >>> s.eval(mode="NUMPY").tolist()
        [4.0, 3.0]
    """
    x, dtype = spectra.as_matrices("svd", a)
    if not compute_uv:
        return spectra.rounded_back(Tensor.make(Svdvals(), x), dtype)
    return [spectra.rounded_back(y, dtype) for y in picks(Node.make(SVD(bool(full_matrices)), x))]


@function
def polar(a: TensorLike, side: str = "right") -> tuple[Tensor, Tensor]:
    """Return matrices as a factor with orthonormal rows or columns times a semidefinite one.

    Their gradients are right where singular values are equal, too, unless these are zero.

    Args:
        a: Matrices of m by n, the last two axes. Integers and bool become float64; half-width
            floats are computed in float32.
        side: ``"right"``: ``a = u @ p``; ``"left"``: ``a = p @ u``.

    Returns:
        ``u``, of m by n, whose columns, or rows where these are fewer, are orthonormal; and ``p``,
        Hermitian.

    Raises:
        ArgumentError: There is no such side.
        ShapeError: a has fewer than two axes.

    Source: Higham, Functions of Matrices, 2008, section 8.1.

    Example:
        >>> import graphc.tensor as gt
        >>> u, p = gt.linalg.polar([[0.0, -3.0], [2.0, 0.0]])
        >>> u.eval(mode="NUMPY").round(12).tolist(), p.eval(mode="NUMPY").round(12).tolist()
        ([[0.0, -1.0], [1.0, 0.0]], [[2.0, 0.0], [0.0, 3.0]])
    """
    if side not in {"right", "left"}:
        raise ArgumentError(f"polar: unknown side={side!r}.", "Use 'right' or 'left'.")
    x, dtype = spectra.as_matrices("polar", a)
    left, _, right = picks(Node.make(SVD(full=False), x))
    u = matmul(left, right)
    # Not by singular values, so that it has u's derivative.
    p = matmul(adjoint(u), x) if side == "right" else matmul(x, adjoint(u))
    return spectra.rounded_back(u, dtype), spectra.rounded_back((p + adjoint(p)) / 2, dtype)


@function
def svdvals(x: TensorLike) -> Tensor:
    """Return the singular values of matrices, descending; arguments and errors as for ``svd``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.svdvals([[0.0, 2.0], [1.0, 0.0]]).eval(mode="NUMPY").tolist()
        [2.0, 1.0]
    """
    x, dtype = spectra.as_matrices("svdvals", x)
    return spectra.rounded_back(Tensor.make(Svdvals(), x), dtype)
