"""Log-determinants by stochastic Lanczos quadrature, with bounds of their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.implicit.krylov.calculus import Calculus, Map
from graphc.implicit.krylov.conjugate import (
    SolverInfo,
    Stopping,
    conjugate_gradients,
    identity,
    solution,
)
from graphc.implicit.krylov.lanczos import matrices, steps_last, tridiagonal
from graphc.implicit.krylov.operators import System, as_operand, check_integer, size_of, system
from graphc.implicit.krylov.pivoted import LowRankPreconditioner
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import dtype_name

NEAR_ONE = {"float32": 0.9, "float64": 0.99}
"""By dtype, a lower bound of the eigenvalues of a matrix A after a preconditioner P, where A - P is
positive semidefinite: they are at least 1, except for rounding."""


class StochasticLogdet(NamedTuple):
    """An estimate of ``log(det(A))``, and bounds of its two errors.

    Attributes:
        value: The estimate, with the derivative.
        standard_error: The standard error of the mean over probes.
        quadrature_error: An upper bound of the excess of ``value`` over its limit for as many
            Lanczos steps as rows. Infinite if no lower bound of the eigenvalues is known, NaN if
            the bound is wrong.
    """

    value: Any
    standard_error: Any
    quadrature_error: Any


def quadratic_forms(
    calculus: Calculus, product: Map, probes: Any, steps: int, lower: Any
) -> tuple[Any, Any]:
    """Return ``z @ log(A) @ z`` of each column z, and an upper bound of its error.

    Even derivatives of the logarithm are negative, so Gauss quadrature gives an upper bound, and
    Gauss-Radau quadrature with a node at a lower bound of the spectrum a lower bound (Golub &
    Meurant, Matrices, Moments and Quadrature, 2010; Bai, Fahey & Golub, J. Comput. Appl. Math. 74,
    1996).
    """
    xp = calculus.xp
    _, alpha, beta = tridiagonal(calculus, product, probes, steps)
    alpha, beta = steps_last(xp, alpha), steps_last(xp, beta)
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
    extended = matrices(
        xp,
        xp.concatenate([alpha, node], axis=-1),
        xp.concatenate([beta, xp.zeros_like(rest)], axis=-1),
    )
    radau = square * _log_sum(xp, *calculus.eigh(extended))
    # The difference may be slightly negative by rounding.
    excess = xp.maximum(gauss - radau, 0)
    return gauss, xp.where(xp.all(gap > 0, axis=-1), excess, float("nan"))


def _log_sum(xp: Any, nodes: Any, vectors: Any) -> Any:
    """Return the sum of log-eigenvalues, weighted by the squares of first components."""
    first = xp.getitem(vectors, (..., 0, slice(None)))
    return xp.sum(first**2 * xp.log(nodes), axis=-1)


def estimate_logdet(  # noqa: PLR0913
    calculus: Calculus,
    title: str,
    A: Any,  # noqa: N803
    y: Any,
    key: Any,
    M: Any,  # noqa: N803
    *,
    n: Any,
    probes: Any,
    steps: Any,
    lower: Any,
    stopping: Stopping,
) -> tuple[Any, StochasticLogdet, SolverInfo]:
    """Return ``y @ inv(A) @ y`` of each column, None without y, and ``log(det(A))``.

    Gradients reuse the solutions. With probes z and a preconditioner P, the derivative of the
    log-determinant is the mean of ``u @ dA @ w`` for ``u = inv(A) @ root(P) @ z`` and ``w =
    inv(root(P)) @ z``. The public functions document the arguments.
    """
    problem, near, is_vector = _problem(calculus, title, (A, y, M), n, probes, steps)
    xp, dtype = calculus.xp, dtype_name(dtype_of(problem.b))
    rows = xp.shape_of(problem.b)[-2]
    z = calculus.signs(key, (rows, probes), dtype)
    constant = calculus.freeze(problem.product, z)
    side, w, inner = z, z, constant
    if near is not None:
        side, w = near.root(z), near.inverse_root(z)
        lower = NEAR_ONE[dtype] if lower is None else lower

        def inner(x: Any) -> Any:
            return near.inverse_root(constant(near.inverse_root(x)))

    # A Krylov space has at most as many dimensions as rows.
    most = min(steps, rows) if isinstance(rows, int) else steps
    gauss, excess = quadratic_forms(calculus, inner, z, most, lower)
    gauss = gauss if near is None else gauss + near.logdet()
    sides = side if y is None else xp.concatenate([problem.b, side], axis=-1)
    together = replace(problem, b=sides)
    x, info = solution(calculus, conjugate_gradients, together, stopping, symmetric=True)
    count = 0 if y is None else xp.shape_of(problem.b)[-1]
    own, u = xp.getitem(x, (..., slice(None, count))), xp.getitem(x, (..., slice(count, None)))
    w = calculus.constant(w)
    moving = xp.mean(calculus.zeros_with_gradient(problem.product(w), u), axis=-1)
    value = calculus.constant(xp.mean(gauss, axis=-1)) + moving
    spread = xp.std(gauss, axis=-1, ddof=1) / float(np.sqrt(probes))
    estimate = StochasticLogdet(value, spread, xp.mean(excess, axis=-1))
    if y is None:
        return None, estimate, info
    stopping = stopping.with_maxiter(xp, problem.b)

    def search(product: Map, b: Any, start: Any) -> Any:
        precondition = problem.precondition or identity
        return conjugate_gradients(calculus, product, precondition, b, start, stopping)[0]

    quad = calculus.quadratic(problem.product, problem.b, own, search)
    return xp.squeeze(quad, -1) if is_vector else quad, estimate, info


def _problem(
    calculus: Calculus, title: str, operands: Sequence[Any], n: Any, probes: Any, steps: Any
) -> tuple[System, LowRankPreconditioner | None, bool]:
    """Return the system of A, y and M, the preconditioner, and whether y is a vector."""
    A, y, M = operands  # noqa: N806
    check_integer(title, "probes", probes, 2)
    check_integer(title, "steps", steps, 1)
    if M is not None and not isinstance(M, LowRankPreconditioner):
        raise ArgumentError(
            f"{title}: the preconditioner {M!r}.",
            "Give what low_rank_preconditioner makes: its determinant is needed, too.",
        )
    A, M = as_operand(calculus, title, A), M and M.to_calculus(calculus)  # noqa: N806
    is_vector = False
    if y is not None:
        sides = calculus.array(y)
        is_vector = sides.ndim == 1
        sides = calculus.xp.expand_dims(sides, -1) if is_vector else sides
    else:
        rows, dtype = (n, calculus.widest) if n is not None else size_of(calculus, title, A, "n")
        sides = calculus.xp.zeros((rows, 1), dtype=dtype)
    problem = system(calculus, title, A, sides, None, M)
    if len(lengths_of(problem.b)) != 2:
        raise ShapeError(f"{title}: a stack of systems.", "Give one matrix, and one of columns.")
    return problem, M, is_vector
