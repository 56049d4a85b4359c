"""Log-determinants by stochastic Lanczos quadrature, with bounds of their errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphc.implicit.krylov.calculus import Calculus, Map
from graphc.implicit.krylov.conjugate import (
    SolverInfo,
    Stopping,
    conjugate_gradients,
    solution,
    unchanged,
)
from graphc.implicit.krylov.lanczos import matrices, moved, tridiagonal
from graphc.implicit.krylov.operators import System
from graphc.implicit.krylov.pivoted import LowRankPreconditioner
from graphc.implicit.treedef import dtype_of
from graphc.ir import dtype_name

NEAR_ONE = {"float32": 0.9, "float64": 0.99}
"""By dtype, a lower bound of the eigenvalues of a matrix A after a preconditioner P, where A - P is
positive semidefinite: they are 1 or more, less what rounding makes of that."""


class StochasticLogdet(NamedTuple):
    """An estimate of ``log(det(A))``, and bounds of its two errors.

    Attributes:
        value: The estimate. It has the derivative.
        standard_error: That of the mean over probes, by their standard deviation.
        quadrature_error: How much larger ``value`` may be than with as many Lanczos steps as there
            are rows. Infinite where no lower bound of the eigenvalues is known, NaN where the bound
            is wrong.
    """

    value: Any
    standard_error: Any
    quadrature_error: Any


def quadratic_forms(
    calculus: Calculus, product: Map, probes: Any, steps: int, lower: Any
) -> tuple[Any, Any]:
    """``z @ log(A) @ z`` of each column z by Gauss quadrature, and how much too large it may be.

    Even derivatives of the logarithm are negative, so Gauss quadrature gives too much, and
    Gauss-Radau quadrature with a node at a lower bound of the spectrum too little (Golub & Meurant,
    Matrices, Moments and Quadrature, 2010; Bai, Fahey & Golub, J. Comput. Appl. Math. 74, 1996).
    """
    xp = calculus.xp
    _, alpha, beta = tridiagonal(calculus, product, probes, steps)
    alpha, beta = moved(xp, alpha), moved(xp, beta)
    square = xp.sum(probes * probes, axis=-2)
    nodes, vectors = calculus.eigh(matrices(xp, alpha, beta))
    gauss = square * _log_sum(xp, nodes, vectors)
    if lower is None:
        return gauss, xp.full_like(gauss, float("inf"))
    lower = xp.cast(lower, dtype_name(dtype_of(alpha)))
    last = xp.getitem(vectors, (..., steps - 1, slice(None)))
    rest = xp.getitem(beta, (..., slice(steps - 1, steps)))
    gap = nodes - lower
    shift = rest**2 * xp.sum(last**2 / gap, axis=-1, keepdims=True)
    node = lower + shift
    more = matrices(
        xp,
        xp.concatenate([alpha, node], axis=-1),
        xp.concatenate([beta, xp.zeros_like(rest)], axis=-1),
    )
    radau = square * _log_sum(xp, *calculus.eigh(more))
    # Rounding may leave a little less than nothing.
    excess = xp.maximum(gauss - radau, 0)
    return gauss, xp.where(xp.all(gap > 0, axis=-1), excess, float("nan"))


def _log_sum(xp: Any, nodes: Any, vectors: Any) -> Any:
    """Logarithms of eigenvalues, weighted by the squares of first components."""
    first = xp.getitem(vectors, (..., 0, slice(None)))
    return xp.sum(first**2 * xp.log(nodes), axis=-1)


def inv_quad_logdet(  # noqa: PLR0913
    calculus: Calculus,
    system: System,
    key: Any,
    near: LowRankPreconditioner | None,
    *,
    probes: int,
    steps: int,
    lower: Any,
    stopping: Stopping,
    with_sides: bool,
) -> tuple[Any, StochasticLogdet, SolverInfo]:
    """``b @ inv(A) @ b`` of each column and ``log(det(A))``, by solutions that gradients share.

    With z the probes and P what is nearly A, the derivative of the determinant is the mean of
    ``u @ dA @ w`` for ``u = inv(A) @ root(P) @ z`` and ``w = inv(root(P)) @ z``.

    Args:
        calculus: The library.
        system: A and b.
        key: For the probes.
        near: P.
        probes: How many.
        steps: Of Lanczos.
        lower: A bound of the eigenvalues of A, or of ``inv(P) @ A``, from below.
        stopping: Of the solver.
        with_sides: Whether solutions for b are requested, too.
    """
    xp = calculus.xp
    dtype = dtype_name(dtype_of(system.b))
    n = xp.shape_of(system.b)[-2]
    z = calculus.signs(key, (n, probes), dtype)
    frozen = calculus.frozen(system.product, z)
    side, w, inner = z, z, frozen
    if near is not None:
        side, w = near.root(z), near.inverse_root(z)
        lower = NEAR_ONE[dtype] if lower is None else lower

        def inner(x: Any) -> Any:
            return near.inverse_root(frozen(near.inverse_root(x)))

    gauss, excess = quadratic_forms(calculus, inner, z, min(steps, _most(n, steps)), lower)
    gauss = gauss if near is None else gauss + near.logdet()
    sides = xp.concatenate([system.b, side], axis=-1) if with_sides else side
    together = System(system.product, None if near is None else near.__matmul__, sides, None, False)
    x, info = solution(calculus, conjugate_gradients, together, stopping, symmetric=True)
    count = xp.shape_of(system.b)[-1] if with_sides else 0
    own, u = xp.getitem(x, (..., slice(None, count))), xp.getitem(x, (..., slice(count, None)))
    w = calculus.constant(w)
    moving = xp.mean(calculus.slope(system.product(w), u), axis=-1)
    value = calculus.constant(xp.mean(gauss, axis=-1)) + moving
    spread = xp.std(gauss, axis=-1, ddof=1) / float(np.sqrt(probes))
    found = StochasticLogdet(value, spread, xp.mean(excess, axis=-1))
    quad = None
    if with_sides:
        limited = stopping.limited(xp, system.b)
        nearly = unchanged if near is None else near.__matmul__

        def search(product: Map, b: Any, start: Any) -> Any:
            return conjugate_gradients(calculus, product, nearly, b, start, limited)[0]

        quad = calculus.quadratic(system.product, system.b, own, search)
    return quad, found, info


def _most(n: Any, steps: int) -> int:
    """The number of rows, where that is known: a Krylov space has no more dimensions."""
    return n if isinstance(n, int) else steps
