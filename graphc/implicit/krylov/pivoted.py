"""Pivoted partial Cholesky factors, and preconditioners that are built from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.implicit.krylov.calculus import Calculus
from graphc.implicit.treedef import dtype_of
from graphc.ir import dtype_name, numpy_dtype


def partial_factor(calculus: Calculus, A: Any, rank: int) -> Any:  # noqa: N803 (SciPy's name)
    """Return L (n, rank) such that ``A - L @ L.T`` is positive semidefinite and small.

    Each step eliminates the largest element that is left on the diagonal (Harbrecht, Peters &
    Schneider, Appl. Numer. Math. 62, 2012).
    """
    xp = calculus.xp
    remainder = xp.diagonal(A)
    dtype = dtype_name(dtype_of(remainder))
    n = xp.shape_of(remainder)[0]
    least = xp.max(remainder) * float(np.finfo(numpy_dtype(dtype)).eps)
    indices, steps = xp.arange(n), xp.literal(np.arange(rank)[:, None])

    def step(carry: Any, i: Any) -> Any:
        rows, remainder = carry
        pivot = xp.argmax(remainder)
        largest = xp.getitem(remainder, pivot)
        row = xp.getitem(A, pivot) - xp.matmul(xp.getitem(rows, (slice(None), pivot)), rows)
        is_positive = largest > least
        row = xp.where(is_positive, row / xp.sqrt(xp.where(is_positive, largest, 1)), 0)
        rows = xp.where(xp.equal(steps, i), row, rows)
        remainder = xp.where(xp.equal(indices, pivot), 0, xp.maximum(remainder - row * row, 0))
        return (rows, remainder), xp.zeros((), dtype=dtype)

    init = (xp.zeros((rank, n), dtype=dtype), remainder)
    (rows, _), _ = calculus.scan(step, init, rank)
    return xp.swapaxes(rows, 0, 1)


@dataclass(frozen=True, eq=False)
class LowRankPreconditioner:
    """``P = L @ L.T + noise * I``: an approximation that is easily inverted.

    ``M @ x`` is the product with the inverse of P, for vectors and blocks of columns x, as ``cg``
    expects of ``M``. P is constant in derivatives.

    Attributes:
        calculus: The library.
        operands: L and the noise as given, for another library.
        low: L, (n, rank).
        noise: A number above 0.
        vectors: The eigenvectors of ``L.T @ L``.
        squares: The eigenvalues of ``L.T @ L``.
    """

    calculus: Calculus
    operands: tuple[Any, Any]
    low: Any
    noise: Any
    vectors: Any
    squares: Any

    @classmethod
    def of(cls, calculus: Calculus, low: Any, noise: Any) -> LowRankPreconditioner:
        """Decompose the factor L."""
        xp, operands = calculus.xp, (low, noise)
        low = calculus.constant(calculus.array(low))
        noise = calculus.constant(xp.cast(calculus.array(noise), dtype_name(dtype_of(low))))
        squares, vectors = calculus.eigh(xp.matmul(xp.swapaxes(low, 0, 1), low))
        return cls(calculus, operands, low, noise, vectors, xp.maximum(squares, 0))

    def to_calculus(self, calculus: Calculus) -> LowRankPreconditioner:
        """Return the preconditioner of the same L and noise in a library."""
        return self if calculus is self.calculus else self.of(calculus, *self.operands)

    def __matmul__(self, x: Any) -> Any:
        weights = 1 / (self.squares + self.noise)
        return (x - self._apply_function(weights, x)) / self.noise

    def root(self, x: Any) -> Any:
        """Return the product with the square root of P."""
        xp = self.calculus.xp
        root = xp.sqrt(self.noise)
        return root * x + self._apply_function(1 / (xp.sqrt(self.squares + self.noise) + root), x)

    def inverse_root(self, x: Any) -> Any:
        """Return the product with the square root of the inverse."""
        xp = self.calculus.xp
        total, root = self.squares + self.noise, xp.sqrt(self.noise)
        weights = 1 / (total * (1 + root / xp.sqrt(total)))
        return (x - self._apply_function(weights, x)) / root

    def logdet(self) -> Any:
        """Return the logarithm of the determinant of P."""
        xp = self.calculus.xp
        n, rank = xp.shape_of(self.low)
        rest = xp.cast(n - rank, dtype_name(dtype_of(self.low)))
        return rest * xp.log(self.noise) + xp.sum(xp.log(self.squares + self.noise))

    def _apply_function(self, weights: Any, x: Any) -> Any:
        """Return ``L @ f(L.T @ L) @ L.T @ x``, where f has these values at the eigenvalues."""
        xp = self.calculus.xp
        inner = xp.matmul(
            xp.swapaxes(self.vectors, 0, 1), xp.matmul(xp.swapaxes(self.low, 0, 1), x)
        )
        weights = weights if x.ndim == 1 else xp.expand_dims(weights, -1)
        return xp.matmul(self.low, xp.matmul(self.vectors, weights * inner))
