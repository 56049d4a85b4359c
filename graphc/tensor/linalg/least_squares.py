"""Pseudo-inverses, least squares, ranks and condition numbers, all by singular values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import Node, TensorType, picks, real_dtype
from graphc.tensor.arrays.broadcast import broadcast_batch, broadcast_to
from graphc.tensor.arrays.reduce import Composite, all, any, max, sum
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.axes import expand_dims, squeeze
from graphc.tensor.core.shape import length, lengths
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function
from graphc.tensor.linalg.dot import matmul
from graphc.tensor.linalg.eigen import Eigh, Eigvalsh
from graphc.tensor.linalg.inverse import Inverse
from graphc.tensor.linalg.mirror import Mirror, adjoint, common_lengths, square
from graphc.tensor.linalg.norm import norm
from graphc.tensor.linalg.spectra import (
    as_batched_matrices,
    as_matrices,
    by_lapack,
    check_matrix,
    rounded_back,
    row,
)
from graphc.tensor.linalg.svd import SVD, Svdvals


def _large(s: Tensor, rtol: Tensor) -> Tensor:
    """Return which singular values are nonzero, given their smallest ratio to the largest."""
    limit = rtol[..., None] * max(s, -1, keepdims=True, initial=0)
    return ew.greater(s, limit)


def _inverses(s: Tensor, rtol: Tensor) -> Tensor:
    large = _large(s, rtol)
    # NaN is not larger than anything, and is to stay.
    return ew.where(large, 1 / ew.where(large, s, 1), ew.where(ew.isnan(s), s, 0))


@dataclass(frozen=True, slots=True)
class PseudoInverse(Composite):
    """The Moore-Penrose inverse; singular values up to ``rtol`` times the largest are zero.

    Attributes:
        hermitian: Whether x is Hermitian.
    """

    hermitian: bool
    name = "pinv"

    def infer(self, x: TensorType, rtol: TensorType) -> TensorType:
        check_matrix("pinv", x)
        x = square("pinv", x) if self.hermitian else x
        heads = common_lengths("pinv", (x, rtol), (x.shape[:-2], rtol.shape))
        return x.with_shape((*heads, x.shape[-1], x.shape[-2]))

    def expand(self, x: Tensor, rtol: Tensor) -> Tensor:
        if not self.hermitian:
            u, s, vh = picks(Node.make(SVD(full=False), x))
            return matmul(adjoint(vh) * row(ew.cast(_inverses(s, rtol), x.dtype)), adjoint(u))
        w, v = picks(Node.make(Eigh(), x))
        signs = ew.where(w < 0, -1, 1)
        return matmul(v * row(ew.cast(signs * _inverses(ew.abs(w), rtol), x.dtype)), adjoint(v))

    def perform(self, x: np.ndarray[Any, Any], rtol: np.ndarray[Any, Any]) -> Any:
        m, n = x.shape[-2:]

        def one(a: Any, limit: Any) -> Any:
            # The ratio stands in a matrix of one element.
            inverse = np.linalg.pinv(a, limit[..., 0, 0], hermitian=self.hermitian)
            return (inverse,)

        limit = np.broadcast_to(rtol, x.shape[:-2])[..., None, None]
        (y,) = by_lapack(one, [x, limit], [(n, m)], [x.dtype])
        return y

    def pullback(self, g: Tensor, y: Tensor, x: Tensor, rtol: Tensor) -> tuple[Tensor, None]:
        """Return the gradient at constant rank; where the rank changes, y is not continuous.

        Source: Golub & Pereyra, SIAM J. Numer. Anal. 10(2), 1973, theorem 4.3.
        """
        yh, gh = adjoint(y), adjoint(g)
        right = matmul(matmul(gh, y), yh)
        left = matmul(matmul(yh, y), gh)
        projections = right - matmul(x, matmul(y, right)) + left - matmul(matmul(left, y), x)
        return projections - matmul(matmul(yh, g), yh), None

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        return Tensor.make(self, *broadcast_batch(size, batched, inputs))


@dataclass(frozen=True, slots=True)
class LeastSquares(Composite):
    """The shortest y with the smallest ``|a @ y - b|``, small singular values taken as zero.

    Attributes:
        transposed: Whether a's adjoint replaces a.
    """

    transposed: bool
    name = "lstsq"

    def infer(self, a: TensorType, b: TensorType, rtol: TensorType) -> TensorType:
        check_matrix("lstsq", a)
        check_matrix("lstsq", b)
        heads = common_lengths("lstsq", (a, b, rtol), (a.shape[:-2], b.shape[:-2], rtol.shape))
        rows, columns = a.shape[-2:][:: -1 if self.transposed else 1]
        common_lengths("lstsq", (a, b), ((rows,), (b.shape[-2],)))
        return b.with_shape((*heads, columns, b.shape[-1]))

    def expand(self, a: Tensor, b: Tensor, rtol: Tensor) -> Tensor:
        u, s, vh = picks(Node.make(SVD(full=False), a))
        into, out = (vh, u) if self.transposed else (adjoint(u), adjoint(vh))
        inverses = ew.cast(_inverses(s, rtol), a.dtype)
        return matmul(out, inverses[..., :, None] * matmul(into, b))

    def perform(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], rtol: Any) -> Any:
        inverse = PseudoInverse(hermitian=False).perform(a, rtol)
        return np.matmul(np.conj(np.swapaxes(inverse, -1, -2)) if self.transposed else inverse, b)

    def pullback(self, g: Tensor, y: Tensor, a: Tensor, b: Tensor, rtol: Tensor) -> Sequence[Any]:
        """Differentiate ``pinv(a) @ b`` without the pseudo-inverse."""
        there = LeastSquares(self.transposed)
        back = LeastSquares(not self.transposed)
        x = adjoint(a) if self.transposed else a
        z = Tensor.make(back, a, g, rtol)
        residual = b - matmul(x, y)
        by_x = matmul(residual, adjoint(Tensor.make(there, a, z, rtol))) - matmul(z, adjoint(y))
        rest = g - matmul(adjoint(x), z)
        by_x = by_x + matmul(Tensor.make(back, a, y, rtol), adjoint(rest))
        return (adjoint(by_x) if self.transposed else by_x), z, None

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        return Tensor.make(self, *broadcast_batch(size, batched, inputs))


def _default_ratio(x: Tensor) -> Any:
    """Return the ratio below which singular values are rounding errors."""
    m, n = (as_tensor(n) for n in lengths(x)[-2:])
    rounding = float(np.finfo(np.dtype(real_dtype(x.dtype))).eps)
    return ew.cast(ew.where(m > n, m, n), real_dtype(x.dtype)) * rounding


def _ratio_per_matrix(op: str, x: Tensor, value: Any) -> Tensor:
    ratio = as_tensor(_default_ratio(x) if value is None else value, dtype=real_dtype(x.dtype))
    if ratio.ndim > x.ndim - 2:
        raise ShapeError(
            f"{op}: {ratio!r} has more axes than there are in front of matrices of {x!r}.",
            "Pass a scalar, or one ratio for each matrix.",
        )
    return broadcast_to(ratio, lengths(x)[:-2]) if x.ndim > 2 else ratio


def _one_of(op: str, **options: Any) -> Any:
    wanted = {name: value for name, value in options.items() if value is not None}
    if len(wanted) > 1:
        raise ArgumentError(
            f"{op}: {' and '.join(wanted)} exclude each other.", "Pass one of them."
        )
    return next(iter(wanted.values()), None)


@function
def pinv(x: TensorLike, hermitian: bool = False, *, rcond: Any = None, rtol: Any = None) -> Tensor:
    """Return the Moore-Penrose pseudo-inverse of matrices.

    The gradient is right wherever small changes preserve the rank, also where singular values
    are equal.

    Args:
        x: Matrices of m by n, the last two axes. Integers and bool become float64; half-width
            floats are computed in float32.
        hermitian: The matrices are Hermitian, and their lower triangles alone are read.
        rcond: Singular values up to ``rcond`` times the largest count as zero; a scalar, or one for
            each matrix. By default the larger of m and n times the dtype's epsilon.
        rtol: The same as ``rcond``.

    Returns:
        Matrices of n by m; NaN for a matrix that holds NaN or infinity.

    Raises:
        ShapeError: x has fewer than two axes.
        ArgumentError: Both ``rcond`` and ``rtol``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.pinv([[2.0, 0.0], [0.0, 0.0]]).eval(mode="NUMPY").tolist()
        [[0.5, 0.0], [0.0, 0.0]]
    """
    ratio = _one_of("pinv", rcond=rcond, rtol=rtol)
    x, dtype = as_matrices("pinv", x)
    x = Tensor.make(Mirror(lower=True, conjugated=True), x) if hermitian else x
    return rounded_back(
        Tensor.make(PseudoInverse(bool(hermitian)), x, _ratio_per_matrix("pinv", x, ratio)), dtype
    )


@function
def lstsq(a: TensorLike, b: TensorLike, rcond: Any = None) -> list[Tensor]:
    """Return the y with the smallest sum of squares ``|a @ y - b|``; of several, the shortest.

    Gradients with respect to a and b are right wherever small changes preserve the rank, also
    where singular values are equal.

    Args:
        a: Matrices of m by n, the last two axes; axes in front broadcast. Integers and bool become
            float64; half-width floats are computed in float32.
        b: A vector of m elements, or matrices of m by k.
        rcond: Singular values up to ``rcond`` times the largest count as zero; by default the
            larger of m and n times the dtype's epsilon.

    Returns:
        ``y``: a vector of n elements, or matrices of n by k; the sums of squared residuals, k
        for each matrix where m is larger than n, and none elsewhere; a's ranks, int32; and its
        singular values.

    Raises:
        ShapeError: Lengths do not fit.

    Example:
        >>> import graphc.tensor as gt
        >>> y, left, rank, _ = gt.linalg.lstsq([[1.0], [1.0]], [1.0, 3.0])
        >>> y.eval(mode="NUMPY").round(12).tolist(), left.eval(mode="NUMPY").round(12).tolist()
        ([2.0], [2.0])
    """
    b = as_tensor(b)
    is_vector = b.ndim == 1
    (a, b), dtype = as_batched_matrices("lstsq", a, expand_dims(b, 1) if is_vector else b)
    ratio = _ratio_per_matrix("lstsq", a, rcond)
    y = Tensor.make(LeastSquares(transposed=False), a, b, ratio)
    s = Tensor.make(Svdvals(), a)
    missed = b - matmul(a, y)
    residuals = sum(ew.real(missed * missed.conj()), -2)
    m, n = lengths(a)[-2:]
    if isinstance(m, int) and isinstance(n, int):
        residuals = residuals if m > n else residuals[..., :0]
    else:
        residuals = residuals[..., : ew.where(as_tensor(m) > n, length(residuals, -1), 0)]
    rank = sum(ew.cast(_large(s, ratio), "int32"), -1, dtype="int32")
    y = squeeze(y, y.ndim - 1) if is_vector else y
    return [rounded_back(y, dtype), rounded_back(residuals, dtype), rank, rounded_back(s, dtype)]


@function
def matrix_rank(
    A: TensorLike,  # noqa: N803 (NumPy's name)
    tol: Any = None,
    hermitian: bool = False,
    *,
    rtol: Any = None,
) -> Tensor:
    """Return the number of nonzero singular values of matrices.

    Args:
        A: Matrices, the last two axes; of a vector or a scalar, whether it is not zero.
        tol: Singular values up to ``tol`` count as zero; a scalar, or one for each matrix.
        hermitian: The matrices are Hermitian, and their lower triangles alone are read.
        rtol: The same relative to the largest; by default the larger length times the dtype's
            epsilon.

    Returns:
        An int64 array without the last two axes.

    Raises:
        ArgumentError: Both ``tol`` and ``rtol``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]).eval(mode="NUMPY").item()
        1
    """
    _one_of("matrix_rank", tol=tol, rtol=rtol)
    x = as_tensor(A)
    if x.ndim < 2:
        return ew.cast(any(x), "int64")
    x, _ = as_matrices("matrix_rank", x)
    s = ew.abs(Tensor.make(Eigvalsh(), x)) if hermitian else Tensor.make(Svdvals(), x)
    if tol is None:
        return sum(ew.cast(_large(s, _ratio_per_matrix("matrix_rank", x, rtol)), "int64"), -1)
    return sum(ew.cast(ew.greater(s, as_tensor(tol)[..., None]), "int64"), -1)


@function
def cond(x: TensorLike, p: TensorLike | None = None) -> Tensor:
    """Return the condition numbers of matrices, which bound how errors of solutions grow.

    Args:
        x: Matrices, the last two axes: square ones, but for 2 and -2. Integers and bool become
            float64; half-width floats are computed in float32.
        p: None or 2 for the ratio of the largest to the smallest singular value, -2 for its
            inverse; ``"fro"``, ``"nuc"``, 1, -1, ``inf`` or ``-inf`` for the product of that norm
            of x and of its inverse.

    Returns:
        A real array without the last two axes; infinity for a singular matrix.

    Raises:
        ShapeError: The matrices are not square, or have no elements.
        ArgumentError: p is no norm of matrices.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.cond([[4.0, 0.0], [0.0, 2.0]]).eval(mode="NUMPY").item()
        2.0
    """
    x, dtype = as_matrices("cond", x)
    if 0 in x.type.shape[-2:]:
        raise ShapeError(f"cond({x!r}): the matrices have no elements.")
    finite = all(ew.isfinite(x), (-2, -1))
    if p in {None, 2, -2}:
        s = Tensor.make(Svdvals(), x)
        ratio = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
        singular = ew.isnan(ratio)
    else:
        axes = (x.ndim - 2, x.ndim - 1)
        inverse = Tensor.make(Inverse("gen"), x)
        ratio = norm(x, p, axes) * norm(inverse, p, axes)
        singular = ew.logical_not(all(ew.isfinite(inverse), axes))
    return rounded_back(
        ew.where(singular & finite, np.inf, ew.where(singular, np.nan, ratio)), dtype
    )
