"""The Lanczos process: tridiagonal forms of symmetric operators, and outer eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.implicit.krylov.calculus import Calculus, Map
from graphc.implicit.treedef import dtype_of, lengths_of
from graphc.ir import dtype_name, numpy_dtype


class Tridiagonal(NamedTuple):
    """A symmetric operator in a basis of its Krylov space.

    Attributes:
        basis: Orthonormal columns, (..., n, m); the first is the normalised initial vector. Columns
            of zeros follow if the Krylov space has fewer dimensions.
        alpha: The diagonal, (..., m).
        beta: The off-diagonal, (..., m): the last element is the norm of the part of the next
            vector that is orthogonal to the basis.
    """

    basis: Any
    alpha: Any
    beta: Any


def tridiagonal(calculus: Calculus, product: Map, start: Any, steps: int) -> Tridiagonal:
    """Run Lanczos with full reorthogonalisation, from an initial vector in each column.

    Each new vector is orthogonalised twice against all previous ones (Parlett, The Symmetric
    Eigenvalue Problem, 1998, 6.9).

    Args:
        calculus: The library.
        product: Products of columns.
        start: The initial vectors, (..., n, k); no column is zero.
        steps: The number m of basis vectors.

    Returns:
        A basis (m, ..., n, k), ``alpha`` and ``beta`` (m, ..., k): the axis of the steps comes
        first.
    """
    xp = calculus.xp
    indices = xp.literal(np.arange(steps).reshape(steps, *[1] * start.ndim))
    eps = float(np.finfo(numpy_dtype(dtype_name(dtype_of(start)))).eps)

    def size(x: Any) -> Any:
        square = xp.sum(x * x, axis=-2, keepdims=True)
        return xp.where(square > 0, xp.sqrt(xp.where(square > 0, square, 1)), 0)

    def step(carry: Any, i: Any) -> Any:
        basis, q, first = carry
        basis = xp.where(xp.equal(indices, i), xp.expand_dims(q, 0), basis)
        w = product(q)
        scale = size(w)
        alpha = xp.sum(q * w, axis=-2, keepdims=True)
        for _ in range(2):
            along = xp.sum(basis * xp.expand_dims(w, 0), axis=-2, keepdims=True)
            w = w - xp.sum(along * basis, axis=0)
        beta = size(w)
        goes_on = beta > eps * scale
        q_next = xp.where(goes_on, w / xp.where(goes_on, beta, 1), 0)
        beta = xp.where(goes_on, beta, 0)
        first = xp.where(xp.equal(i, 0), alpha, first)
        # Beyond the end of the space, any eigenvalue within the spectrum is harmless.
        alpha = xp.where(size(q) > 0, alpha, first)
        return (basis, q_next, first), (xp.squeeze(alpha, -2), xp.squeeze(beta, -2))

    norm = size(start)
    empty = xp.zeros((steps, *xp.shape_of(start)), dtype=dtype_name(dtype_of(start)))
    init = (empty, start / norm, xp.zeros_like(norm))
    (basis, _, _), (alpha, beta) = calculus.scan(step, init, steps)
    return Tridiagonal(basis, alpha, beta)


def matrices(xp: Any, alpha: Any, beta: Any) -> Any:
    """Return tridiagonal matrices (..., m, m); the last element of beta is not read."""
    m: Any = lengths_of(alpha)[-1]
    dtype = numpy_dtype(dtype_name(dtype_of(alpha)))
    main, upper = [xp.literal(np.eye(m, k=k, dtype=dtype)) for k in (0, 1)]
    beside = xp.expand_dims(beta, -1) * upper
    return xp.expand_dims(alpha, -1) * main + beside + xp.swapaxes(beside, -1, -2)


def steps_last(xp: Any, x: Any) -> Any:
    """Move the axis of the steps, which comes first, to the end."""
    return xp.moveaxis(x, 0, -1)


# Outer eigenvalues.

KINDS = ("LM", "LA", "SA")
"""The eigenvalues of largest magnitude, the largest, and the smallest."""


@dataclass(frozen=True)
class _Process:
    """The Lanczos process, restarted with the best vectors.

    The matrix of the operator in the basis is computed by projection, so that a restart needs no
    special case (Stewart, SIAM J. Matrix Anal. Appl. 23, 2001; Wu & Simon, ibid. 22, 2000). The
    vectors of a basis are rows, one more than the matrix has.

    Attributes:
        calculus: The library.
        product: Products of columns (n, 1).
        n: The number of rows.
        dtype: The dtype.
        k: The number of wanted eigenpairs.
        which: The wanted eigenvalues, one of ``KINDS``.
        ncv: The number of vectors in the basis, more than k unless the basis is complete.
        tol: The largest residual, relative to the eigenvalue; 0 for the dtype's precision.
    """

    calculus: Calculus
    product: Map
    n: Any
    dtype: str
    k: int
    which: str
    ncv: int
    tol: Any

    @property
    def restart_size(self) -> int:
        """The number of vectors that a restart preserves."""
        k, ncv = self.k, self.ncv
        return min(k + (ncv - k) // 2, ncv - 1) if ncv > k else k

    @property
    def eps(self) -> float:
        """The spacing of floating numbers at 1."""
        return float(np.finfo(numpy_dtype(self.dtype)).eps)

    def pairs(self, start: Any, most: int) -> tuple[Any, Any, Any]:
        """Return the eigenpairs in rising order of values, and whether they converged.

        Args:
            start: The initial vector, (n, 1).
            most: The maximum number of restarts.
        """
        xp, ncv = self.calculus.xp, self.ncv
        first = xp.swapaxes(start / _norm(xp, start), 0, 1)
        basis = xp.concatenate([first, xp.zeros((ncv, self.n), dtype=self.dtype)], axis=0)
        state = self._extend(basis, xp.zeros((ncv, ncv), dtype=self.dtype), 0)
        if self.restart_size < ncv:
            state = self.calculus.while_loop(self._goes_on, self._restart, state, most)
        basis, projection, beta = state
        values, vectors, residuals = self._ritz_pairs(projection, beta)
        wanted = slice(ncv - self.k, ncv)
        own, vectors = xp.getitem(values, wanted), xp.getitem(vectors, (slice(None), wanted))
        order = xp.argsort(own)
        full = xp.matmul(xp.swapaxes(xp.getitem(basis, slice(0, ncv)), 0, 1), vectors)
        converged = self._has_converged(values, residuals)
        return xp.take(own, order, axis=0), xp.take(full, order, axis=1), converged

    def _orthogonalize(self, basis: Any, w: Any) -> tuple[Any, Any]:
        """Return the part of a vector that is orthogonal to a basis, and its other components."""
        xp = self.calculus.xp
        total: Any = 0
        for _ in range(2):
            along = xp.matmul(basis, w)
            w, total = w - xp.matmul(xp.swapaxes(basis, 0, 1), along), total + along
        return w, total

    def _extend(self, basis: Any, projection: Any, begin: int) -> tuple[Any, Any, Any]:
        """Return the complete basis, the operator in the basis, and the norm of the next vector."""
        xp, ncv, dtype = self.calculus.xp, self.ncv, self.dtype
        rows = xp.literal(np.arange(ncv + 1)[:, None])
        columns = xp.literal(np.arange(ncv)[None])

        def step(carry: Any, j: Any) -> Any:
            basis, projection, _ = carry
            i = j + begin
            q = xp.sum(xp.where(xp.equal(rows, i), basis, 0), axis=0)
            image = self.product(xp.expand_dims(q, -1))
            w, along = self._orthogonalize(basis, image)
            column = xp.getitem(along, slice(0, ncv))
            projection = xp.where(xp.equal(columns, i), column, projection)
            beta = _norm(xp, w)
            lost = beta <= self.eps * _norm(xp, image)
            # At the end of a Krylov space, continue with any vector outside of it.
            other, _ = self._orthogonalize(basis, irregular(xp, self.n, i + 2, dtype))
            w = xp.where(lost, other / _norm(xp, other), w / xp.where(lost, 1, beta))
            w, _ = self._orthogonalize(basis, w)
            row = xp.swapaxes(w / _norm(xp, w), 0, 1)
            basis = xp.where(xp.equal(rows, i + 1), row, basis)
            return (basis, projection, xp.where(lost, 0, beta)), xp.zeros((), dtype=dtype)

        init = (basis, projection, xp.zeros((), dtype=dtype))
        state, _ = self.calculus.scan(step, init, ncv - begin)
        return state  # type: ignore[no-any-return]

    def _ritz_pairs(self, projection: Any, beta: Any) -> tuple[Any, Any, Any]:
        """Return Ritz values, vectors and residuals, the wanted ones last."""
        xp, ncv = self.calculus.xp, self.ncv
        kind = numpy_dtype(self.dtype)
        upper = projection * xp.literal(np.triu(np.ones((ncv, ncv), kind)))
        symmetric = upper + xp.swapaxes(upper, 0, 1) - upper * xp.literal(np.eye(ncv, dtype=kind))
        values, vectors = self.calculus.eigh(symmetric)
        key = {"LA": values, "SA": -values, "LM": xp.abs(values)}[self.which]
        order = xp.argsort(key)
        values, vectors = xp.take(values, order, axis=0), xp.take(vectors, order, axis=1)
        return values, vectors, xp.abs(beta * xp.getitem(vectors, ncv - 1))

    def _has_converged(self, values: Any, residuals: Any) -> Any:
        """Return whether the wanted pairs have converged, by ARPACK's criterion."""
        xp = self.calculus.xp
        wanted = slice(self.ncv - self.k, self.ncv)
        size = xp.maximum(xp.abs(xp.getitem(values, wanted)), self.eps ** (2 / 3))
        bound = xp.maximum(xp.cast(self.tol, self.dtype), self.eps) * size
        return xp.all(xp.getitem(residuals, wanted) <= bound)

    def _goes_on(self, basis: Any, projection: Any, beta: Any) -> Any:
        values, _, residuals = self._ritz_pairs(projection, beta)
        return self.calculus.xp.logical_not(self._has_converged(values, residuals))

    def _restart(self, basis: Any, projection: Any, beta: Any) -> tuple[Any, ...]:
        xp, ncv, size, dtype = self.calculus.xp, self.ncv, self.restart_size, self.dtype
        values, vectors, _ = self._ritz_pairs(projection, beta)
        last = slice(ncv - size, ncv)
        best = xp.matmul(
            xp.swapaxes(xp.getitem(vectors, (slice(None), last)), 0, 1),
            xp.getitem(basis, slice(0, ncv)),
        )
        rest = xp.zeros((ncv - size, self.n), dtype=dtype)
        basis = xp.concatenate([best, xp.getitem(basis, slice(ncv, ncv + 1)), rest], axis=0)
        empty = xp.zeros((ncv - size,), dtype=dtype)
        diagonal = xp.concatenate([xp.getitem(values, last), empty], axis=0)
        identity = xp.literal(np.eye(ncv, dtype=numpy_dtype(dtype)))
        return self._extend(basis, xp.expand_dims(diagonal, -1) * identity, size)


def _norm(xp: Any, w: Any) -> Any:
    return xp.sqrt(xp.sum(w * w))


def irregular(xp: Any, n: Any, seed: Any, dtype: str) -> Any:
    """Return a column of numbers without a pattern, (n, 1), unlikely to be an eigenvector."""
    t = xp.cast(xp.arange(n), dtype)
    return xp.expand_dims(xp.cos(t * t * 0.6180339887 + t * xp.cast(seed, dtype)), -1)


def eigenpairs(  # noqa: PLR0913
    calculus: Calculus,
    product: Map,
    start: Any,
    k: int,
    *,
    which: str,
    ncv: int | None,
    tol: Any,
    maxiter: int,
    on_error: str,
) -> tuple[Any, Any]:
    """Return some eigenpairs; the values have derivatives."""
    xp = calculus.xp
    n = lengths_of(start)[-2]
    if which not in KINDS:
        raise ArgumentError(
            f"eigsh: unknown which={which!r}.", f"Use one of {', '.join(map(repr, KINDS))}."
        )
    if not isinstance(k, int) or k < 1 or (n is not None and k > n):
        raise ArgumentError(
            f"eigsh: k={k!r} of {n} eigenvalues.", "Give an integer from 1 to the number of rows."
        )
    if n is None:
        raise ShapeError("eigsh: the number of rows is not known.", "Use specify_shape on v0.")
    ncv = min(n, max(2 * k + 1, 20)) if ncv is None else ncv
    if not (isinstance(ncv, int) and (k < ncv <= n or k == ncv == n)):
        raise ArgumentError(f"eigsh: ncv={ncv!r}.", f"Give an integer from {k + 1} to {n}.")
    constant = calculus.freeze(product, start)
    process = _Process(calculus, constant, n, dtype_name(dtype_of(start)), k, which, ncv, tol)
    values, vectors, converged = process.pairs(calculus.constant(start), maxiter)
    if on_error == "nan":
        values = xp.where(converged, values, float("nan"))
        vectors = xp.where(converged, vectors, float("nan"))
    problem = "eigsh: eigenvectors have no derivative here, and eigenvalues no second one."
    # The derivative of an eigenvalue is the derivative of v @ A @ v for constant v.
    image = product(calculus.constant(vectors))
    moving = calculus.zeros_with_gradient_once(image, vectors, problem)
    return calculus.constant(values) + moving, calculus.forbid_derivative(vectors, image, problem)
