"""Eigenvalues and eigenvectors of Hermitian matrices, of pairs of them, and of general ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Node, TensorType, TupleType, is_complex, picks, real_dtype
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.reduce import argmax, sum
from graphc.tensor.core.elementwise import abs, cast, conj, equal, imag, real, where
from graphc.tensor.core.shape import length
from graphc.tensor.core.tensor import Tensor, TensorLike, function
from graphc.tensor.linalg import spectra
from graphc.tensor.linalg.cholesky import Cholesky
from graphc.tensor.linalg.dot import matmul
from graphc.tensor.linalg.mirror import MatrixOp, Mirror, adjoint, square
from graphc.tensor.linalg.solve import Solve
from graphc.tensor.linalg.triangular import SolveTriangular, solved_adjoint

# Hermitian matrices.


@dataclass(frozen=True, slots=True)
class HermitianEigen(MatrixOp):
    """An operation on Hermitian matrices given by their lower triangles; NaN if not finite."""

    def values_type(self, x: TensorType) -> TensorType:
        spectra.check_matrix(self.name, x)
        return TensorType(real_dtype(x.dtype), square(self.name, x).shape[:-1])


@dataclass(frozen=True, slots=True)
class Eigh(HermitianEigen):
    """``w`` and ``v`` with ``x @ v = v * w``: w ascends, the columns of v are orthonormal."""

    name = "eigh"

    def infer(self, x: TensorType) -> TupleType:
        w = self.values_type(x)
        return TupleType((w, square("eigh", x)))

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        n = x.shape[-1]
        dtypes = [real_dtype(x.dtype.name), x.dtype]
        return spectra.by_lapack(np.linalg.eigh, [np.tril(x)], [(n,), (n, n)], dtypes)

    def pullback(self, g: Sequence[Any], y: Node, x: Tensor) -> tuple[Tensor]:
        """Return the gradient; eigenvectors of close eigenvalues rotate fast into each other.

        Source: Giles, Collected matrix derivative results, 2008, section 3.1.
        """
        w, v = picks(y)
        gw, gv = g
        core: Any = 0 if gw is None else spectra.on_diagonal(cast(gw, x.dtype))
        if gv is not None:
            core = core + cast(spectra.inverse_gaps(w), x.dtype) * matmul(adjoint(v), gv)
        gradient = matmul(matmul(v, core), adjoint(v))
        return _lower_triangle_gradient(gradient, x)


@dataclass(frozen=True, slots=True)
class Eigvalsh(HermitianEigen):
    """The eigenvalues, real and ascending."""

    name = "eigvalsh"

    def infer(self, x: TensorType) -> TensorType:
        return self.values_type(x)

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        dtypes = [real_dtype(x.dtype.name)]
        (w,) = spectra.by_lapack(
            lambda a: (np.linalg.eigvalsh(a),), [np.tril(x)], [(x.shape[-1],)], dtypes
        )
        return w

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        _, v = picks(Node.make(Eigh(), x))
        return _lower_triangle_gradient(matmul(v * spectra.row(cast(g, x.dtype)), adjoint(v)), x)


def _lower_triangle_gradient(gradient: Tensor, x: Tensor) -> tuple[Tensor]:
    return tuple(Mirror(lower=True, conjugated=True).pullback(gradient, x, x))  # type: ignore[return-value]


# General matrices; all results are complex.


@dataclass(frozen=True, slots=True)
class GeneralEigen(MatrixOp):
    """An operation on square matrices; NaN where they are not finite."""

    def matrix_type(self, x: TensorType) -> TensorType:
        spectra.check_matrix(self.name, x)
        return square(self.name, x).with_dtype(spectra.complex_of(x.dtype))


@dataclass(frozen=True, slots=True)
class Eig(GeneralEigen):
    """``w`` and ``v`` with ``x @ v = v * w``; columns of norm 1 with a real largest element."""

    name = "eig"

    def infer(self, x: TensorType) -> TupleType:
        v = self.matrix_type(x)
        return TupleType((v.with_shape(v.shape[:-1]), v))

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        n, dtype = x.shape[-1], spectra.complex_of(x.dtype.name)
        return spectra.by_lapack(np.linalg.eig, [x], [(n,), (n, n)], [dtype, dtype])

    def pullback(self, g: Sequence[Any], y: Node, x: Tensor) -> tuple[Tensor]:
        """``inv(v).H @ (...) @ v.H``; columns keep norm 1 and a real largest element.

        Source: Boeddeker et al., arXiv:1701.00392, 2017, section 4.
        """
        w, v = picks(y)
        gw, gv = g
        core: Any = 0 if gw is None else spectra.on_diagonal(gw)
        if gv is not None:
            core = core + conj(spectra.inverse_gaps(w)) * matmul(
                adjoint(v), _unnormalised_gradient(gv, v)
            )
        return (_from_eigenbasis(core, v, x),)


@dataclass(frozen=True, slots=True)
class Eigvals(GeneralEigen):
    """The eigenvalues, complex, in LAPACK's order."""

    name = "eigvals"

    def infer(self, x: TensorType) -> TensorType:
        v = self.matrix_type(x)
        return v.with_shape(v.shape[:-1])

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        dtypes = [spectra.complex_of(x.dtype.name)]
        (w,) = spectra.by_lapack(lambda a: (np.linalg.eigvals(a),), [x], [(x.shape[-1],)], dtypes)
        return w

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        _, v = picks(Node.make(Eig(), x))
        return (_from_eigenbasis(spectra.on_diagonal(g), v, x),)


def _from_eigenbasis(core: Tensor, v: Tensor, x: Tensor) -> Tensor:
    gradient = Tensor.make(Solve("gen", False), adjoint(v), matmul(core, adjoint(v)))
    return cast(gradient if is_complex(x.dtype) else real(gradient), x.dtype)


def _unnormalised_gradient(gv: Tensor, v: Tensor) -> Tensor:
    """Return the gradient of eigenvectors of any norm, given the normalised vectors' gradient."""
    along = sum(conj(v) * gv, -2)
    rows = spectra.column(arange(length(v, -2)))
    is_largest = equal(rows, spectra.row(argmax(abs(v), -2)))
    largest = sum(where(is_largest, real(v), 0), -2)
    turned = where(is_largest, spectra.row(imag(along) / largest), 0)
    return gv - v * spectra.row(real(along)) - 1j * turned


# Public functions.


def _as_lower_triangle(op: str, x: Tensor, lower: bool, uplo: str | None) -> Tensor:
    if uplo is not None:
        if uplo not in {"L", "U"}:
            raise ArgumentError(f"{op}: unknown UPLO={uplo!r}.", "Use 'L' or 'U'.")
        lower = uplo == "L"
    return x if lower else adjoint(x)


@function
def eigh(
    a: TensorLike,
    b: TensorLike | None = None,
    lower: bool = True,
    UPLO: str | None = None,  # noqa: N803 (NumPy's name)
    driver: str | None = None,
) -> list[Tensor]:
    """Return eigenvalues and eigenvectors of Hermitian matrices: ``a @ v = v * w``.

    The vectors of equal eigenvalues are not unique. The gradient is right there for functions that
    do not depend on the choice to first order, such as sums over all eigenvalues and projections
    on all vectors of equal ones; it is always finite.

    Args:
        a: Matrices, the last two axes, of which one triangle is read. Integers and bool become
            float64; half-width floats are computed in float32.
        b: Positive definite matrices: then ``a @ v = b @ v * w``, and ``v.H @ b @ v`` is the
            identity. If one is not positive definite, all is NaN.
        lower: Whether the lower triangle of both is read, else the upper one.
        UPLO: ``"L"`` or ``"U"``: ``lower`` by NumPy's name.
        driver: LAPACK's routine by SciPy's name; each backend uses its own.

    Returns:
        A list of ``w``, real and ascending, and ``v``, a column for each. Both are NaN for a matrix
        that holds NaN or infinity.

    Raises:
        ShapeError: The matrices are not square.
        ArgumentError: There is no such ``UPLO``, or no such driver for as many matrices.

    Example:
        >>> import graphc.tensor as gt
        >>> w, v = gt.linalg.eigh([[2.0, 1.0], [1.0, 2.0]])
        >>> w.eval(mode="NUMPY").round(12).tolist()
        [1.0, 3.0]
    """
    _check_driver(driver, b is not None)
    if b is None:
        x, dtype = spectra.as_matrices("eigh", a)
        results = picks(Node.make(Eigh(), _as_lower_triangle("eigh", x, lower, UPLO)))
        return [spectra.rounded_back(y, dtype) for y in results]
    whitened, factor, dtype = _whiten("eigh", a, b, lower, UPLO)
    w, v = picks(Node.make(Eigh(), whitened))
    return [spectra.rounded_back(w, dtype), spectra.rounded_back(solved_adjoint(factor, v), dtype)]


def _check_driver(driver: str | None, generalized: bool) -> None:
    drivers = ("gv", "gvd", "gvx") if generalized else ("ev", "evd", "evr", "evx")
    if driver is not None and driver not in drivers:
        names = " or ".join(map(repr, drivers))
        raise ArgumentError(f"eigh: unknown driver={driver!r}.", f"Leave it out, or use {names}.")


@function
def eigvalsh(
    a: TensorLike,
    b: TensorLike | None = None,
    lower: bool = True,
    UPLO: str | None = None,  # noqa: N803 (NumPy's name)
) -> Tensor:
    """Return the eigenvalues of Hermitian matrices, ascending; arguments as for ``eigh``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.eigvalsh([[0.0, 1.0], [1.0, 0.0]]).eval(mode="NUMPY").round(12).tolist()
        [-1.0, 1.0]
    """
    if b is None:
        x, dtype = spectra.as_matrices("eigvalsh", a)
        return spectra.rounded_back(
            Tensor.make(Eigvalsh(), _as_lower_triangle("eigvalsh", x, lower, UPLO)), dtype
        )
    whitened, _, dtype = _whiten("eigvalsh", a, b, lower, UPLO)
    return spectra.rounded_back(Tensor.make(Eigvalsh(), whitened), dtype)


def _whiten(op: str, a: Any, b: Any, lower: bool, uplo: str | None) -> tuple[Tensor, Tensor, str]:
    """Return ``inv(L) @ a @ inv(L).H`` with b's lower factor L, L itself, and the dtype."""
    (a, b), dtype = spectra.as_batched_matrices(op, a, b)
    hermitian = Tensor.make(
        Mirror(lower=True, conjugated=True), _as_lower_triangle(op, a, lower, uplo)
    )
    factor = Tensor.make(Cholesky(), _as_lower_triangle(op, b, lower, uplo))
    solve = SolveTriangular(True, False, False)
    half = Tensor.make(solve, factor, hermitian)
    return Tensor.make(solve, factor, adjoint(half)), factor, dtype


@function
def eig(x: TensorLike) -> list[Tensor]:
    """Return eigenvalues and eigenvectors of square matrices: ``x @ v = v * w``.

    Args:
        x: Matrices, the last two axes. Integers and bool become float64; half-width floats are
            computed in float32.

    Returns:
        A list of ``w`` and ``v``, a column for each, of length 1 and with its largest element real.
        Both are complex, whatever x is, and NaN for a matrix that holds NaN or infinity.

    Raises:
        ShapeError: The matrices are not square.

    Example:
        >>> import graphc.tensor as gt
        >>> w, v = gt.linalg.eig([[0.0, 1.0], [-1.0, 0.0]])
        >>> w.eval(mode="NUMPY").tolist()
        [1j, -1j]
    """
    w, v = picks(Node.make(Eig(), spectra.as_matrices("eig", x)[0]))
    return [w, v]


@function
def eigvals(x: TensorLike) -> Tensor:
    """Return the eigenvalues of square matrices, complex; arguments and errors as for ``eig``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.eigvals([[2.0, 1.0], [0.0, 3.0]]).eval(mode="NUMPY").real.tolist()
        [2.0, 3.0]
    """
    return Tensor.make(Eigvals(), spectra.as_matrices("eigvals", x)[0])
