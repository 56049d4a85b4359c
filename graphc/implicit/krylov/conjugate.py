"""Conjugate gradients and their kin: each step multiplies all columns at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from graphc.implicit.krylov.calculus import Calculus, Map
from graphc.implicit.krylov.operators import System
from graphc.implicit.treedef import dtype_of
from graphc.ir import dtype_name

DRIFT = 2
"""How much larger than the tolerance a residual may be that was computed anew: those that steps
keep drift away from it by rounding."""


class SolverInfo(NamedTuple):
    """How an iterative solution was found, for each right-hand side.

    Attributes:
        steps: The number of steps, int32.
        residual: The norm of ``b - A @ x``, computed anew after the last step.
        converged: Whether that is within the tolerance.
    """

    steps: Any
    residual: Any
    converged: Any


@dataclass(frozen=True)
class Stopping:
    """When the search for a column ends, and what becomes of it then.

    Attributes:
        rtol: The norm of the residual, relative to that of the right-hand side.
        atol: The norm of the residual.
        maxiter: The most steps; None for ten times the number of rows.
        on_error: ``"nan"`` for NaN in a column that did not converge, ``"ignore"`` for what it is.
    """

    rtol: Any
    atol: Any
    maxiter: Any
    on_error: str

    def limited(self, xp: Any, b: Any) -> Stopping:
        """With a number of steps."""
        return self if self.maxiter is not None else replace(self, maxiter=10 * xp.shape_of(b)[-2])

    def bound(self, xp: Any, b: Any) -> Any:
        """The largest square of a residual's norm at which the search ends, for each column."""
        relative = xp.multiply(dot(xp, b, b), self.rtol**2)
        return xp.maximum(relative, xp.cast(self.atol**2, dtype_name(dtype_of(b))))


def dot(xp: Any, a: Any, b: Any) -> Any:
    """The inner products of columns, (..., 1, k)."""
    return xp.sum(a * b, axis=-2, keepdims=True)


def _ratio(xp: Any, where: Any, a: Any, b: Any) -> Any:
    """a / b where that is wanted and b is not zero; else 0."""
    where = xp.logical_and(where, xp.not_equal(b, 0))
    return xp.where(where, a / xp.where(where, b, 1), 0)


def unchanged(x: Any) -> Any:
    return x


Search = Callable[[Calculus, Map, Map, Any, Any, Stopping], tuple[Any, Any]]


def conjugate_gradients(
    calculus: Calculus, product: Map, near: Map, b: Any, start: Any, stopping: Stopping
) -> tuple[Any, Any]:
    """Preconditioned conjugate gradients (Saad, Iterative Methods, 2003, algorithm 9.1).

    A direction along which the matrix is not positive ends the search of its column.

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
"""The cosine of the angle between a residual and the one it is tested by, below which it takes its
place."""


def stabilized_biconjugate_gradients(
    calculus: Calculus, product: Map, near: Map, b: Any, start: Any, stopping: Stopping
) -> tuple[Any, Any]:
    """BiCGSTAB, preconditioned from the right (van der Vorst, SIAM J. Sci. Stat. Comput. 13, 1992).

    Returns:
        The solutions, and the number of steps of each column, (..., 1, k).
    """
    xp = calculus.xp
    bound = stopping.bound(xp, b)

    def step(  # noqa: PLR0913, PLR0917
        x: Any, r: Any, test: Any, p: Any, rho: Any, active: Any, steps: Any
    ) -> tuple[Any, ...]:
        direction = near(p)
        v = product(direction)
        alpha = _ratio(xp, active, rho, dot(xp, test, v))
        s = r - alpha * v
        other = near(s)
        t = product(other)
        omega = _ratio(xp, active, dot(xp, t, s), dot(xp, t, t))
        x = x + alpha * direction + omega * other
        steps = steps + xp.cast(active, "int32")
        moved = xp.logical_or(xp.not_equal(alpha, 0), xp.not_equal(omega, 0))
        r = s - omega * t
        square = dot(xp, r, r)
        following = dot(xp, test, r)
        beta = _ratio(xp, active, following, rho) * _ratio(xp, active, alpha, omega)
        p = r + beta * (p - omega * v)
        # Where the residual is orthogonal to what tests it, the search begins anew.
        lost = xp.abs(following) <= RESTART * xp.sqrt(square * dot(xp, test, test))
        test, p = xp.where(lost, r, test), xp.where(lost, r, p)
        following = xp.where(lost, square, following)
        active = xp.logical_and(xp.logical_and(active, moved), square > bound)
        return x, r, test, p, following, active, steps

    r = b - product(start)
    square = dot(xp, r, r)
    init = (start, r, r, r, square, square > bound, xp.cast(xp.zeros_like(bound), "int32"))
    x, *_, steps = calculus.while_loop(
        lambda x, r, test, p, rho, active, steps: xp.any(active), step, init, stopping.maxiter
    )
    return x, steps


def solution(
    calculus: Calculus, search: Search, system: System, stopping: Stopping, *, symmetric: bool
) -> tuple[Any, SolverInfo]:
    """The solution of a system, with its derivatives, and how it was found."""
    xp = calculus.xp
    stopping = stopping.limited(xp, system.b)

    def method(product: Map, near: Map | None, b: Any, start: Any) -> tuple[Any, ...]:
        x, steps = search(calculus, product, near or unchanged, b, start, stopping)
        left = b - product(x)
        square = dot(xp, left, left)
        converged = square <= DRIFT**2 * stopping.bound(xp, b)
        if stopping.on_error == "nan":
            x = xp.where(converged, x, float("nan"))
        return x, steps, xp.sqrt(square), converged

    sides = (system.b, system.start)
    x, *rest = calculus.solved(method, system.product, system.precondition, sides, symmetric)
    axes = (-2, -1) if system.is_vector else -2
    steps, residual, converged = [xp.squeeze(y, axes) for y in rest]
    info = SolverInfo(steps, calculus.constant(residual), converged)
    return xp.squeeze(x, -1) if system.is_vector else x, info
