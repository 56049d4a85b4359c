"""Krylov methods for JAX arrays, implicit ones among them: the functions of ``gt.linalg``.

These are JAX functions: ``jax.jit``, ``jax.grad`` and ``jax.vmap`` apply to their callers. A matrix
is an array, an implicit array of JAX arrays, the traced array that represents one within an
implicit function, or a function of JAX arrays. The gradient with respect to an implicit array is an
implicit array with a gradient for each field. No matrix becomes dense.
"""

from __future__ import annotations

from typing import Any

from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.krylov import methods
from graphc.implicit.krylov.conjugate import SolverInfo, Stopping
from graphc.implicit.krylov.lanczos import Tridiagonal
from graphc.implicit.krylov.logdet import StochasticLogdet
from graphc.implicit.krylov.pivoted import LowRankPreconditioner

__all__ = [
    "LowRankPreconditioner",
    "SolverInfo",
    "StochasticLogdet",
    "Tridiagonal",
    "bicgstab",
    "cg",
    "eigsh",
    "inv_quad_logdet",
    "lanczos",
    "low_rank_preconditioner",
    "pivoted_cholesky",
    "stochastic_logdet",
]


def cg(  # noqa: PLR0913
    A: Any,  # noqa: N803 (SciPy's names)
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,  # noqa: N803
    on_error: str = "nan",
) -> tuple[Any, SolverInfo]:
    """Solve ``A @ x = b`` by conjugate gradients, as ``gt.linalg.cg``.

    Derivatives, in both modes and of any order, solve the same system again.

    Args:
        A: Symmetric and positive definite, real, (..., n, n), or a function.
        b: A vector (n,), or columns (..., n, k), each an independent system.
        x0: The initial guess; by default zeros.
        rtol: The tolerance for the norm of the residual, relative to the norm of b.
        atol: The absolute tolerance; the larger of both applies.
        maxiter: The maximum number of steps, by default ``10 * n``.
        M: An approximate inverse of A, given like A; constant in derivatives.
        on_error: The result of a column that did not converge: ``"nan"``, or ``"ignore"`` for the
            iterate of the last step. JAX programs raise no errors: see ``converged``.

    Returns:
        x, and the steps, residual and convergence of each column.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from graphc import implicit
        >>> t = implicit.Toeplitz(jnp.array([2.0, 1.0, 0.0, 0.0]))
        >>> def total(t, b):
        ...     x, info = implicit.linalg.cg(t, b)
        ...     return x.sum()
        >>> [round(float(y), 3) for y in jax.grad(total)(t, jnp.ones(4)).column]
        [-0.4, -0.4, -0.32, -0.32]
    """
    return _solve("cg", A, b, x0, M, rtol, atol, maxiter, on_error)


def bicgstab(  # noqa: PLR0913
    A: Any,  # noqa: N803
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,  # noqa: N803
    on_error: str = "nan",
) -> tuple[Any, SolverInfo]:
    """Solve ``A @ x = b`` by BiCGSTAB, as ``gt.linalg.bicgstab``.

    Arguments and results are as for ``cg``; A and M need not be symmetric.

    Example:
        >>> import jax.numpy as jnp
        >>> x, info = bicgstab(jnp.array([[3.0, 1.0], [-1.0, 2.0]]), jnp.array([5.0, 3.0]))
        >>> x.round(4).tolist()
        [1.0, 2.0]
    """
    return _solve("bicgstab", A, b, x0, M, rtol, atol, maxiter, on_error)


def _solve(  # noqa: PLR0913, PLR0917
    title: str,
    A: Any,  # noqa: N803
    b: Any,
    x0: Any,
    M: Any,  # noqa: N803
    rtol: Any,
    atol: Any,
    maxiter: Any,
    on_error: Any,
) -> tuple[Any, SolverInfo]:
    methods.check_on_error(title, on_error)
    stopping = Stopping(rtol, atol, maxiter, on_error)
    return methods.solve(jax_arrays().KRYLOV, title, A, b, x0, M, stopping)


def lanczos(A: Any, v0: Any, steps: int) -> Tridiagonal:  # noqa: N803
    """Run the Lanczos process with full reorthogonalisation, as ``gt.linalg.lanczos``.

    Example:
        >>> import jax.numpy as jnp
        >>> basis, alpha, beta = lanczos(jnp.diag(jnp.array([1.0, 2.0, 3.0])), jnp.ones(3), 2)
        >>> alpha.round(4).tolist()
        [2.0, 2.0]
    """
    return methods.lanczos(jax_arrays().KRYLOV, A, v0, steps)


def eigsh(  # noqa: PLR0913
    A: Any,  # noqa: N803
    k: int = 6,
    *,
    which: str = "LM",
    v0: Any = None,
    ncv: int | None = None,
    tol: float = 0.0,
    maxiter: int = 300,
    on_error: str = "nan",
) -> tuple[Any, Any]:
    """Return outer eigenvalues of a symmetric operator and their vectors, as ``gt.linalg.eigsh``.

    Eigenvalues have a first derivative, in reverse mode.

    Example:
        >>> import jax.numpy as jnp
        >>> w, v = eigsh(jnp.diag(jnp.arange(1.0, 50.0)), 2, which="LA")
        >>> [round(float(x), 3) for x in w]
        [48.0, 49.0]
    """
    return methods.eigsh(
        jax_arrays().KRYLOV, A, k,
        which=which, v0=v0, ncv=ncv, tol=tol, maxiter=maxiter, on_error=on_error,
    )  # fmt: skip


def stochastic_logdet(  # noqa: PLR0913
    A: Any,  # noqa: N803
    key: Any,
    *,
    n: int | None = None,
    probes: int = 16,
    steps: int = 32,
    M: LowRankPreconditioner | None = None,  # noqa: N803
    lower: Any = None,
    rtol: float = 1e-5,
    maxiter: int | None = None,
    on_error: str = "nan",
) -> StochasticLogdet:
    """Estimate ``log(det(A))`` with error bounds, as ``gt.linalg.stochastic_logdet``.

    Args:
        A: Symmetric and positive definite, real, (n, n), or a function.
        key: A JAX key.
        n: The number of rows, where A is a function.
        probes: The number of probes, at least 2.
        steps: The number of Lanczos steps.
        M: The result of ``low_rank_preconditioner``.
        lower: A lower bound of the eigenvalues of A, with M after the preconditioner.
        rtol: The tolerance of the solutions for gradients. Outside ``jax.jit`` values compute these
            solutions as well.
        maxiter: The maximum number of steps of these solutions.
        on_error: The gradients if one of these solutions does not converge.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> a = jnp.diag(jnp.arange(2.0, 102.0)) + 0.1
        >>> estimate = stochastic_logdet(a, jax.random.key(0), lower=2.0)
        >>> error = abs(estimate.value - jnp.linalg.slogdet(a)[1])
        >>> bool(error < 3 * estimate.standard_error + estimate.quadrature_error)
        True
    """
    methods.check_on_error("stochastic_logdet", on_error)
    stopping = Stopping(rtol, 0.0, maxiter, on_error)
    _, estimate, _ = methods.stochastic_logdet(
        jax_arrays().KRYLOV, "stochastic_logdet", A, None, key, M,
        n=n, probes=probes, steps=steps, lower=lower, stopping=stopping,
    )  # fmt: skip
    return estimate


def inv_quad_logdet(  # noqa: PLR0913
    A: Any,  # noqa: N803
    y: Any,
    key: Any,
    *,
    probes: int = 16,
    steps: int = 32,
    M: LowRankPreconditioner | None = None,  # noqa: N803
    lower: Any = None,
    rtol: float = 1e-5,
    maxiter: int | None = None,
    on_error: str = "nan",
) -> tuple[Any, StochasticLogdet, SolverInfo]:
    """Return ``y @ inv(A) @ y`` and ``log(det(A))``, as ``gt.linalg.inv_quad_logdet``.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> a = jnp.diag(jnp.array([1.0, 2.0, 4.0]))
        >>> quad, logdet, info = inv_quad_logdet(a, jnp.ones(3), jax.random.key(0))
        >>> round(float(quad), 4), round(float(logdet.value), 4)
        (1.75, 2.0794)
    """
    methods.check_on_error("inv_quad_logdet", on_error)
    stopping = Stopping(rtol, 0.0, maxiter, on_error)
    return methods.stochastic_logdet(
        jax_arrays().KRYLOV, "inv_quad_logdet", A, y, key, M,
        n=None, probes=probes, steps=steps, lower=lower, stopping=stopping,
    )  # fmt: skip


def pivoted_cholesky(A: Any, rank: int) -> Any:  # noqa: N803
    """Return the partial Cholesky factor (n, rank) with the largest pivots.

    Example:
        >>> import jax.numpy as jnp
        >>> pivoted_cholesky(jnp.array([[1.0, 2.0], [2.0, 4.0]]), 1).tolist()
        [[1.0], [2.0]]
    """
    return methods.pivoted_cholesky(jax_arrays().KRYLOV, A, rank)


def low_rank_preconditioner(L: Any, noise: Any) -> LowRankPreconditioner:  # noqa: N803
    """Return a preconditioner of ``K + noise * I``, where ``L @ L.T`` approximates K.

    Example:
        >>> import jax.numpy as jnp
        >>> m = low_rank_preconditioner(jnp.ones((2, 1)), 2.0)
        >>> (m @ jnp.array([1.0, 3.0])).tolist()
        [0.0, 1.0]
    """
    return LowRankPreconditioner.of(jax_arrays().KRYLOV, L, noise)
