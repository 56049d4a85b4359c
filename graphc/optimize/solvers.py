"""The four functions of SciPy that find solutions: how each is called, and its methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.grad.reverse import grad
from graphc.tensor.core.tensor import Tensor

Search = Callable[..., tuple[Any, bool]]
"""A call of SciPy. It takes a function that compiles outputs, the number of derivatives among them,
the start, the ends of a bracket, and keywords; it returns the solution and SciPy's success."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method: the derivatives that it can use, those it needs, and whether it needs two ends."""

    uses: int = 0
    needs: int = 0
    between: bool = False


@dataclass(frozen=True, slots=True)
class Solver:
    """One of SciPy's functions.

    Attributes:
        search: A call of the function.
        residual: The array that is zero at a solution, from the graph's value and the variable.
        rank: The axes of the value that SciPy expects, each derivative having one more; None where
            value and derivatives are numbers.
        methods: The methods, by SciPy's names in lower case.
    """

    search: Search
    residual: Callable[[Tensor, Tensor], Tensor]
    rank: int | None
    methods: Mapping[str, Method]


def _scipy() -> Any:
    from scipy import optimize

    return optimize


def _gradient(value: Tensor, x: Tensor) -> Tensor:
    return grad(value, x, disconnected_inputs="ignore")


def _minimize(outputs: Any, order: int, start: Any, ends: Any, **keywords: Any) -> Any:
    result = _scipy().minimize(
        # The value and its gradient come from one evaluation.
        outputs(*range(min(order, 1) + 1)),
        start.ravel().astype(np.float64),
        jac=order > 0 or None,
        hess=outputs(2) if order > 1 else None,
        **keywords,
    )
    return result.x, result.success


def _minimize_scalar(outputs: Any, order: int, start: Any, ends: Any, **keywords: Any) -> Any:
    bounded = keywords["method"] == "bounded"
    if ends is not None:
        keywords["bounds" if bounded else "bracket"] = tuple(map(float, ends))
    try:
        result = _scipy().minimize_scalar(outputs(0), **keywords)
    except (RuntimeError, ValueError):
        if bounded and ends is None:
            raise
        # No minimum lies between the ends of the bracket, or they are out of order.
        return np.nan, False
    return result.x, result.success


def _root(outputs: Any, order: int, start: Any, ends: Any, **keywords: Any) -> Any:
    start = start.ravel().astype(np.float64)
    result = _scipy().root(outputs(*range(order + 1)), start, jac=order > 0 or None, **keywords)
    return result.x, result.success


def _root_scalar(outputs: Any, order: int, start: Any, ends: Any, **keywords: Any) -> Any:
    names = ("f", "fprime", "fprime2")
    functions = {name: outputs(i) for i, name in enumerate(names[: order + 1])}
    bracket = None if ends is None else [float(x) for x in ends]
    if bracket:
        low, high = (float(functions["f"](x)) for x in bracket)
        if not low * high <= 0:
            return np.nan, False
    result = _scipy().root_scalar(**functions, x0=float(start), bracket=bracket, **keywords)
    return result.root, result.converged


def _methods(names: str, *args: Any, **kwargs: Any) -> dict[str, Method]:
    return dict.fromkeys(names.split(), Method(*args, **kwargs))


SOLVERS: dict[str, Solver] = {
    "minimize": Solver(
        _minimize,
        _gradient,
        0,
        {
            **_methods("nelder-mead powell cobyla cobyqa"),
            **_methods("cg bfgs l-bfgs-b tnc slsqp", uses=1),
            **_methods("newton-cg", uses=2, needs=1),
            **_methods("trust-constr", uses=2),
            **_methods("dogleg trust-ncg trust-exact trust-krylov", uses=2, needs=2),
        },
    ),
    "minimize_scalar": Solver(
        _minimize_scalar,
        _gradient,
        None,
        {**_methods("brent golden"), **_methods("bounded", between=True)},
    ),
    "root": Solver(
        _root,
        lambda value, x: value,
        1,
        {
            **_methods("hybr lm", uses=1),
            **_methods("broyden1 broyden2 anderson linearmixing diagbroyden excitingmixing"),
            **_methods("krylov df-sane"),
        },
    ),
    "root_scalar": Solver(
        _root_scalar,
        lambda value, x: value,
        None,
        {
            **_methods("secant", uses=2),
            **_methods("newton", uses=2, needs=1),
            **_methods("halley", uses=2, needs=2),
            **_methods("bisect brentq brenth ridder toms748", uses=2, between=True),
        },
    ),
}
"""SciPy's functions by name."""
