"""QR factorisation: orthonormal columns times a triangle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from graphc.errors import ArgumentError, UnsupportedOperationError
from graphc.ir import Node, Op, TensorType, TupleType, is_complex, picks
from graphc.ir.lengths import least
from graphc.tensor.arrays.create import zeros, zeros_like
from graphc.tensor.arrays.diagonal import diagonal
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.select import take_along_axis
from graphc.tensor.arrays.sort import argsort
from graphc.tensor.arrays.triangle import tril, triu
from graphc.tensor.core.elementwise import imag
from graphc.tensor.core.shape import length, lengths
from graphc.tensor.core.tensor import Tensor, TensorLike, function
from graphc.tensor.linalg import spectra
from graphc.tensor.linalg.dot import matmul
from graphc.tensor.linalg.mirror import MatrixOp, adjoint
from graphc.tensor.linalg.triangular import SolveTriangular


@dataclass(frozen=True, slots=True)
class Orthogonal(MatrixOp):
    """``q`` and ``r`` with ``x = q @ r``: q has orthonormal columns, r is upper triangular.

    The factors are LAPACK's, by Householder reflections.

    Attributes:
        full: q is m by m and r m by n; otherwise m by k and k by n, k the smaller of m and n.
    """

    full: bool
    name = "qr"

    def infer(self, x: TensorType) -> TupleType:
        spectra.check_matrix("qr", x)
        *front, m, n = x.shape
        k = m if self.full else least(m, n)
        return TupleType((x.with_shape((*front, m, k)), x.with_shape((*front, k, n))))

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        return tuple(np.linalg.qr(x, "complete" if self.full else "reduced"))

    def pullback(self, g: Sequence[Any], y: Node, x: Tensor) -> tuple[Tensor]:
        q, r = picks(y)
        return (qr_gradient(g[0], g[1], q, r, x),)


class QR(Orthogonal):
    """The factors of real matrices."""

    __slots__ = ()


class ComplexQR(Orthogonal):
    """The factors of complex matrices; the diagonal of r is real."""

    __slots__ = ()
    by_numpy = True


def qr_gradient(gq: Any, gr: Any, q: Tensor, r: Tensor, x: Tensor) -> Tensor:
    """Return the gradient with respect to x, given the gradients with respect to q and r.

    The first k columns of x determine q; the others determine only their columns of r. Of the
    further columns of a full q, only the span has a gradient.

    Source: Roberts & Roberts, arXiv:2009.10071, 2020.
    """
    k = spectra.min_dimension(x)
    m, n = x.type.shape[-2:]
    basis, first = q[..., :, :k], r[..., :k, :k]
    gq = zeros_like(q) if gq is None else gq
    gr = zeros_like(r) if gr is None else gr
    is_wide = n is None or n != k
    by_basis = gq[..., :, :k]
    if is_wide:
        by_basis = by_basis + matmul(x[..., :, k:], adjoint(gr[..., :k, k:]))
    turned = matmul(adjoint(basis), by_basis)
    rest = by_basis - matmul(basis, turned)
    if m is None or m != k:
        others = q[..., :, k:]
        rest = rest - matmul(others, matmul(adjoint(gq[..., :, k:]), basis))
    of_r = matmul(gr[..., :k, :k], adjoint(first))
    gradient = rest + matmul(basis, _rotation(turned - of_r) + of_r)
    # gradient @ inv(first).H, as a solution with the triangular matrix.
    gradient = adjoint(Tensor.make(SolveTriangular(False, False, False), first, adjoint(gradient)))
    if not is_wide:
        return gradient
    return concatenate([gradient, matmul(basis, gr[..., :k, k:])], -1)


def _rotation(x: Tensor) -> Tensor:
    """Return the gradient with respect to a change of basis that keeps r's diagonal real."""
    skew = tril(x - adjoint(x), -1)
    return (
        skew + spectra.on_diagonal(1j * imag(diagonal(x, 0, -2, -1)))
        if is_complex(x.dtype)
        else skew
    )


@dataclass(frozen=True, slots=True)
class PivotedQR(MatrixOp):
    """``q``, ``r``, ``p`` with ``x[:, p] = q @ r``: r's diagonal decreases; p is int32.

    Attributes:
        full: As for ``QR``.
    """

    full: bool
    by_numpy = True
    name = "pivoted_qr"

    def infer(self, x: TensorType) -> TupleType:
        q, r = Orthogonal(self.full).infer(x).items
        return TupleType((q, r, TensorType("int32", (*x.shape[:-2], x.shape[-1]))))

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        import scipy.linalg

        m, n = x.shape[-2:]
        k = m if self.full else min(m, n)
        front = x.shape[:-2]
        q, r = np.zeros((*front, m, k), x.dtype), np.zeros((*front, k, n), x.dtype)
        q[:], p = np.eye(m, k), np.empty((*front, n), np.int32)
        p[:] = np.arange(n)
        mode = "full" if self.full else "economic"
        for index in np.ndindex(front if x.size else (0,)):
            q[index], r[index], p[index] = scipy.linalg.qr(
                x[index], mode=mode, pivoting=True, check_finite=False
            )
        return q, r, p

    def pullback(self, g: Sequence[Any], y: Node, x: Tensor) -> tuple[Tensor]:
        """Return the gradient; the columns keep their order under small changes."""
        q, r, p = picks(y)
        gradient = qr_gradient(g[0], g[1], q, r, take_along_axis(x, spectra.row(p), -1))
        return (take_along_axis(gradient, spectra.row(argsort(p, -1)), -1),)


@dataclass(frozen=True, slots=True)
class Reflectors(Op):
    """LAPACK's Householder reflectors below r's diagonal, their scales, and pivots on request.

    Attributes:
        pivoted: Whether columns are permuted; the permutation is then a third result, int32.
    """

    pivoted: bool
    by_numpy = True
    name = "reflectors"

    def infer(self, x: TensorType) -> TupleType:
        spectra.check_matrix("qr", x)
        *front, m, n = x.shape
        items = (x, x.with_shape((*front, least(m, n))))
        return TupleType((*items, TensorType("int32", (*front, n))) if self.pivoted else items)

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        import scipy.linalg

        m, n = x.shape[-2:]
        front = x.shape[:-2]
        packed, scales = np.empty_like(x), np.empty((*front, min(m, n)), x.dtype)
        p = np.empty((*front, n), np.int32)
        p[:] = np.arange(n)
        for index in np.ndindex(front if x.size else (0,)):
            (packed[index], scales[index]), _, *pivots = scipy.linalg.qr(
                x[index], mode="raw", pivoting=self.pivoted, check_finite=False
            )
            if pivots:
                (p[index],) = pivots
        return (packed, scales, p) if self.pivoted else (packed, scales)

    def pullback(self, g: Sequence[Any], y: Node, x: Tensor) -> tuple[Tensor]:
        raise UnsupportedOperationError(
            "qr(mode='raw') has no derivative.", "Use mode='economic', which has one.", y.where
        )

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Node:
        return Node.make(self, x)


MODES = {
    "full": "full",
    "complete": "full",
    "economic": "economic",
    "reduced": "economic",
    "r": "r",
    "raw": "raw",
}
"""SciPy's names, and NumPy's."""


@overload
def qr(
    A: TensorLike,  # noqa: N803 (PyTensor's name)
    mode: Literal["full", "complete", "economic", "reduced", "raw"] = "full",
    overwrite_a: bool = False,
    pivoting: bool = False,
    lwork: int | None = None,
) -> list[Tensor]: ...


@overload
def qr(
    A: TensorLike,  # noqa: N803 (PyTensor's name)
    mode: Literal["r"],
    overwrite_a: bool = False,
    pivoting: Literal[False] = False,
    lwork: int | None = None,
) -> Tensor: ...


@overload
def qr(
    A: TensorLike,  # noqa: N803 (PyTensor's name)
    mode: Literal["r"],
    overwrite_a: bool = False,
    *,
    pivoting: Literal[True],
    lwork: int | None = None,
) -> list[Tensor]: ...


@function
def qr(
    A: TensorLike,  # noqa: N803 (PyTensor's name)
    mode: str = "full",
    overwrite_a: bool = False,
    pivoting: bool = False,
    lwork: int | None = None,
) -> Tensor | list[Tensor]:
    """Return matrices as ``q @ r``: q has orthonormal columns, r is upper triangular.

    The gradient is right where the first k columns are linearly independent, with k the smaller of
    m and n. The further columns of a full q may be any that complete a basis; the gradient is right
    for functions that depend on their span alone.

    Args:
        A: Matrices of m rows and n columns, the last two axes. Integers and bool become float64;
            half-width floats are computed in float32.
        mode: ``"full"`` or ``"complete"``: q is m by m and r m by n. ``"economic"`` or
            ``"reduced"``: m by k and k by n. ``"r"``: r alone, m by n. ``"raw"``: LAPACK's packed
            reflections, m by n, their scales, and r, k by n; they have no derivative.
        overwrite_a: As in SciPy; arrays never change.
        pivoting: Whether columns are permuted so that r's diagonal falls in magnitude. The
            permutation p, int32, is a further result: ``A[:, p] = q @ r``.
        lwork: As in SciPy; the workspace is always of the best size.

    Returns:
        q and r, or the results of the mode, and p with ``pivoting``; a single result by itself.

    Raises:
        ArgumentError: There is no such mode.
        ShapeError: A has fewer than two axes.

    Example:
        >>> import graphc.tensor as gt
        >>> q, r = gt.linalg.qr([[3.0], [4.0]], mode="economic")
        >>> abs(r).eval(mode="NUMPY").tolist()
        [[5.0]]
    """
    if mode not in MODES:
        raise ArgumentError(
            f"qr: unknown mode={mode!r}.", f"Use one of {', '.join(map(repr, MODES))}."
        )
    x, dtype = spectra.as_matrices("qr", A)
    results = (
        _raw_factors(x, bool(pivoting))
        if mode == "raw"
        else _factors(x, MODES[mode], bool(pivoting))
    )
    results = [spectra.rounded_back(y, dtype) for y in results]
    return results if len(results) > 1 else results[0]


def _factors(x: Tensor, mode: str, pivoting: bool) -> list[Tensor]:
    full = mode == "full"
    kind = ComplexQR if is_complex(x.dtype) else QR
    q, r, *p = picks(Node.make(PivotedQR(full) if pivoting else kind(full), x))
    if mode != "r":
        return [q, r, *p]
    m, n = lengths(x)[-2:]
    below = zeros((*lengths(x)[:-2], m - length(r, -2), n), dtype=x.dtype)
    return [r if length(r, -2) is m else concatenate([r, below], -2), *p]


def _raw_factors(x: Tensor, pivoting: bool) -> list[Tensor]:
    packed, scales, *p = picks(Node.make(Reflectors(pivoting), x))
    return [packed, scales, triu(packed[..., : spectra.min_dimension(x), :]), *p]
