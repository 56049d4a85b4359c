"""The public functions of ``gt.linalg``; ``implicit/linalg.py`` binds them to JAX."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.implicit.krylov import conjugate, operators
from graphc.implicit.krylov.calculus import CALCULUS, Calculus
from graphc.implicit.krylov.lanczos import Tridiagonal, eigenpairs, irregular, tridiagonal
from graphc.implicit.krylov.logdet import StochasticLogdet, estimate_logdet
from graphc.implicit.krylov.pivoted import LowRankPreconditioner, partial_factor
from graphc.implicit.treedef import lengths_of
from graphc.tensor.core.assertion import CheckAndRaise
from graphc.tensor.core.tensor import Tensor, TensorLike

P = ParamSpec("P")
R = TypeVar("R")

SEARCHES = {
    "cg": (conjugate.conjugate_gradients, True),
    "bicgstab": (conjugate.stabilized_biconjugate_gradients, False),
}
"""The iterations by the names of functions, and whether these are for symmetric matrices."""

UNCONVERGED = CheckAndRaise(
    np.linalg.LinAlgError, "The iterative solution did not converge in maxiter steps."
)


def with_calculus(
    calculus: Callable[[], Calculus],
) -> Callable[[Callable[Concatenate[Calculus, P], R]], Callable[P, R]]:
    """Return a decorator that passes a calculus as the first argument, which no signature shows.

    Args:
        calculus: Returns the calculus; called at each call of the decorated function.
    """

    def decorate(method: Callable[Concatenate[Calculus, P], R]) -> Callable[P, R]:
        @functools.wraps(method)
        def function(*args: P.args, **kwargs: P.kwargs) -> R:
            return method(calculus(), *args, **kwargs)

        signature = inspect.signature(method)
        parameters = [*signature.parameters.values()][1:]
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return decorate


@with_calculus(lambda: CALCULUS)
def cg(  # noqa: D417, PLR0913
    calculus: Calculus,
    A: Any,  # noqa: N803 (SciPy's names)
    b: TensorLike,
    x0: TensorLike | None = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,  # noqa: N803
    on_error: str = "nan",
) -> tuple[Tensor, conjugate.SolverInfo]:
    """Solve ``A @ x = b`` by conjugate gradients, for positive definite A.

    Only products with A are computed, also in gradients: the gradient with respect to b is a
    solution of the same system, and the gradient with respect to the arrays that define A, such as
    the fields of an implicit array, takes one product. Gradients are differentiable in turn.

    ``gt.linalg.cg`` returns symbolic arrays. ``implicit.linalg.cg`` returns JAX arrays, and
    ``jax.jit``, ``jax.grad`` and ``jax.vmap`` apply to its callers.

    Args:
        A: Symmetric and positive definite, real, (..., n, n): an array, an implicit array, a matrix
            of SciPy, an object with ``@``, or a function that maps an array of b's shape to the
            product. A function may use any arrays of the same library, and NumPy arrays.
        b: A vector (n,), or columns (..., n, k), each an independent system; all are solved
            together.
        x0: The initial guess, of b's shape; by default zeros.
        rtol: The relative tolerance: the search for a column ends once the norm of the residual ``b
            - A @ x`` is at most ``max(rtol * norm(b), atol)``.
        atol: The absolute tolerance.
        maxiter: The maximum number of steps, by default ``10 * n``.
        M: An approximate inverse of A, symmetric and positive definite, given like A.
        on_error: The result of a column that did not converge: ``"nan"`` for NaN, ``"raise"`` for
            an error when the function runs, ``"ignore"`` for the iterate of the last step.
            Solutions within gradients are NaN, unless it is ``"ignore"``. JAX programs raise no
            errors: ``implicit.linalg`` refuses ``"raise"``.

    Returns:
        x, of b's shape and the dtype of products, float64 for integers; and the steps, residual and
        convergence of each column, a ``SolverInfo``.

    Raises:
        ArgumentError: If A is neither a matrix nor a function, or ``on_error`` is unknown.
        ShapeError: If A is not square, or lengths do not fit.
        DTypeError: If A or b is complex.
        LinAlgError: When the program runs, with ``on_error="raise"``, if a column does not
            converge. The error is both NumPy's and a GraphcError.

    Example:
        >>> import numpy as np, graphc, graphc.tensor as gt
        >>> t = gt.implicit(graphc.implicit.Toeplitz, (4, 4), name="t", symmetric=True)
        >>> b, s = gt.vector("b", shape=(4,)), gt.scalar("s")
        >>> x, info = gt.linalg.cg(lambda v: t @ v + s * v, b, rtol=1e-12)
        >>> f = graphc.function([t, b, s], [x, info.steps, graphc.grad(x.sum(), s)], mode="NUMPY")
        >>> y, steps, grad = f(graphc.implicit.Toeplitz(np.array([2.0, 1, 0, 0])), np.ones(4), 1.0)
        >>> y.round(6).tolist(), int(steps), round(float(grad), 6)
        ([0.272727, 0.181818, 0.181818, 0.272727], 2, -0.214876)
        >>> import jax, jax.numpy as jnp
        >>> def total(t, b):
        ...     x, info = graphc.implicit.linalg.cg(t, b)
        ...     return x.sum()
        >>> t = graphc.implicit.Toeplitz(jnp.array([2.0, 1.0, 0.0, 0.0]))
        >>> [round(float(y), 3) for y in jax.grad(total)(t, jnp.ones(4)).column]
        [-0.4, -0.4, -0.32, -0.32]

    Source: Hestenes & Stiefel, J. Res. Natl. Bur. Stand. 49, 1952; with M, Saad, Iterative Methods
        for Sparse Linear Systems, 2003, algorithm 9.1.
    """
    return _solve(calculus, "cg", (A, b, x0, M), conjugate.Stopping(rtol, atol, maxiter, on_error))


@with_calculus(lambda: CALCULUS)
def bicgstab(  # noqa: PLR0913
    calculus: Calculus,
    A: Any,  # noqa: N803
    b: TensorLike,
    x0: TensorLike | None = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,  # noqa: N803
    on_error: str = "nan",
) -> tuple[Tensor, conjugate.SolverInfo]:
    """Solve ``A @ x = b`` by BiCGSTAB, for any square matrix A.

    Arguments, results and gradients are as for ``cg``; A and M need not be symmetric. A gradient
    solves the transposed system, whose products are gradients of A's products. Each step takes two
    products. Convergence is not certain for every regular matrix.

    Example:
        >>> import numpy as np, graphc.tensor as gt
        >>> a = np.array([[3.0, 1.0], [-1.0, 2.0]])
        >>> x, info = gt.linalg.bicgstab(a, [5.0, 3.0], rtol=1e-10)
        >>> x.eval(mode="NUMPY").round(6).tolist(), bool(info.converged.eval(mode="NUMPY"))
        ([1.0, 2.0], True)

    Source: van der Vorst, SIAM J. Sci. Stat. Comput. 13, 1992.
    """
    return _solve(
        calculus, "bicgstab", (A, b, x0, M), conjugate.Stopping(rtol, atol, maxiter, on_error)
    )


def _solve(
    calculus: Calculus, title: str, operands: Sequence[Any], stopping: conjugate.Stopping
) -> tuple[Any, conjugate.SolverInfo]:
    choices = ("nan", "raise", "ignore") if calculus is CALCULUS else ("nan", "ignore")
    operators.check_on_error(title, stopping.on_error, choices)
    search, symmetric = SEARCHES[title]
    problem = operators.system(calculus, title, *operands)
    x, info = conjugate.solution(calculus, search, problem, stopping, symmetric=symmetric)
    return UNCONVERGED(x, info.converged) if stopping.on_error == "raise" else x, info


@with_calculus(lambda: CALCULUS)
def lanczos(calculus: Calculus, A: Any, v0: TensorLike, steps: int) -> Tridiagonal:  # noqa: D417, N803
    """Compute an orthonormal basis in which a symmetric operator is tridiagonal.

    Each vector is orthogonalised twice against all previous ones, so that the basis is orthonormal
    up to rounding. Derivatives pass through each step.

    Args:
        A: Symmetric, real, (..., n, n), given as for ``cg``.
        v0: The initial vector (n,), or several as columns (..., n, k).
        steps: The number m of basis vectors, at most n.

    Returns:
        ``basis`` (n, m), with ``v0 / norm(v0)`` as its first column; ``alpha`` (m,) and ``beta``
        (m,), such that ``basis.T @ A @ basis`` has ``alpha`` on its diagonal and ``beta[:-1]``
        beside it. The last element of ``beta`` is the norm of the part of ``A @ basis[:, -1]`` that
        is orthogonal to the basis. For columns, leading axes (..., k) are added to each. Columns of
        zeros follow if the Krylov space has fewer dimensions.

    Raises:
        ArgumentError: If ``steps`` is not an integer from 1 to n.
        ShapeError, DTypeError: As for ``cg``.

    Example:
        >>> import numpy as np, graphc.tensor as gt
        >>> basis, alpha, beta = gt.linalg.lanczos(np.diag([1.0, 2.0, 3.0]), np.ones(3), 2)
        >>> alpha.eval(mode="NUMPY").round(6).tolist(), beta.eval(mode="NUMPY").round(6).tolist()
        ([2.0, 2.0], [0.816497, 0.57735])

    Source: Parlett, The Symmetric Eigenvalue Problem, 1998, chapter 13.
    """
    operators.check_integer("lanczos", "steps", steps, 1)
    problem = operators.system(calculus, "lanczos", A, v0, None, None)
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


@with_calculus(lambda: CALCULUS)
def eigsh(  # noqa: D417, PLR0913
    calculus: Calculus,
    A: Any,  # noqa: N803
    k: int = 6,
    *,
    which: str = "LM",
    v0: TensorLike | None = None,
    ncv: int | None = None,
    tol: float = 0.0,
    maxiter: int = 300,
    on_error: str = "nan",
) -> tuple[Tensor, Tensor]:
    """Return some of the largest or smallest eigenvalues of a symmetric operator, with vectors.

    The method is the Lanczos process with thick restarts. Eigenvalues have a first derivative, from
    one product, which is correct if they are distinct (in JAX in reverse mode); eigenvectors have
    none, and differentiating them is an error.

    Args:
        A: Symmetric, real, (n, n), given as for ``cg``.
        k: The number of eigenvalues.
        which: ``"LM"``, of the largest magnitude; ``"LA"``, the largest; ``"SA"``, the smallest.
        v0: The initial vector; required if A is a function, to define the number of rows. The
            function maps columns (n, m) to columns.
        ncv: The number of vectors in the basis, by default ``min(n, max(2 * k + 1, 20))``.
        tol: The largest norm of a residual ``A @ v - w * v``, relative to the eigenvalue w; 0 for
            the precision of the dtype.
        maxiter: The maximum number of restarts.
        on_error: The results if not all k eigenvalues converged: ``"nan"`` for NaN, ``"ignore"``
            for the pairs of the last step.

    Returns:
        Eigenvalues (k,) in rising order, and unit eigenvectors (n, k).

    Raises:
        ArgumentError: If ``which`` is unknown, ``k`` or ``ncv`` is out of range, or ``v0`` is
            missing.
        ShapeError: If the number of rows is not known.

    Example:
        >>> import numpy as np, graphc, graphc.tensor as gt
        >>> w, v = gt.linalg.eigsh(np.diag(np.arange(1.0, 50.0)), 2, which="LA")
        >>> w.eval(mode="NUMPY").round(6).tolist()
        [48.0, 49.0]

    Source: Wu & Simon, SIAM J. Matrix Anal. Appl. 22, 2000.
    """
    operators.check_on_error("eigsh", on_error)
    A = operators.as_operand(calculus, "eigsh", A)  # noqa: N806
    if v0 is None:
        n, dtype = operators.size_of(calculus, "eigsh", A, "v0")
        start = irregular(calculus.xp, n, 1, dtype)
    else:
        start = calculus.array(v0)
        if start.ndim != 1:
            raise ShapeError("eigsh: v0 is no vector.", "Give one vector.")
        start = calculus.xp.expand_dims(start, -1)
    problem = operators.system(calculus, "eigsh", A, start, None, None)
    return eigenpairs(
        calculus, problem.product, problem.b, k,
        which=which, ncv=ncv, tol=tol, maxiter=maxiter, on_error=on_error,
    )  # fmt: skip


@with_calculus(lambda: CALCULUS)
def stochastic_logdet(  # noqa: D417, PLR0913
    calculus: Calculus,
    A: Any,  # noqa: N803
    key: TensorLike,
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
    """Estimate ``log(det(A))`` of a positive definite operator, with error bounds.

    The trace of ``log(A)`` is the mean of ``z @ log(A) @ z`` over vectors z of random signs, each
    of which is computed by Gauss quadrature from a Lanczos process. The gradient is Hutchinson's
    estimate with the same z, ``(inv(A) @ z) @ dA @ z``, by conjugate gradients, and is
    differentiable in turn.

    Args:
        A: Symmetric and positive definite, real, (n, n), given as for ``cg``; a function maps
            columns (n, m) to columns.
        key: A key, ``gt.random.key(seed)`` or JAX's; equal keys give equal probes on every backend.
        n: The number of rows, if A is a function.
        probes: The number of vectors z, at least 2. The standard error is inversely proportional to
            its square root.
        steps: The number of Lanczos steps, products with all z together. The bases take ``probes *
            steps * n`` numbers.
        M: The result of ``low_rank_preconditioner``. The log-determinant is then the exact one of
            M's matrix plus an estimate for the preconditioned matrix, which is near the identity:
            both errors become smaller.
        lower: A lower bound of all eigenvalues of A, such as the variance of noise on its diagonal.
            With M, a bound of the eigenvalues of A after the preconditioner: by default 0.99, in
            float32 0.9. If A minus M's matrix is positive semidefinite, as for a pivoted Cholesky
            factor and its noise, these eigenvalues are at least 1, except for rounding.
        rtol: The tolerance of the solutions for gradients, as for ``cg``. JAX computes them for
            values too, unless it compiles.
        maxiter: The maximum number of steps of these solutions.
        on_error: The gradients if one of these solutions does not converge, as for ``cg``.

    Returns:
        ``value``, ``standard_error`` and ``quadrature_error``, scalars. ``value`` is above the mean
        of the quadratic forms by at most the quadrature error: Gauss quadrature of a logarithm is
        an upper bound, and Gauss-Radau quadrature with a node at ``lower`` a lower bound. So the
        true value is, except for rounding and with the probability of a normal distribution,
        between ``value - quadrature_error - 2 * standard_error`` and ``value + 2 *
        standard_error``.

    Raises:
        ArgumentError: If there are less than two probes or one step, or M is of another class.

    Example:
        >>> import numpy as np, graphc, graphc.tensor as gt
        >>> a = np.diag(np.arange(2.0, 102.0)) + 0.1
        >>> estimate = gt.linalg.stochastic_logdet(a, gt.random.key(0), lower=2.0)
        >>> f = graphc.function([], list(estimate), mode="NUMPY")
        >>> value, error, excess = f()
        >>> bool(abs(value - np.linalg.slogdet(a)[1]) < 3 * error + excess)
        True

    Source: Ubaru, Chen & Saad, SIAM J. Matrix Anal. Appl. 38, 2017; Golub & Meurant, Matrices,
        Moments and Quadrature, 2010.
    """
    operators.check_on_error("stochastic_logdet", on_error)
    stopping = conjugate.Stopping(rtol, 0.0, maxiter, on_error)
    _, estimate, _ = estimate_logdet(
        calculus, "stochastic_logdet", A, None, key, M,
        n=n, probes=probes, steps=steps, lower=lower, stopping=stopping,
    )  # fmt: skip
    return estimate


@with_calculus(lambda: CALCULUS)
def inv_quad_logdet(  # noqa: D417, PLR0913
    calculus: Calculus,
    A: Any,  # noqa: N803
    y: TensorLike,
    key: TensorLike,
    *,
    probes: int = 16,
    steps: int = 32,
    M: LowRankPreconditioner | None = None,  # noqa: N803
    lower: Any = None,
    rtol: float = 1e-5,
    maxiter: int | None = None,
    on_error: str = "nan",
) -> tuple[Tensor, StochasticLogdet, conjugate.SolverInfo]:
    """Return ``y @ inv(A) @ y`` and ``log(det(A))``, as in a Gaussian log-likelihood.

    The results are as for ``cg`` and ``stochastic_logdet``, but all systems are solved together:
    for y, and for the probes of the log-determinant's gradient. The gradients of both need no
    further solutions.

    Args:
        A: As for ``stochastic_logdet``.
        y: A vector (n,), or columns (n, k).
        key: As for ``stochastic_logdet``.
        probes: As for ``stochastic_logdet``.
        steps: As for ``stochastic_logdet``.
        M: As for ``stochastic_logdet``; also the preconditioner of all solutions.
        lower: As for ``stochastic_logdet``.
        rtol: The tolerance of all solutions, as for ``cg``.
        maxiter: The maximum number of steps of the solutions.
        on_error: The result if a solution does not converge: the value is NaN as well.

    Returns:
        The quadratic form, a scalar, or (k,) for columns; the log-determinant; and the convergence
        of the solutions, first for y, then for the probes.

    Raises:
        ArgumentError, ShapeError, DTypeError: As for ``cg`` and ``stochastic_logdet``.

    Example:
        >>> import numpy as np, graphc, graphc.tensor as gt
        >>> s, y = gt.scalar("s"), np.ones(50)
        >>> a = graphc.implicit.Toeplitz(np.r_[2.0, 1.0, np.zeros(48)])
        >>> quad, logdet, info = gt.linalg.inv_quad_logdet(
        ...     lambda v: gt.as_tensor(a) @ v + s * v, y, gt.random.key(0), rtol=1e-10
        ... )
        >>> f = graphc.function([s], [quad, graphc.grad(quad, s)], mode="NUMPY")
        >>> [round(float(x), 4) for x in f(1.0)]
        [10.1106, -2.0579]

    Source: Gardner et al., GPyTorch: Blackbox Matrix-Matrix Gaussian Process Inference, 2018.
    """
    operators.check_on_error("inv_quad_logdet", on_error)
    stopping = conjugate.Stopping(rtol, 0.0, maxiter, on_error)
    return estimate_logdet(
        calculus, "inv_quad_logdet", A, y, key, M,
        n=None, probes=probes, steps=steps, lower=lower, stopping=stopping,
    )  # fmt: skip


@with_calculus(lambda: CALCULUS)
def pivoted_cholesky(calculus: Calculus, A: Any, rank: int) -> Tensor:  # noqa: D417, N803
    """Return the partial Cholesky factor of a positive semidefinite matrix.

    Each step eliminates the largest pivot. Only the diagonal and ``rank`` rows of A are read.

    Args:
        A: Symmetric and positive semidefinite, real, (n, n): an array or an implicit array.
        rank: The number of pivots.

    Returns:
        L, (n, rank), such that ``A - L @ L.T`` is positive semidefinite and zero in the rows of the
        pivots. Columns of zeros follow once the remainder is zero.

    Raises:
        ArgumentError: If A is a function, or the rank is not an integer from 1 to n.

    Example:
        >>> import numpy as np, graphc.tensor as gt
        >>> a = np.array([[1.0, 2.0], [2.0, 4.0]])
        >>> gt.linalg.pivoted_cholesky(a, 1).eval(mode="NUMPY").tolist()
        [[1.0], [2.0]]

    Source: Harbrecht, Peters & Schneider, Appl. Numer. Math. 62, 2012.
    """
    operators.check_integer("pivoted_cholesky", "rank", rank, 1)
    A = operators.as_operand(calculus, "pivoted_cholesky", A)  # noqa: N806
    n, _ = operators.size_of(calculus, "pivoted_cholesky", A, "a matrix")
    if isinstance(n, int) and rank > n:
        raise ArgumentError(f"pivoted_cholesky: rank={rank} of {n} rows.", f"Give {n} at most.")
    return partial_factor(calculus, A, rank)  # type: ignore[no-any-return]


@with_calculus(lambda: CALCULUS)
def low_rank_preconditioner(  # noqa: D417
    calculus: Calculus,
    L: TensorLike,  # noqa: N803
    noise: TensorLike,
) -> LowRankPreconditioner:
    """Return a preconditioner of ``K + noise * I``, where ``L @ L.T`` approximates K.

    Args:
        L: (n, rank), real, such as ``pivoted_cholesky(K, rank)``.
        noise: A number above 0.

    Returns:
        An operand ``M`` of ``cg`` and ``stochastic_logdet``, of ``gt.linalg`` and of
        ``implicit.linalg`` unless L or the noise is symbolic. It is constant in gradients.

    Example:
        >>> import numpy as np, graphc.tensor as gt
        >>> m = gt.linalg.low_rank_preconditioner(np.ones((2, 1)), 2.0)
        >>> (m @ np.array([1.0, 3.0])).eval(mode="NUMPY").tolist()
        [0.0, 1.0]
    """
    return LowRankPreconditioner.of(calculus, L, noise)
