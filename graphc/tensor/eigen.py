"""Eigenvalues and eigenvectors: of Hermitian matrices, of pairs of them, and of any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import (
    Check,
    Node,
    Op,
    TensorType,
    TupleType,
    here,
    is_complex,
    picks,
    real_dtype,
    where as where_is,
)
from graphc.tensor.cholesky import Cholesky
from graphc.tensor.create import arange
from graphc.tensor.dot import matmul
from graphc.tensor.elementwise import abs, cast, conj, equal, imag, real, where
from graphc.tensor.mirror import Mirror, adjoint, head_checks, square
from graphc.tensor.reduce import argmax, sum
from graphc.tensor.shape import length
from graphc.tensor.solve import Solve
from graphc.tensor.spectra import (
    apart,
    by_lapack,
    check_matrix,
    column,
    complex_of,
    given,
    given_together,
    narrow,
    on_diagonal,
    row,
)
from graphc.tensor.tensor import Tensor, function
from graphc.tensor.triangular import SolveTriangular, solved_adjoint

__all__ = ["Eig", "Eigh", "Eigvals", "Eigvalsh"]


# Hermitian matrices.


@dataclass(frozen=True, slots=True)
class Hermitian(Op):
    """Of the Hermitian matrices whose lower triangles are these; NaN where they are not finite."""

    def checks(self, x: TensorType) -> Sequence[Check]:
        return head_checks([(0, -2), (0, -1)], [x])

    def values_type(self, x: TensorType) -> TensorType:
        """The type of the eigenvalues, which are real."""
        check_matrix(self.name, x)
        return TensorType(real_dtype(x.dtype), square(self.name, x).shape[:-1])


@dataclass(frozen=True, slots=True)
class Eigh(Hermitian):
    """``w`` and ``v`` with ``x @ v = v * w``: w rises, the columns of v are orthonormal."""

    @property
    def name(self) -> str:
        return "eigh"

    def infer(self, x: TensorType) -> TupleType:
        w = self.values_type(x)
        return TupleType((w, square("eigh", x)))

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        n = x.shape[-1]
        dtypes = [real_dtype(x.dtype.name), x.dtype]
        return by_lapack(np.linalg.eigh, [np.tril(x)], [(n,), (n, n)], dtypes)

    def pullback(self, g: Sequence[Any], y: Node, x: Tensor) -> tuple[Tensor]:
        """Eigenvectors turn into each other as fast as their eigenvalues are near.

        Source: Giles, Collected matrix derivative results, 2008, section 3.1.
        """
        w, v = picks(y)
        gw, gv = g
        core: Any = 0 if gw is None else on_diagonal(cast(gw, x.dtype))
        if gv is not None:
            core = core + cast(apart(w), x.dtype) * matmul(adjoint(v), gv)
        made = matmul(matmul(v, core), adjoint(v))
        return _of_triangle(made, x)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Node:
        return Node.make(self, x)


@dataclass(frozen=True, slots=True)
class Eigvalsh(Hermitian):
    """The eigenvalues, real and rising."""

    @property
    def name(self) -> str:
        return "eigvalsh"

    def infer(self, x: TensorType) -> TensorType:
        return self.values_type(x)

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        dtypes = [real_dtype(x.dtype.name)]
        (w,) = by_lapack(lambda a: (np.linalg.eigvalsh(a),), [np.tril(x)], [(x.shape[-1],)], dtypes)
        return w

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        _, v = picks(Node.make(Eigh(), x))
        return _of_triangle(matmul(v * row(cast(g, x.dtype)), adjoint(v)), x)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(self, x)


def _of_triangle(made: Tensor, x: Tensor) -> tuple[Tensor]:
    """The gradient by the lower triangle, given that by the whole matrix."""
    return tuple(Mirror(lower=True, conjugated=True).pullback(made, x, x))  # type: ignore[return-value]


# Any matrices. All of it is complex.


@dataclass(frozen=True, slots=True)
class Spectral(Op):
    """Of square matrices; NaN where they are not finite."""

    def checks(self, x: TensorType) -> Sequence[Check]:
        return head_checks([(0, -2), (0, -1)], [x])

    def matrix_type(self, x: TensorType) -> TensorType:
        """The type of the eigenvectors."""
        check_matrix(self.name, x)
        return square(self.name, x).with_dtype(complex_of(x.dtype))


@dataclass(frozen=True, slots=True)
class Eig(Spectral):
    """``w`` and ``v`` with ``x @ v = v * w``: columns of length 1, their largest elements real."""

    @property
    def name(self) -> str:
        return "eig"

    def infer(self, x: TensorType) -> TupleType:
        v = self.matrix_type(x)
        return TupleType((v.with_shape(v.shape[:-1]), v))

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        n, dtype = x.shape[-1], complex_of(x.dtype.name)
        return by_lapack(np.linalg.eig, [x], [(n,), (n, n)], [dtype, dtype])

    def pullback(self, g: Sequence[Any], y: Node, x: Tensor) -> tuple[Tensor]:
        """As ``inv(v).H @ (...) @ v.H``; each column stays of length 1, its largest element real.

        Source: Boeddeker et al., arXiv:1701.00392, 2017, section 4.
        """
        w, v = picks(y)
        gw, gv = g
        core: Any = 0 if gw is None else on_diagonal(gw)
        if gv is not None:
            core = core + conj(apart(w)) * matmul(adjoint(v), _scaled(gv, v))
        return (_unturned(core, v, x),)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Node:
        return Node.make(self, x)


@dataclass(frozen=True, slots=True)
class Eigvals(Spectral):
    """The eigenvalues, complex, in LAPACK's order."""

    @property
    def name(self) -> str:
        return "eigvals"

    def infer(self, x: TensorType) -> TensorType:
        v = self.matrix_type(x)
        return v.with_shape(v.shape[:-1])

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        dtypes = [complex_of(x.dtype.name)]
        (w,) = by_lapack(lambda a: (np.linalg.eigvals(a),), [x], [(x.shape[-1],)], dtypes)
        return w

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        _, v = picks(Node.make(Eig(), x))
        return (_unturned(on_diagonal(g), v, x),)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(self, x)


def _unturned(core: Tensor, v: Tensor, x: Tensor) -> Tensor:
    made = Tensor.make(Solve("gen", False), adjoint(v), matmul(core, adjoint(v)))
    return cast(made if is_complex(x.dtype) else real(made), x.dtype)


def _scaled(gv: Tensor, v: Tensor) -> Tensor:
    """The gradient by eigenvectors of any length and phase, given that by the normal ones."""
    along = sum(conj(v) * gv, -2)
    rows = column(arange(length(v, -2)))
    is_largest = equal(rows, row(argmax(abs(v), -2)))
    largest = sum(where(is_largest, real(v), 0), -2)
    turned = where(is_largest, row(imag(along) / largest), 0)
    return gv - v * row(real(along)) - 1j * turned  # type: ignore[no-any-return]


# What users call.


def _lower(op: str, x: Tensor, lower: bool, uplo: str | None) -> Tensor:
    """The matrix whose lower triangle is what is to be read."""
    if uplo is not None:
        if uplo not in {"L", "U"}:
            raise ArgumentError(
                f"{op}: there is no UPLO={uplo!r}.", "Use 'L' or 'U'.", where_is(here())
            )
        lower = uplo == "L"
    return x if lower else adjoint(x)


@function
def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    UPLO: str | None = None,  # noqa: N803 (NumPy's name)
) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of Hermitian matrices: ``a @ v = v * w``.

    Where eigenvalues are equal, vectors stand for them that could be others as well. The gradient
    is right there of what does not depend on the choice to first order, as sums over all
    eigenvalues and projections on all vectors of equal ones; it is finite in any case.

    Args:
        a: Matrices, the last two axes, of which one triangle is read. Integers and bool become
            float64; half-width floats are computed in float32.
        b: Positive definite matrices: then ``a @ v = b @ v * w``, and ``v.H @ b @ v`` is the
            identity. Of one that is not positive definite, all is NaN.
        lower: Which triangle of both is read.
        UPLO: ``"L"`` or ``"U"``: the same by NumPy's name.

    Returns:
        ``w``, real and rising, and ``v``, a column for each. Both are NaN of a matrix that holds
        NaN or infinity.

    Raises:
        ShapeError: The matrices are not square.
        ArgumentError: There is no such ``UPLO``.

    Example:
        >>> import graphc.tensor as gt
        >>> w, v = gt.linalg.eigh([[2.0, 1.0], [1.0, 2.0]])
        >>> w.eval(mode="NUMPY").round(12).tolist()
        [1.0, 3.0]
    """
    if b is None:
        x, dtype = given("eigh", a)
        made = picks(Node.make(Eigh(), _lower("eigh", x, lower, UPLO)))
        return narrow(made[0], dtype), narrow(made[1], dtype)
    whitened, factor, dtype = _whitened("eigh", a, b, lower, UPLO)
    w, v = picks(Node.make(Eigh(), whitened))
    return narrow(w, dtype), narrow(solved_adjoint(factor, v), dtype)


@function
def eigvalsh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    UPLO: str | None = None,  # noqa: N803 (NumPy's name)
) -> Tensor:
    """The eigenvalues of Hermitian matrices, rising; arguments and errors as for ``eigh``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.eigvalsh([[0.0, 1.0], [1.0, 0.0]]).eval(mode="NUMPY").round(12).tolist()
        [-1.0, 1.0]
    """
    if b is None:
        x, dtype = given("eigvalsh", a)
        return narrow(Tensor.make(Eigvalsh(), _lower("eigvalsh", x, lower, UPLO)), dtype)
    whitened, _, dtype = _whitened("eigvalsh", a, b, lower, UPLO)
    return narrow(Tensor.make(Eigvalsh(), whitened), dtype)


def _whitened(op: str, a: Any, b: Any, lower: bool, uplo: str | None) -> tuple[Tensor, Tensor, str]:
    """``inv(L) @ a @ inv(L).H`` of b's lower factor L, and this."""
    (a, b), dtype = given_together(op, a, b)
    whole = Tensor.make(Mirror(lower=True, conjugated=True), _lower(op, a, lower, uplo))
    factor = Tensor.make(Cholesky(), _lower(op, b, lower, uplo))
    solve = SolveTriangular(True, False, False)
    half = Tensor.make(solve, factor, whole)
    return Tensor.make(solve, factor, adjoint(half)), factor, dtype


@function
def eig(x: Any) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of square matrices: ``x @ v = v * w``.

    Args:
        x: Matrices, the last two axes. Integers and bool become float64; half-width floats are
            computed in float32.

    Returns:
        ``w`` and ``v``, a column for each, of length 1 and with its largest element real. Both are
        complex, whatever x is, and NaN of a matrix that holds NaN or infinity.

    Raises:
        ShapeError: The matrices are not square.

    Example:
        >>> import graphc.tensor as gt
        >>> w, v = gt.linalg.eig([[0.0, 1.0], [-1.0, 0.0]])
        >>> w.eval(mode="NUMPY").tolist()
        [1j, -1j]
    """
    w, v = picks(Node.make(Eig(), given("eig", x)[0]))
    return w, v


@function
def eigvals(x: Any) -> Tensor:
    """The eigenvalues of square matrices, complex; arguments and errors as for ``eig``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.eigvals([[2.0, 1.0], [0.0, 3.0]]).eval(mode="NUMPY").real.tolist()
        [2.0, 3.0]
    """
    return Tensor.make(Eigvals(), given("eigvals", x)[0])
