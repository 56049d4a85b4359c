"""Krylov methods of JAX's arrays, implicit ones among them: the functions of ``gt.linalg`` in JAX.

They are JAX functions: ``jax.jit``, ``jax.grad`` and ``jax.vmap`` apply to what calls them. A
matrix is an array, an implicit array of JAX's arrays, what stands for one within an implicit
function, or a function of JAX's arrays. Gradients with respect to implicit arrays are such, with a
gradient for each field, and none makes the matrix whole.
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
    """The solution x of ``A @ x = b`` by conjugate gradients, as ``gt.linalg.cg``.

    Derivatives, in both modes and of any order, solve the same system again.

    Args:
        A: Symmetric and positive definite, real, (..., n, n), or a function.
        b: A vector (n,), or columns (..., n, k), each a system of its own.
        x0: Where the search starts; by default zeros.
        rtol: The largest norm of the residual, relative to b's.
        atol: The largest norm, if that is larger.
        maxiter: The most steps, by default ``10 * n``.
        M: Nearly the inverse of A, given like A; constant in derivatives.
        on_error: What a column is that did not converge: ``"nan"``, or ``"ignore"`` for what the
            last step gave. JAX's programs raise no errors: see ``converged``.

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
    return _solved("cg", A, b, x0, M, rtol, atol, maxiter, on_error)


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
    """The solution x of ``A @ x = b`` by BiCGSTAB, as ``gt.linalg.bicgstab``.

    Arguments and results are those of ``cg``; A and M need not be symmetric.

    Example:
        >>> import jax.numpy as jnp
        >>> x, info = bicgstab(jnp.array([[3.0, 1.0], [-1.0, 2.0]]), jnp.array([5.0, 3.0]))
        >>> x.round(4).tolist()
        [1.0, 2.0]
    """
    return _solved("bicgstab", A, b, x0, M, rtol, atol, maxiter, on_error)


def _solved(  # noqa: PLR0913, PLR0917
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
    return methods.solved(jax_arrays().KRYLOV, title, A, b, x0, M, stopping)


def lanczos(A: Any, v0: Any, steps: int) -> Tridiagonal:  # noqa: N803
    """The Lanczos process with full reorthogonalisation, as ``gt.linalg.lanczos``.

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
    """Outer eigenvalues of a symmetric operator, and their vectors, as ``gt.linalg.eigsh``.

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
    """An estimate of ``log(det(A))``, and bounds of its errors, as ``gt.linalg.stochastic_logdet``.

    Args:
        A: Symmetric and positive definite, real, (n, n), or a function.
        key: A key of JAX's.
        n: The number of rows, where A is a function.
        probes: The number of probes, at least 2.
        steps: The number of Lanczos steps.
        M: What ``low_rank_preconditioner`` gives.
        lower: A number below all eigenvalues of A, with M after the preconditioner.
        rtol: For the solutions that gradients take. Outside ``jax.jit`` values take them as well.
        maxiter: The most steps of these.
        on_error: What becomes of gradients where one does not converge.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> a = jnp.diag(jnp.arange(2.0, 102.0)) + 0.1
        >>> found = stochastic_logdet(a, jax.random.key(0), lower=2.0)
        >>> error = abs(found.value - jnp.linalg.slogdet(a)[1])
        >>> bool(error < 3 * found.standard_error + found.quadrature_error)
        True
    """
    methods.check_on_error("stochastic_logdet", on_error)
    stopping = Stopping(rtol, 0.0, maxiter, on_error)
    _, found, _ = methods.stochastic_logdet(
        jax_arrays().KRYLOV, "stochastic_logdet", A, None, key, M,
        n=n, probes=probes, steps=steps, lower=lower, stopping=stopping,
    )  # fmt: skip
    return found


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
    """``y @ inv(A) @ y`` and ``log(det(A))``, as ``gt.linalg.inv_quad_logdet``.

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
    """The partial Cholesky factor (n, rank) with the largest pivots, as in ``gt.linalg``.

    Example:
        >>> import jax.numpy as jnp
        >>> pivoted_cholesky(jnp.array([[1.0, 2.0], [2.0, 4.0]]), 1).tolist()
        [[1.0], [2.0]]
    """
    return methods.pivoted_cholesky(jax_arrays().KRYLOV, A, rank)


def low_rank_preconditioner(L: Any, noise: Any) -> LowRankPreconditioner:  # noqa: N803
    """A preconditioner for ``K + noise * I``, where ``L @ L.T`` is nearly K, as in ``gt.linalg``.

    Example:
        >>> import jax.numpy as jnp
        >>> m = low_rank_preconditioner(jnp.ones((2, 1)), 2.0)
        >>> (m @ jnp.array([1.0, 3.0])).tolist()
        [0.0, 1.0]
    """
    return LowRankPreconditioner.of(jax_arrays().KRYLOV, L, noise)
