"""Determinants of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from graphc.ir import MakeTuple, Node, TensorType, TupleType, is_complex, picks, real_dtype
from graphc.tensor.arrays.broadcast import broadcast_batch, broadcast_to
from graphc.tensor.arrays.create import arange, eye, ones_like, zeros_like
from graphc.tensor.arrays.cumulative import cumprod
from graphc.tensor.arrays.diagonal import MatrixDiagonal
from graphc.tensor.arrays.index import flip
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.reduce import Composite, max, prod, sum
from graphc.tensor.arrays.triangle import triu
from graphc.tensor.core import elementwise as ew
from graphc.tensor.core.arithmetic import angle
from graphc.tensor.core.axes import expand_dims, matrix_transpose
from graphc.tensor.core.exponential import log
from graphc.tensor.core.shape import length, lengths
from graphc.tensor.core.tensor import Tensor, TensorLike, function
from graphc.tensor.linalg.cholesky import lower_factor
from graphc.tensor.linalg.dot import matmul
from graphc.tensor.linalg.inverse import Inverse, SquareComposite
from graphc.tensor.linalg.lu import check_square, factors, solve_by_lu
from graphc.tensor.linalg.mirror import adjoint, check_floats, in_floats, square as as_square
from graphc.tensor.linalg.spectra import column, on_diagonal, row
from graphc.tensor.linalg.svd import SVD


def _exchange_sign(exchanges: Tensor, dtype: str) -> Tensor:
    n = length(exchanges, exchanges.ndim - 1)
    moved = sum(ew.cast(ew.not_equal(exchanges, ew.cast(arange(n), "int32")), "int64"), -1)
    return ew.cast(1 - 2 * (moved % 2), dtype)


def pivots(a: Tensor, assume: str) -> tuple[Tensor, Tensor | None]:
    """Return numbers whose product is the determinant, and a sign to multiply it with, if any."""
    if assume in OF_DIAGONAL:
        return Tensor.make(MatrixDiagonal(0), check_square(a)), None
    packed, exchanges, _ = factors(check_square(a))
    return Tensor.make(MatrixDiagonal(0), packed), _exchange_sign(exchanges, a.dtype)


def _roots(a: Tensor) -> Tensor:
    """Return numbers whose product, squared, is the determinant of a positive definite matrix."""
    return Tensor.make(MatrixDiagonal(0), lower_factor(a))


class Det(SquareComposite):
    """The determinants of matrices, by their factors."""

    __slots__ = ()

    def infer(self, a: TensorType) -> TensorType:
        a = SquareComposite.infer(self, a)
        return a.with_shape(a.shape[:-2])

    def expand(self, a: Tensor) -> Tensor:
        if self.assume == "pos":
            return ew.square(prod(_roots(a), -1))
        diagonal, parity = pivots(a, self.assume)
        y = prod(diagonal, -1)
        return y if parity is None else y * parity

    def pullback(self, g: Tensor, y: Tensor, a: Tensor) -> Sequence[Any]:
        """Return ``g`` times the adjugate, which exists for singular matrices too."""
        if self.assume in OF_DIAGONAL:
            diagonal = Tensor.make(MatrixDiagonal(0), a)
            product = prod(diagonal, -1)
            (by_diagonal,) = product.op.pullback(g, product, diagonal)
            return Tensor.make(MatrixDiagonal(0), a).op.pullback(by_diagonal, diagonal, a)
        if self.assume == "pos":
            return (_expand_to_matrices(g * y) * Tensor.make(Inverse("pos"), a),)
        return (_expand_to_matrices(g) * adjoint(Tensor.make(Adjugate(self.assume), a)),)


OF_DIAGONAL = frozenset({"lower triangular", "upper triangular", "diagonal"})
"""The matrices whose determinants are the products of their diagonals."""


def _expand_to_matrices(g: Tensor) -> Tensor:
    return expand_dims(g, (g.ndim, g.ndim + 1))


class Adjugate(SquareComposite):
    """The determinants times the inverses of matrices, defined for singular ones too."""

    __slots__ = ()

    def expand(self, a: Tensor) -> Tensor:
        """Compute the adjugate by LU factors, with tiny numbers for zeros on the diagonal.

        The adjugate is a polynomial of the elements, so it changes as little as they do; the tiny
        numbers cancel.
        """
        packed, exchanges, order = factors(check_square(a))
        n = length(a, -1)
        tiny = float(np.finfo(real_dtype(a.dtype)).eps)
        largest = max(ew.abs(packed), (-2, -1), keepdims=True, initial=0)
        small = ew.where(ew.equal(largest, 0), 1, largest) * tiny
        is_diagonal = ew.equal(expand_dims(arange(n), 1), arange(n))
        nearby = ew.where(is_diagonal & ew.equal(packed, 0), ew.cast(small, a.dtype), packed)
        sign = _exchange_sign(exchanges, a.dtype)
        product = prod(Tensor.make(MatrixDiagonal(0), nearby), -1) * sign
        identity = broadcast_to(eye(n, dtype=a.dtype), (*lengths(a)[:-1], n))
        return solve_by_lu(nearby, order, identity, False) * _expand_to_matrices(product)

    def pullback(self, g: Tensor, y: Tensor, a: Tensor) -> tuple[Tensor]:
        """Use that the determinant's second derivative is symmetric in its directions."""
        return (adjoint(Tensor.make(AdjugateSlope(), a, adjoint(g))),)

    def pushforward(self, tangents: Sequence[Any], y: Tensor, a: Tensor) -> Any:
        return None if tangents[0] is None else Tensor.make(AdjugateSlope(), a, tangents[0])


@dataclass(frozen=True, slots=True)
class AdjugateSlope(Composite):
    """The derivatives of adjugates of matrices, each in the direction of another matrix.

    They exist for singular matrices too, where the product rule would subtract infinities.
    """

    def infer(self, a: TensorType, k: TensorType) -> TensorType:
        check_floats(self.name, a, k)
        return as_square(self.name, a)

    def batch(self, size: Any, batched: Sequence[bool], *inputs: Tensor) -> Tensor:
        return Tensor.make(self, *broadcast_batch(size, batched, inputs))

    def expand(self, a: Tensor, k: Tensor) -> Tensor:
        """Compute in the bases of singular vectors, where a is diagonal and minors are products.

        Without quotients the result is as exact for a matrix next to a singular one.
        """
        u, s, vh = picks(Node.make(SVD(False), a))
        turned = matmul(adjoint(u), matmul(k, adjoint(vh)))
        rest = ew.cast(_products_without_two(s), a.dtype)
        own = sum(rest * row(Tensor.make(MatrixDiagonal(0), turned)), -1)
        inner = matmul(adjoint(vh), matmul(on_diagonal(own) - rest * turned, adjoint(u)))
        unit = Tensor.make(Det("gen"), u) * Tensor.make(Det("gen"), vh)
        return inner * _expand_to_matrices(unit)

    def pullback(self, g: Tensor, y: Tensor, a: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Differentiate ``trace(x @ k) * z - x @ k @ z``, for a's inverse x and adjugate z."""
        x, z = Tensor.make(Inverse("gen"), a), Tensor.make(Adjugate("gen"), a)
        h = adjoint(g)
        by_x = _expand_to_matrices(_trace_of_product(h, z)) * k - matmul(k, matmul(z, h))
        by_z = _expand_to_matrices(_trace_of_product(x, k)) * h - matmul(h, matmul(x, k))
        by_a = Tensor.make(AdjugateSlope(), a, by_z) - matmul(x, matmul(by_x, x))
        return adjoint(by_a), adjoint(Tensor.make(AdjugateSlope(), a, h))


def _trace_of_product(a: Tensor, b: Tensor) -> Tensor:
    return sum(a * matrix_transpose(b), (-2, -1))


def _products_without_two(s: Tensor) -> Tensor:
    """Return, for each i and j, the product of all elements except these two; 0 where i = j."""
    one = ones_like(s[..., :1])
    before = cumprod(concatenate([one, s[..., :-1]], -1), -1)
    after = flip(cumprod(concatenate([one, flip(s[..., 1:], -1)], -1), -1), -1)
    index = arange(length(s, -1))
    inside = ew.less(column(index) + 1, index)  # j - 1 is behind i, and so between the two
    between = cumprod(ew.where(inside, row(concatenate([one, s[..., :-1]], -1)), 1), -1)
    upper = triu(column(before) * between * row(after), 1)
    return upper + matrix_transpose(upper)


class SlogDet(SquareComposite):
    """The signs of determinants and the logarithms of their magnitudes, two results."""

    __slots__ = ()

    def infer(self, a: TensorType) -> TupleType:
        a = SquareComposite.infer(self, a)
        head = a.shape[:-2]
        return TupleType((a.with_shape(head), TensorType(real_dtype(a.dtype), head)))

    def expand(self, a: Tensor) -> Node:
        if self.assume == "pos":
            # No squares, which underflow for small numbers and overflow for large ones.
            roots = _roots(a)
            return Node.make(
                MakeTuple(), prod(ew.sign(roots), -1), 2 * sum(log(ew.real(roots)), -1)
            )
        diagonal, parity = pivots(a, self.assume)
        y = prod(ew.sign(diagonal), -1)
        return Node.make(
            MakeTuple(), y if parity is None else y * parity, sum(log(ew.abs(diagonal)), -1)
        )

    def pullback(self, g: Sequence[Tensor | None], y: Node, a: Tensor) -> Sequence[Any]:
        """Return the gradient by the inverse; the sign of a real matrix is constant."""
        phase, _ = picks(y)
        by_phase, by_log = g
        gradient: Any = by_log
        if is_complex(a.dtype):
            gradient = zeros_like(phase) if by_log is None else ew.cast(by_log, a.dtype)
            if by_phase is not None:
                turn = -ew.imag(ew.conj(by_phase) * phase)
                gradient = gradient + ew.complex(zeros_like(turn), turn)
        if gradient is None:
            return (None,)
        if self.assume in OF_DIAGONAL:
            diagonal = Tensor.make(MatrixDiagonal(0), a)
            by_diagonal = expand_dims(gradient, gradient.ndim) / ew.conj(diagonal)
            return diagonal.op.pullback(by_diagonal, diagonal, a)
        return (_expand_to_matrices(gradient) * adjoint(Tensor.make(Inverse(self.assume), a)),)


@function
def det(a: TensorLike, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Return the determinants of square matrices; 1 for an empty one.

    The gradient is right for singular matrices too.

    Args:
        a: Square matrices in the last two axes.
        overwrite_a: As in SciPy; a is never changed.
        check_finite: As in SciPy; non-finite values are computed with in any case.

    Returns:
        An array without the last two axes.

    Raises:
        ShapeError: The matrices are not square.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.det([[2.0, 1.0], [0.0, 4.0]]).eval(mode="NUMPY").item()
        8.0
    """
    (a,), dtype = in_floats("det", a)
    return ew.cast(Tensor.make(Det("gen"), a), dtype)


class SlogdetResult(NamedTuple):
    """The result of ``slogdet``."""

    sign: Tensor
    logabsdet: Tensor


@function
def slogdet(x: TensorLike) -> SlogdetResult:
    """Return the signs of determinants and the logarithms of their magnitudes, without overflow.

    Args:
        x: Square matrices in the last two axes.

    Returns:
        The sign: 1, -1, or 0 for a singular matrix; for complex ones a number of magnitude 1. And
        the logarithm: real, ``-inf`` for a singular matrix.

    Raises:
        ShapeError: The matrices are not square.

    Example:
        >>> import graphc.tensor as gt
        >>> sign, log = gt.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])
        >>> sign.eval(mode="NUMPY").item(), log.eval(mode="NUMPY").item()
        (-1.0, 0.0)
    """
    (x,), dtype = in_floats("slogdet", x)
    phase, logs = picks(Node.make(SlogDet("gen"), x))
    return SlogdetResult(ew.cast(phase, dtype), ew.cast(logs, real_dtype(dtype)))


@function
def logdet(x: TensorLike) -> Tensor:
    """Return the logarithms of determinants, without overflow.

    Args:
        x: Square matrices in the last two axes.

    Returns:
        An array without the last two axes: NaN where a real determinant is negative, ``-inf`` where
        it is 0; of complex matrices the logarithm with an imaginary part between -pi and pi.

    Raises:
        ShapeError: The matrices are not square.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.linalg.logdet(1e200 * gt.eye(2)).eval(mode="NUMPY").round(3).item()
        921.034
    """
    phase, logs = slogdet(x)
    if is_complex(phase.dtype):
        return ew.complex(logs, angle(phase))
    return ew.where(ew.less(phase, 0), ew.cast(np.nan, logs.dtype), logs)
