"""Minima of graphs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.errors import ArgumentError, ShapeError
from graphc.grad.jacobian import jacobian
from graphc.grad.reverse import grad
from graphc.ir import here, where
from graphc.optimize.problem import (
    Problem,
    Variables,
    as_value,
    chosen_method,
    scipy_optimize,
    solved,
)
from graphc.optimize.settings import Settings
from graphc.tensor.elementwise import cast
from graphc.tensor.join import stack
from graphc.tensor.shape import lengths, reshape
from graphc.tensor.tensor import Tensor

__all__ = ["Minimize", "MinimizeScalar", "minimize", "minimize_scalar"]

WITHOUT_SLOPES = ("nelder-mead", "powell", "cobyla", "cobyqa")
WITH_SLOPES = ("cg", "bfgs", "l-bfgs-b", "tnc", "slsqp")
NEEDS_CURVATURE = ("dogleg", "trust-ncg", "trust-exact", "trust-krylov")
WITH_CURVATURE = ("newton-cg", "trust-constr", *NEEDS_CURVATURE)
METHODS = (*WITHOUT_SLOPES, *WITH_SLOPES, *WITH_CURVATURE)


class Minimize(Problem):
    """Where an array's value is least, near where the search starts."""

    __slots__ = ()

    def residual(self, value: Tensor, x: Tensor) -> Tensor:
        """At a minimum the slope is zero."""
        return grad(value, x, disconnected_inputs="ignore")  # type: ignore[no-any-return]

    def search(
        self, start: np.ndarray[Any, Any], given: Sequence[Any], numbers: Sequence[Any]
    ) -> tuple[Any, bool]:
        outputs = len(self.graph.outputs)
        value = self.function(0, start, given, to=min(outputs, 2))
        bent = self.function(2, start, given) if outputs > 2 else None

        def flat(x: Any) -> Any:
            found = value(x)
            return (found[0], found[1].ravel()) if outputs > 1 else found

        found = scipy_optimize().minimize(
            flat,
            start.ravel().astype(np.float64),
            method=self.method,
            jac=outputs > 1 or None,
            hess=bent,
            **self.settings.given,
        )
        return found.x, bool(found.success)


class MinimizeScalar(Minimize):
    """Where the value of a function of one number is least."""

    __slots__ = ()

    def search(
        self, start: np.ndarray[Any, Any], given: Sequence[Any], numbers: Sequence[Any]
    ) -> tuple[Any, bool]:
        value = self.function(0, start, given)
        name = "bounds" if self.method == "bounded" else "bracket"
        ends = {name: tuple(map(float, numbers[0]))} if numbers else {}
        try:
            found = scipy_optimize().minimize_scalar(
                value, method=self.method, **ends, **self.settings.given
            )
        except (RuntimeError, ValueError):
            if self.method == "bounded" and not ends:
                raise
            # No minimum is between the numbers of a bracket, or they are in no order.
            return np.nan, False
        return found.x, bool(found.success)


def minimize(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    objective: Any,
    x: Any,
    method: str = "BFGS",
    jac: bool = True,
    hess: bool = False,
    use_vectorized_jac: bool = False,
    optimizer_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Any, Tensor]:
    """Where a scalar is least, found by ``scipy.optimize.minimize``.

    The search runs in NumPy on every backend, one for each element of a batch. It starts from the
    value that ``x`` has. The solution has a gradient by everything else that the objective depends
    on, by the implicit function theorem: it holds where the objective's slope is zero and its
    Hessian can be inverted, so not where a bound or a constraint is active. By where the search
    starts it is zero.

    Args:
        objective: A real floating scalar.
        x: The array of its graph to search for, of any shape, or a list of several.
        method: SciPy's name of a method.
        jac: Whether the method is given the gradient, if it uses one; otherwise SciPy takes finite
            differences.
        hess: Whether it is given the Hessian, and the gradient with it.
        use_vectorized_jac: Derivatives are vectorised in any case; the argument is PyTensor's.
        optimizer_kwargs: What else SciPy's function is given: ``tol``, ``bounds``, ``options``.

    Returns:
        The solution, as ``x`` is given, and whether SciPy reports success, a bool scalar. Without
        success the solution is where the search ended.

    Raises:
        ArgumentError: The objective does not depend on ``x``; a method that there is not, or that
            uses no Hessian.
        ShapeError: The objective is no scalar.
        DTypeError: The objective or ``x`` is not real floating.

    Source: for the gradient, Krantz & Parks, The Implicit Function Theorem, 2002.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, a = gt.vector("x"), gt.scalar("a")
        >>> solution, success = gt.optimize.minimize(((x - a) ** 2).sum(), x)
        >>> f = graphc.function([x, a], [solution, graphc.grad(solution.sum(), a)], mode="NUMPY")
        >>> [y.round(6).tolist() for y in f([0.0, 1.0], 3.0)]
        [[3.0, 3.0], 2.0]
    """
    name = chosen_method("minimize", method, METHODS)
    _check_derivatives(name, jac=jac, hess=hess)
    variables, value = Variables.of("minimize", x, _scalar("minimize", objective))
    outputs = [value]
    if hess or (jac and name not in WITHOUT_SLOPES):
        slope = grad(value, variables.variable, disconnected_inputs="ignore")
        outputs.append(slope)
        if hess:
            n = math.prod(lengths(variables.variable))
            bent = jacobian(slope, variables.variable, disconnected_inputs="ignore")
            outputs.append(reshape(bent, (n, n)))
    settings = Settings("minimize", optimizer_kwargs)
    solution, success = solved(Minimize, variables, outputs, name, settings)
    return variables.unpacked(solution), success


def minimize_scalar(
    objective: Any,
    x: Any,
    method: str = "brent",
    bracket: Any = None,
    bounds: Any = None,
    optimizer_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Tensor, Tensor]:
    """Where a function of one number is least, found by ``scipy.optimize.minimize_scalar``.

    The gradient and what runs where are as for ``minimize``; no value of ``x`` is used.

    Args:
        objective: A real floating scalar.
        x: The scalar of its graph to search for.
        method: ``"brent"``, ``"golden"`` or ``"bounded"``.
        bracket: For the first two, two or three numbers, also symbolic, that lie about the minimum.
        bounds: For the third, two numbers, also symbolic, between which the minimum lies.
        optimizer_kwargs: What else SciPy's function is given: ``tol``, ``options``.

    Returns:
        The solution, and whether SciPy reports success, a bool scalar. Where no minimum lies
        between the numbers of a bracket, the solution is NaN.

    Raises:
        ArgumentError: As for ``minimize``; a bracket with ``"bounded"``, or bounds without it.
        ShapeError: The objective or ``x`` is no scalar.
        DTypeError: The objective or ``x`` is not real floating.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, a = gt.scalar("x"), gt.scalar("a")
        >>> solution, _ = gt.optimize.minimize_scalar((x**2 - a) ** 2 - x, x, bracket=(0.0, 2.0))
        >>> f = graphc.function([x, a], solution, mode="NUMPY", on_unused_input="ignore")
        >>> round(float(f(0.0, 1.0)), 4)
        1.1072
    """
    name = chosen_method("minimize_scalar", method, ("brent", "golden", "bounded"))
    variables, value = Variables.of("minimize_scalar", x, _scalar("minimize_scalar", objective))
    if variables.start.ndim:
        raise ShapeError(
            f"minimize_scalar: {x!r} is no scalar.", "Use gt.optimize.minimize.", where(here())
        )
    wrong = bracket if name == "bounded" else bounds
    if wrong is not None:
        raise ArgumentError(
            f"minimize_scalar: method={method!r} with {'bracket' if bounds is None else 'bounds'}.",
            "Give bounds= to 'bounded', and bracket= to the others.",
            where(here()),
        )
    if name == "bounded" and bounds is None and "bounds" not in (optimizer_kwargs or {}):
        raise ArgumentError(
            "minimize_scalar: method='bounded' without bounds.",
            "Give bounds=(a, b).",
            where(here()),
        )
    ends = bounds if name == "bounded" else bracket
    numbers = [] if ends is None else [stack([cast(one, "float64") for one in ends])]
    settings = Settings("minimize_scalar", optimizer_kwargs)
    return solved(MinimizeScalar, variables, [value], name, settings, numbers)


def _check_derivatives(method: str, *, jac: bool, hess: bool) -> None:
    title = f"minimize: method={method!r}"
    if hess and method not in WITH_CURVATURE:
        remedy = f"Leave out hess=True, or use one of {', '.join(WITH_CURVATURE)}."
        raise ArgumentError(f"{title} uses no Hessian.", remedy, where(here()))
    if method in NEEDS_CURVATURE and not hess:
        raise ArgumentError(f"{title} needs the Hessian.", "Give hess=True.", where(here()))
    if method in {"newton-cg", *NEEDS_CURVATURE} and not jac:
        raise ArgumentError(f"{title} needs the gradient.", "Leave out jac=False.", where(here()))


def _scalar(title: str, objective: Any) -> Tensor:
    made = as_value(title, objective)
    if made.ndim:
        raise ShapeError(
            f"{title} of {made!r}, which is no scalar.",
            "Reduce it first, as with .sum() or .mean().",
            where(here()),
        )
    return made
