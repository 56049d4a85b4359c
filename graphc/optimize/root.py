"""Roots of graphs."""

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

__all__ = ["Root", "RootScalar", "root", "root_scalar"]

WITH_SLOPES = ("hybr", "lm")
METHODS = (
    *WITH_SLOPES, "broyden1", "broyden2", "anderson", "linearmixing", "diagbroyden",
    "excitingmixing", "krylov", "df-sane",
)  # fmt: skip
BRACKETED = ("bisect", "brentq", "brenth", "ridder", "toms748")
OPEN = ("secant", "newton", "halley")


class Root(Problem):
    """Where all of an array's elements are zero."""

    __slots__ = ()

    def residual(self, value: Tensor, x: Tensor) -> Tensor:
        """The equations themselves."""
        return value

    def search(
        self, start: np.ndarray[Any, Any], given: Sequence[Any], numbers: Sequence[Any]
    ) -> tuple[Any, bool]:
        outputs = len(self.graph.outputs)
        value = self.function(0, start, given, to=outputs)

        def flat(x: Any) -> Any:
            found = value(x)
            return (found[0].ravel(), found[1]) if outputs > 1 else found.ravel()

        found = scipy_optimize().root(
            flat,
            start.ravel().astype(np.float64),
            method=self.method,
            jac=outputs > 1 or None,
            **self.settings.given,
        )
        return found.x, bool(found.success)


class RootScalar(Root):
    """Where a function of one number is zero."""

    __slots__ = ()

    def search(
        self, start: np.ndarray[Any, Any], given: Sequence[Any], numbers: Sequence[Any]
    ) -> tuple[Any, bool]:
        functions = [self.function(i, start, given) for i in range(len(self.graph.outputs))]
        bracket = [float(x) for pair in numbers for x in pair]
        if bracket and not _has_a_root(*(float(functions[0](x)) for x in bracket)):
            return np.nan, False
        names = ("f", "fprime", "fprime2")[: len(functions)]
        found = scipy_optimize().root_scalar(
            **dict(zip(names, functions, strict=True)),
            method=self.method,
            x0=float(start),
            bracket=bracket or None,
            **self.settings.given,
        )
        return found.root, bool(found.converged)


def _has_a_root(low: float, high: float) -> bool:
    """Whether a continuous function of these values at its ends has a root between them."""
    return low * high <= 0


def root(
    equations: Any,
    variables: Any,
    method: str = "hybr",
    jac: bool = True,
    use_vectorized_jac: bool = False,
    optimizer_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Any, Tensor]:
    """Where all elements of an array are zero, found by ``scipy.optimize.root``.

    The search runs in NumPy on every backend, one for each element of a batch. It starts from the
    value that ``variables`` have. The root has a gradient by everything else that the equations
    depend on, by the implicit function theorem, where their Jacobian can be inverted; by where the
    search starts it is zero.

    Args:
        equations: A real floating array, with as many elements as the variables.
        variables: The array of its graph to search for, or a list of several.
        method: SciPy's name of a method.
        jac: Whether the method is given the Jacobian, if it uses one; otherwise SciPy takes finite
            differences.
        use_vectorized_jac: Jacobians are vectorised in any case; the argument is PyTensor's.
        optimizer_kwargs: What else SciPy's function is given: ``tol``, ``options``.

    Returns:
        The root, as ``variables`` are given, and whether SciPy reports success, a bool scalar.
        Without success it is where the search ended.

    Raises:
        ArgumentError: The equations do not depend on the variables; a method that there is not.
        ShapeError: There are more or fewer equations than variables.
        DTypeError: The equations or variables are not real floating.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, a = gt.vector("x", shape=(2,)), gt.scalar("a")
        >>> equations = gt.stack([x[0] + x[1] - a, x[0] - x[1] ** 2])
        >>> solution, success = gt.optimize.root(equations, x)
        >>> slopes = graphc.jacobian(solution, a)
        >>> f = graphc.function([x, a], [solution, slopes], mode="NUMPY")
        >>> [y.round(6).tolist() for y in f([1.0, 1.0], 6.0)]
        [[4.0, 2.0], [0.8, 0.2]]
    """
    name = chosen_method("root", method, METHODS)
    given, value = Variables.of("root", variables, as_value("root", equations))
    sizes = [_size(value), _size(given.variable)]
    if None not in sizes and sizes[0] != sizes[1]:
        raise ShapeError(
            f"root: {sizes[0]} equations for {sizes[1]} variables.",
            "Give as many of one as of the other.",
            where(here()),
        )
    outputs = [value]
    if jac and name in WITH_SLOPES:
        n = math.prod(lengths(given.variable))
        slope = jacobian(value, given.variable, disconnected_inputs="ignore")
        outputs.append(reshape(slope, (n, n)))
    settings = Settings("root", optimizer_kwargs)
    solution, success = solved(Root, given, outputs, name, settings)
    return given.unpacked(solution), success


def _size(x: Tensor) -> int | None:
    shape = x.type.shape
    return None if None in shape else math.prod(shape)  # type: ignore[arg-type]


def root_scalar(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    equation: Any,
    variable: Any,
    method: str = "secant",
    jac: bool = False,
    hess: bool = False,
    bracket: Any = None,
    optimizer_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Tensor, Tensor]:
    """Where a function of one number is zero, found by ``scipy.optimize.root_scalar``.

    The gradient and what runs where are as for ``root``.

    Args:
        equation: A real floating scalar.
        variable: The scalar of its graph to search for.
        method: ``"secant"``, ``"newton"`` (with ``jac``) or ``"halley"`` (with ``jac`` and
            ``hess``), which start from the variable's value; or ``"bisect"``, ``"brentq"``,
            ``"brenth"``, ``"ridder"`` or ``"toms748"``, which search in a bracket.
        jac: Whether the method is given the derivative.
        hess: Whether it is given the second derivative.
        bracket: Two numbers, also symbolic, where the equation has different signs.
        optimizer_kwargs: What else SciPy's function is given: ``x1``, ``xtol``, ``maxiter``.

    Returns:
        The root, and whether SciPy reports that the search converged, a bool scalar. Where the
        equation has one sign at both ends of the bracket, the root is NaN.

    Raises:
        ArgumentError: As for ``root``; a method without what it needs; ``hess`` without ``jac``.
        ShapeError: The equation or the variable is no scalar; a bracket of other than two numbers.
        DTypeError: The equation or the variable is not real floating.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, a = gt.scalar("x"), gt.scalar("a")
        >>> root, _ = gt.optimize.root_scalar(x**3 - a, x, method="newton", jac=True)
        >>> f = graphc.function([x, a], [root, graphc.grad(root, a)], mode="NUMPY")
        >>> [round(float(y), 6) for y in f(1.0, 8.0)]
        [2.0, 0.083333]
    """
    name = chosen_method("root_scalar", method, (*OPEN, *BRACKETED))
    in_kwargs = "bracket" in (optimizer_kwargs or {})
    _check_method(name, jac=jac, hess=hess, bracketed=in_kwargs or bracket is not None)
    given, value = Variables.of("root_scalar", variable, as_value("root_scalar", equation))
    for one in (value, given.start):
        if one.ndim:
            raise ShapeError(
                f"root_scalar: {one!r} is no scalar.", "Use gt.optimize.root.", where(here())
            )
    outputs = [value]
    for _ in range(jac + hess):
        outputs.append(grad(outputs[-1], given.variable, disconnected_inputs="ignore"))
    settings = dict(optimizer_kwargs or {})
    ends = settings.pop("bracket", bracket)
    numbers = [] if ends is None else [stack([cast(one, "float64") for one in ends])]
    if numbers and numbers[0].type.shape != (2,):
        raise ShapeError(f"root_scalar: the bracket {ends!r}.", "Give its two ends.", where(here()))
    return solved(RootScalar, given, outputs, name, Settings("root_scalar", settings), numbers)


def _check_method(method: str, *, jac: bool, hess: bool, bracketed: bool) -> None:
    needs = {"newton": jac, "halley": jac and hess} | dict.fromkeys(BRACKETED, bracketed)
    if needs.get(method, True) and (jac or not hess):
        return
    raise ArgumentError(
        f"root_scalar: method={method!r} with jac={jac}, hess={hess}"
        f"{'' if bracketed else ' and no bracket'}.",
        "'newton' needs jac=True, 'halley' hess=True too, those that bisect bracket=(a, b).",
        where(here()),
    )
