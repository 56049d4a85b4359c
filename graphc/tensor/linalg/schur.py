"""Schur decompositions of matrices and of pairs of them, and matrix square roots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError, UnsupportedOperationError
from graphc.ir import Node, Op, TensorType, TupleType, is_complex, picks
from graphc.ir.lengths import agree
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.tensor import Tensor, TensorLike, function
from graphc.tensor.linalg import spectra
from graphc.tensor.linalg.equations import Sylvester, batch_shape
from graphc.tensor.linalg.mirror import MatrixOp, adjoint, square

SORTS = ("lhp", "rhp", "iuc", "ouc")
"""SciPy's names of halves of the plane: left, right, within the unit circle, outside of it."""


def _output(x: Any) -> str:
    return "complex" if np.iscomplexobj(x) else "real"


@dataclass(frozen=True, slots=True)
class SchurForm(MatrixOp):
    """``t`` and ``z`` with ``x = z @ t @ z.H``: z is unitary, t upper triangular.

    For real matrices both are real, and t has blocks of two rows on its diagonal for pairs of
    complex eigenvalues. Both are NaN for a matrix that is not finite.
    """

    name = "schur"

    def infer(self, x: TensorType) -> TupleType:
        spectra.check_matrix("schur", x)
        t = square("schur", x)
        return TupleType((t, t))

    def sorts(self) -> str | None:
        """Return the half-plane or disc whose eigenvalues come first; None for LAPACK's order."""
        return None

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        import scipy.linalg

        def one(a: Any) -> Any:
            return scipy.linalg.schur(a, _output(a), sort=self.sorts(), check_finite=False)[:2]

        return spectra.map_matrices(one, [x], [x.shape[-2:]] * 2, [x.dtype] * 2)

    def pullback(self, g: Sequence[Any], y: Node, x: Tensor) -> tuple[Tensor]:
        raise UnsupportedOperationError(
            "schur has no derivative.",
            "Use eig, sqrtm or solve_sylvester, which have one.",
            y.where,
        )


class Schur(SchurForm):
    """The decomposition with the eigenvalues in LAPACK's order."""

    __slots__ = ()
    by_numpy = True


@dataclass(frozen=True, slots=True)
class SortedSchur(SchurForm):
    """The decomposition with the eigenvalues of a part of the plane first.

    Attributes:
        sort: The part, one of SORTS.
    """

    sort: str
    by_numpy = True

    def sorts(self) -> str | None:
        return self.sort


@dataclass(frozen=True, slots=True)
class QZ(MatrixOp):
    """``aa``, ``bb``, ``alpha``, ``beta``, ``q``, ``z`` with ``a = q @ aa @ z.H``, b likewise.

    q and z are unitary, aa and bb upper triangular, the first with blocks of two rows where the
    matrices are real; the eigenvalues are ``alpha / beta``, alpha complex.

    Attributes:
        sort: Which eigenvalues come first: one of SORTS, or None.
    """

    sort: str | None
    by_numpy = True
    name = "qz"

    def infer(self, a: TensorType, b: TensorType) -> TupleType:
        spectra.check_matrix("qz", a)
        batch_shape("qz", a, b)
        t, other = square("qz", a), square("qz", b)
        if not agree(t.shape[-1], other.shape[-1]):
            raise ShapeError(f"qz({a!r}, {b!r}): lengths differ.")
        t = other if t.shape[-1] is None else t
        values = t.with_shape(t.shape[:-1])
        return TupleType((t, t, values.with_dtype(spectra.complex_of(t.dtype)), values, t, t))

    def perform(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
        import scipy.linalg

        n, dtype = a.shape[-1], a.dtype
        sort: Any = self.sort or (lambda alpha, beta: np.ones(alpha.shape, bool))

        def one(a: Any, b: Any) -> Any:
            return scipy.linalg.ordqz(a, b, sort, _output(a), check_finite=False)

        kinds = [dtype, dtype, np.dtype(spectra.complex_of(dtype.name)), dtype, dtype, dtype]
        shapes = [(n, n), (n, n), (n,), (n,), (n, n), (n, n)]
        return spectra.map_matrices(one, [a, b], shapes, kinds)

    def pullback(self, g: Sequence[Any], y: Node, a: Tensor, b: Tensor) -> Any:
        raise UnsupportedOperationError("qz has no derivative.", where=y.where)


@dataclass(frozen=True, slots=True)
class MatrixSqrt(Op):
    """The principal square root; NaN for real matrices whose root is not real."""

    by_numpy = True
    name = "sqrtm"

    def infer(self, x: TensorType) -> TensorType:
        spectra.check_matrix("sqrtm", x)
        return square("sqrtm", x)

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        (y,) = spectra.map_matrices(lambda a: (_root(a),), [x], [x.shape[-2:]], [x.dtype])
        return y

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """``dy @ y + y @ dy = dx``.

        Source: Higham, Functions of Matrices, 2008, section 6.1.
        """
        return (Tensor.make(Sylvester(), adjoint(y), adjoint(y), g),)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(self, x)


def _root(a: np.ndarray[Any, Any]) -> Any:
    import scipy.linalg

    y = scipy.linalg.sqrtm(a)
    return np.full_like(a, np.nan) if np.iscomplexobj(y) and not np.iscomplexobj(a) else y


# Public functions.


def _check_choice(op: str, what: str, value: Any, known: Sequence[Any]) -> None:
    if value not in known:
        raise ArgumentError(
            f"{op}: unknown {what}={value!r}.", f"Use one of {', '.join(map(repr, known))}."
        )


@function
def schur(
    A: TensorLike,  # noqa: N803 (PyTensor's name)
    output: str = "real",
    sort: str | None = None,
) -> list[Tensor]:
    """Return square matrices as ``z @ t @ z.H``: z is unitary, t upper triangular.

    Args:
        A: Matrices, the last two axes. Integers and bool become float64; half-width floats are
            computed in float32.
        output: ``"real"``: for real matrices both are real, and t has blocks of two rows on its
            diagonal for pairs of complex eigenvalues; ``"complex"``: t is a triangle.
        sort: Which eigenvalues come first: ``"lhp"``, with negative real parts, ``"rhp"``, with
            others, ``"iuc"``, of magnitudes up to 1, ``"ouc"``, of larger ones; None for LAPACK's
            order.

    Returns:
        ``t`` and ``z``; NaN for a matrix that holds NaN or infinity. They have no derivative.

    Raises:
        ArgumentError: The output or the sort is unknown.
        ShapeError: The matrices are not square.

    Example:
        >>> import graphc.tensor as gt
        >>> t, z = gt.linalg.schur([[1.0, 2.0], [0.0, 3.0]])
        >>> t.eval(mode="NUMPY").tolist()
        [[1.0, 2.0], [0.0, 3.0]]
    """
    _check_choice("schur", "output", output, ("real", "complex"))
    _check_choice("schur", "sort", sort, (None, *SORTS))
    x, dtype = spectra.as_matrices("schur", A)
    x = cast(x, spectra.complex_of(x.dtype)) if output == "complex" else x
    t, z = picks(Node.make(Schur() if sort is None else SortedSchur(sort), x))
    return [spectra.rounded_back(t, dtype), spectra.rounded_back(z, dtype)]


@function
def qz(
    A: TensorLike,  # noqa: N803 (PyTensor's names)
    B: TensorLike,  # noqa: N803
    output: str = "real",
    sort: str | None = None,
    return_eigenvalues: bool = False,
) -> list[Tensor]:
    """Return pairs of square matrices as ``q @ aa @ z.H``, ``q @ bb @ z.H``, with q and z unitary.

    Args:
        A: Matrices, the last two axes.
        B: As many matrices; axes in front broadcast.
        output: As for ``schur``.
        sort: As for ``schur``, of the generalised eigenvalues; none on the edge counts.
        return_eigenvalues: Return the eigenvalues, too.

    Returns:
        ``aa``, ``bb``, ``q`` and ``z``; or ``aa``, ``bb``, ``alpha``, ``beta``, ``q`` and ``z``,
        with eigenvalues ``alpha / beta``. They have no derivative.

    Raises:
        ArgumentError: The output or the sort is unknown.
        ShapeError: The matrices are not square.

    Example:
        >>> import graphc.tensor as gt
        >>> aa, bb, q, z = gt.linalg.qz([[1.0, 2.0], [0.0, 3.0]], [[1.0, 0.0], [0.0, 1.0]])
        >>> (q @ aa @ z.T).eval(mode="NUMPY").round(12).tolist()
        [[1.0, 2.0], [0.0, 3.0]]
    """
    _check_choice("qz", "output", output, ("real", "complex"))
    _check_choice("qz", "sort", sort, (None, *SORTS))
    (a, b), dtype = spectra.as_batched_matrices("qz", A, B)
    if output == "complex" and not is_complex(a.dtype):
        a, b = cast(a, spectra.complex_of(a.dtype)), cast(b, spectra.complex_of(b.dtype))
    aa, bb, *values, q, z = [
        spectra.rounded_back(y, dtype) for y in picks(Node.make(QZ(sort), a, b))
    ]
    return [aa, bb, *values, q, z] if return_eigenvalues else [aa, bb, q, z]


@function
def ordqz(
    A: TensorLike,  # noqa: N803 (PyTensor's names)
    B: TensorLike,  # noqa: N803
    sort: str | None = None,
    output: str = "real",
) -> list[Tensor]:
    """Return ``qz`` with ordered eigenvalues: ``aa``, ``bb``, ``alpha``, ``beta``, ``q``, ``z``.

    Arguments and errors as for ``qz``.

    Example:
        >>> import numpy as np
        >>> import graphc.tensor as gt
        >>> a, b = np.diag([1.0, -2.0]), np.eye(2)
        >>> aa, *_ = gt.linalg.ordqz(a, b, sort="lhp")
        >>> gt.diagonal(aa).round(6).eval(mode="NUMPY").tolist()
        [-2.0, 1.0]
    """
    return qz(A, B, output, sort, return_eigenvalues=True)


@function
def sqrtm(A: TensorLike) -> Tensor:  # noqa: N803 (SciPy's name)
    """Return the principal square root of matrices: ``y @ y = A``.

    Args:
        A: Square matrices, the last two axes. Integers and bool become float64; half-width floats
            are computed in float32.

    Returns:
        An array of A's shape; NaN for a matrix that holds NaN or infinity, and for a real one whose
        root is not real, as where an eigenvalue is negative: cast it to complex first.

    Raises:
        ShapeError: The matrices are not square.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.sqrtm([[4.0, 0.0], [0.0, 9.0]]).eval(mode="NUMPY").tolist()
        [[2.0, 0.0], [0.0, 3.0]]
    """
    x, dtype = spectra.as_matrices("sqrtm", A)
    return spectra.rounded_back(Tensor.make(MatrixSqrt(), x), dtype)
