"""Conjugate gradients and BiCGSTAB: each step multiplies all columns at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from graphc.implicit.krylov.calculus import Calculus, Map
from graphc.implicit.krylov.operators import System
from graphc.implicit.treedef import dtype_of
from graphc.ir import dtype_name

DRIFT = 2
"""The factor by which the true residual may exceed the tolerance: the residual that steps update
drifts away from the true one by rounding."""


class SolverInfo(NamedTuple):
    """The convergence of an iterative solution, for each right-hand side.

    Attributes:
        steps: The number of steps, int32.
        residual: The norm of ``b - A @ x``, recomputed after the last step.
        converged: Whether the residual is within the tolerance.
    """

    steps: Any
    residual: Any
    converged: Any


@dataclass(frozen=True)
class Stopping:
    """The criterion that ends the search for a column, and the result without convergence.

    Attributes:
        rtol: The tolerance for the norm of the residual, relative to the norm of b.
        atol: The absolute tolerance for the norm of the residual.
        maxiter: The maximum number of steps; None for ten times the number of rows.
        on_error: ``"ignore"`` for the last iterate of a column that did not converge, else NaN.
    """

    rtol: Any
    atol: Any
    maxiter: Any
    on_error: str

    def with_maxiter(self, xp: Any, b: Any) -> Stopping:
        """Return the criterion with a maximum number of steps, by default ``10 * n``."""
        return self if self.maxiter is not None else replace(self, maxiter=10 * xp.shape_of(b)[-2])

    def bound(self, xp: Any, b: Any) -> Any:
        """Return the squared norm of the residual that ends the search, for each column."""
        relative = xp.multiply(dot(xp, b, b), self.rtol**2)
        return xp.maximum(relative, xp.cast(self.atol**2, dtype_name(dtype_of(b))))


def dot(xp: Any, a: Any, b: Any) -> Any:
    """Return the inner products of columns, (..., 1, k)."""
    return xp.sum(a * b, axis=-2, keepdims=True)


def _ratio(xp: Any, where: Any, a: Any, b: Any) -> Any:
    """Return ``a / b`` where the condition holds and b is not zero, else 0."""
    where = xp.logical_and(where, xp.not_equal(b, 0))
    return xp.where(where, a / xp.where(where, b, 1), 0)


def identity(x: Any) -> Any:
    return x


Search = Callable[[Calculus, Map, Map, Any, Any, Stopping], tuple[Any, Any]]


def conjugate_gradients(
    calculus: Calculus, product: Map, near: Map, b: Any, start: Any, stopping: Stopping
) -> tuple[Any, Any]:
    """Solve by preconditioned conjugate gradients.

    The search of a column ends at a direction along which the matrix is not positive. Source: Saad,
    Iterative Methods for Sparse Linear Systems, 2003, algorithm 9.1.

    Returns:
        The solutions, and the number of steps of each column, (..., 1, k).
    """
    xp = calculus.xp
    bound = stopping.bound(xp, b)

    def step(x: Any, r: Any, p: Any, rz: Any, active: Any, steps: Any) -> tuple[Any, ...]:
        q = product(p)
        curvature = dot(xp, p, q)
        active = xp.logical_and(active, curvature > 0)
        alpha = _ratio(xp, active, rz, curvature)
        x, r = x + alpha * p, r - alpha * q
        z = near(r)
        following = dot(xp, r, z)
        p = z + _ratio(xp, active, following, rz) * p
        steps = steps + xp.cast(active, "int32")
        active = xp.logical_and(active, dot(xp, r, r) > bound)
        return x, r, p, following, active, steps

    r = b - product(start)
    z = near(r)
    active = dot(xp, r, r) > bound
    init = (start, r, z, dot(xp, r, z), active, xp.cast(xp.zeros_like(bound), "int32"))
    x, *_, steps = calculus.while_loop(
        lambda x, r, p, rz, active, steps: xp.any(active), step, init, stopping.maxiter
    )
    return x, steps


RESTART = 1e-8
"""BiCGSTAB restarts, with the residual as shadow residual, where the cosine of the angle between
the two is smaller."""


def stabilized_biconjugate_gradients(
    calculus: Calculus, product: Map, near: Map, b: Any, start: Any, stopping: Stopping
) -> tuple[Any, Any]:
    """Solve by BiCGSTAB, preconditioned from the right.

    Source: van der Vorst, SIAM J. Sci. Stat. Comput. 13, 1992.

    Returns:
        The solutions, and the number of steps of each column, (..., 1, k).
    """
    xp = calculus.xp
    bound = stopping.bound(xp, b)

    def step(  # noqa: PLR0913, PLR0917
        x: Any, r: Any, shadow: Any, p: Any, rho: Any, active: Any, steps: Any
    ) -> tuple[Any, ...]:
        direction = near(p)
        v = product(direction)
        alpha = _ratio(xp, active, rho, dot(xp, shadow, v))
        s = r - alpha * v
        correction = near(s)
        t = product(correction)
        omega = _ratio(xp, active, dot(xp, t, s), dot(xp, t, t))
        x = x + alpha * direction + omega * correction
        steps = steps + xp.cast(active, "int32")
        changed = xp.logical_or(xp.not_equal(alpha, 0), xp.not_equal(omega, 0))
        r = s - omega * t
        square = dot(xp, r, r)
        next_rho = dot(xp, shadow, r)
        beta = _ratio(xp, active, next_rho, rho) * _ratio(xp, active, alpha, omega)
        p = r + beta * (p - omega * v)
        # Restart where the residual is orthogonal to the shadow residual.
        lost = xp.abs(next_rho) <= RESTART * xp.sqrt(square * dot(xp, shadow, shadow))
        shadow, p = xp.where(lost, r, shadow), xp.where(lost, r, p)
        next_rho = xp.where(lost, square, next_rho)
        active = xp.logical_and(xp.logical_and(active, changed), square > bound)
        return x, r, shadow, p, next_rho, active, steps

    r = b - product(start)
    square = dot(xp, r, r)
    init = (start, r, r, r, square, square > bound, xp.cast(xp.zeros_like(bound), "int32"))
    x, *_, steps = calculus.while_loop(
        lambda x, r, shadow, p, rho, active, steps: xp.any(active), step, init, stopping.maxiter
    )
    return x, steps


def solution(
    calculus: Calculus, search: Search, system: System, stopping: Stopping, *, symmetric: bool
) -> tuple[Any, SolverInfo]:
    """Return the solution of a system, with its derivatives, and its convergence."""
    xp = calculus.xp
    stopping = stopping.with_maxiter(xp, system.b)

    def method(product: Map, near: Map | None, b: Any, start: Any) -> tuple[Any, ...]:
        x, steps = search(calculus, product, near or identity, b, start, stopping)
        residual = b - product(x)
        square = dot(xp, residual, residual)
        converged = square <= DRIFT**2 * stopping.bound(xp, b)
        if stopping.on_error != "ignore":
            x = xp.where(converged, x, float("nan"))
        return x, steps, xp.sqrt(square), converged

    sides = (system.b, system.start)
    x, *rest = calculus.solve(method, system.product, system.precondition, sides, symmetric)
    axes = (-2, -1) if system.is_vector else -2
    steps, norm, converged = [xp.squeeze(y, axes) for y in rest]
    info = SolverInfo(steps, calculus.constant(norm), converged)
    return xp.squeeze(x, -1) if system.is_vector else x, info
