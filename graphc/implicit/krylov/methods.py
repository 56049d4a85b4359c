"""Krylov methods for operands of any kind: arguments are checked, vectors become columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.implicit.krylov import conjugate, logdet, pivoted
from graphc.implicit.krylov.calculus import Calculus
from graphc.implicit.krylov.conjugate import SolverInfo, Stopping
from graphc.implicit.krylov.lanczos import Tridiagonal, eigenpairs, irregular, tridiagonal
from graphc.implicit.krylov.operators import as_operand, is_function, system
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import dtype_name

SEARCHES = {
    "cg": (conjugate.conjugate_gradients, True),
    "bicgstab": (conjugate.stabilized_biconjugate_gradients, False),
}
"""The iterations by the names of functions, and whether these are for symmetric matrices."""


def solve(  # noqa: PLR0913, PLR0917
    calculus: Calculus,
    title: str,
    A: Any,  # noqa: N803
    b: Any,
    x0: Any,
    M: Any,  # noqa: N803
    stopping: Stopping,
) -> tuple[Any, SolverInfo]:
    """Return a solution, and its convergence."""
    search, symmetric = SEARCHES[title]
    problem = system(calculus, title, A, b, x0, M)
    return conjugate.solution(calculus, search, problem, stopping, symmetric=symmetric)


def lanczos(calculus: Calculus, A: Any, v0: Any, steps: Any) -> Tridiagonal:  # noqa: N803
    """Return a basis of the Krylov space of a vector or of each column."""
    check_integer("lanczos", "steps", steps, 1)
    problem = system(calculus, "lanczos", A, v0, None, None)
    n = lengths_of(problem.b)[-2]
    if n is not None and steps > n:
        raise ArgumentError(f"lanczos: {steps} steps for {n} rows.", f"Give {n} at most.")
    xp = calculus.xp
    basis, alpha, beta = (
        xp.moveaxis(y, 0, -1) for y in tridiagonal(calculus, problem.product, problem.b, steps)
    )
    if problem.is_vector:
        return Tridiagonal(xp.squeeze(basis, -2), xp.squeeze(alpha, -2), xp.squeeze(beta, -2))
    # The axis of the initial vectors precedes each basis.
    return Tridiagonal(xp.moveaxis(basis, -2, -3), alpha, beta)


def eigsh(  # noqa: PLR0913
    calculus: Calculus,
    A: Any,  # noqa: N803
    k: Any,
    *,
    which: str,
    v0: Any,
    ncv: Any,
    tol: Any,
    maxiter: Any,
    on_error: str,
) -> tuple[Any, Any]:
    """Return outer eigenvalues and their vectors."""
    check_on_error("eigsh", on_error)
    A = as_operand(calculus, "eigsh", A)  # noqa: N806
    if v0 is None:
        n, dtype = _size_of(calculus, "eigsh", A, "v0")
        start = irregular(calculus.xp, n, 1, dtype)
    else:
        start = calculus.array(v0)
        if start.ndim != 1:
            raise ShapeError("eigsh: v0 is no vector.", "Give one vector.")
        start = calculus.xp.expand_dims(start, -1)
    problem = system(calculus, "eigsh", A, start, None, None)
    return eigenpairs(
        calculus, problem.product, problem.b, k,
        which=which, ncv=ncv, tol=tol, maxiter=maxiter, on_error=on_error,
    )  # fmt: skip


def _size_of(calculus: Calculus, title: str, A: Any, instead: str) -> tuple[Any, str]:  # noqa: N803
    if is_function(A) or not hasattr(A, "shape"):
        raise ArgumentError(
            f"{title}: {A!r} has no shape.", f"Give {instead}, whose length is that of its columns."
        )
    if len(lengths_of(A)) != 2:
        raise ShapeError(f"{title}: a stack of shape {list(lengths_of(A))}.", "Give one matrix.")
    dtype = dtype_name(dtype_of(A))
    dtype = calculus.widest if dtype[0] in "iub" else dtype
    return calculus.xp.shape_of(A)[-1], "float32" if dtype in {"float16", "bfloat16"} else dtype


def stochastic_logdet(  # noqa: PLR0913
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
) -> tuple[Any, logdet.StochasticLogdet, SolverInfo]:
    """Return quadratic forms of the inverse, or None, and the log-determinant."""
    check_integer(title, "probes", probes, 2)
    check_integer(title, "steps", steps, 1)
    if M is not None and not isinstance(M, pivoted.LowRankPreconditioner):
        raise ArgumentError(
            f"{title}: the preconditioner {M!r}.",
            "Give what low_rank_preconditioner makes: its determinant is needed, too.",
        )
    A = as_operand(calculus, title, A)  # noqa: N806
    is_vector = False
    if y is not None:
        sides = calculus.array(y)
        is_vector = sides.ndim == 1
        sides = calculus.xp.expand_dims(sides, -1) if is_vector else sides
    else:
        rows, dtype = (n, calculus.widest) if n is not None else _size_of(calculus, title, A, "n")
        sides = calculus.xp.zeros((rows, 1), dtype=dtype)
    problem = system(calculus, title, A, sides, None, M)
    if len(lengths_of(problem.b)) != 2:
        raise ShapeError(f"{title}: a stack of systems.", "Give one matrix, and one of columns.")
    quad, estimate, info = logdet.inv_quad_logdet(
        calculus, problem, key, M,
        probes=probes, steps=steps, lower=lower, stopping=stopping, with_sides=y is not None,
    )  # fmt: skip
    return calculus.xp.squeeze(quad, -1) if is_vector else quad, estimate, info


def pivoted_cholesky(calculus: Calculus, A: Any, rank: Any) -> Any:  # noqa: N803
    """Return a partial factor of a matrix."""
    check_integer("pivoted_cholesky", "rank", rank, 1)
    A = as_operand(calculus, "pivoted_cholesky", A)  # noqa: N806
    n, _ = _size_of(calculus, "pivoted_cholesky", A, "a matrix")
    if isinstance(n, int) and rank > n:
        raise ArgumentError(f"pivoted_cholesky: rank={rank} of {n} rows.", f"Give {n} at most.")
    return pivoted.partial_factor(calculus, A, rank)


def check_integer(title: str, name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ArgumentError(f"{title}: {name}={value!r}.", f"Give an integer from {least} on.")


def check_on_error(title: str, on_error: Any, choices: tuple[str, ...] = ("nan", "ignore")) -> None:
    if on_error not in choices:
        raise ArgumentError(
            f"{title}: unknown on_error={on_error!r}.",
            f"Use one of {', '.join(map(repr, choices))}.",
        )
