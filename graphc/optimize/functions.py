"""Minima and roots of graphs: the public functions, which check arguments and build a problem."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.grad.jacobian import jacobian
from graphc.grad.reverse import grad
from graphc.ir import Node, is_float, picks, replace_nodes, to_gathered_form, toposort
from graphc.loop.step import close_graph, stand_in
from graphc.optimize.options import SolverOptions
from graphc.optimize.problem import Problem
from graphc.optimize.solvers import SOLVERS
from graphc.tensor.arrays.join import stack
from graphc.tensor.arrays.pack import pack, unpack
from graphc.tensor.core.elementwise import cast
from graphc.tensor.core.tensor import Tensor, as_tensor


@overload
def minimize(
    objective: Any,
    x: Tensor,
    method: str = "BFGS",
    jac: bool = True,
    hess: bool = False,
    use_vectorized_jac: bool = False,
    optimizer_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Tensor, Tensor]: ...


@overload
def minimize(
    objective: Any,
    x: Sequence[Tensor],
    method: str = "BFGS",
    jac: bool = True,
    hess: bool = False,
    use_vectorized_jac: bool = False,
    optimizer_kwargs: Mapping[str, Any] | None = None,
) -> tuple[list[Tensor], Tensor]: ...


def minimize(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    objective: Any,
    x: Any,
    method: str = "BFGS",
    jac: bool = True,
    hess: bool = False,
    use_vectorized_jac: bool = False,
    optimizer_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Any, Tensor]:
    """Return the minimum of a scalar, found by ``scipy.optimize.minimize``.

    The search runs in NumPy on every backend, one for each element of a batch, and starts from the
    value of ``x``. The solution is differentiable with respect to everything else that the
    objective depends on, by the implicit function theorem: the gradient holds where the objective's
    gradient is zero and its Hessian can be inverted, so not where a bound or a constraint is
    active. The gradient with respect to the start is zero.

    Args:
        objective: A real floating scalar.
        x: The array of its graph to search for, of any shape, or a list of several.
        method: SciPy's name of a method.
        jac: Whether the method is given the gradient, if it uses one; otherwise SciPy takes finite
            differences.
        hess: Whether the method is given the Hessian, and the gradient with it.
        use_vectorized_jac: Derivatives are vectorised in any case; the argument is PyTensor's.
        optimizer_kwargs: Further arguments of SciPy's function: ``tol``, ``bounds``, ``options``.

    Returns:
        The solution, in the structure of ``x``, and whether SciPy reports success, a bool scalar.
        Without success the solution is the last point of the search.

    Raises:
        ArgumentError: The objective does not depend on ``x``; an unknown method, or one that
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
    name = _method("minimize", method, jac=jac, hess=hess)
    variables, value = _Variables.of("minimize", x, _value("minimize", objective, scalar=True))
    uses = SOLVERS["minimize"].methods[name].uses
    order = 2 if hess else int(jac and uses > 0)
    solution, success = _solve("minimize", variables, value, order, name, optimizer_kwargs)
    return variables.unpack_solution(solution), success


def minimize_scalar(
    objective: Any,
    x: Any,
    method: str = "brent",
    bracket: Any = None,
    bounds: Any = None,
    optimizer_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the minimum of a function of one number, by ``scipy.optimize.minimize_scalar``.

    The gradient and the execution are as for ``minimize``; the value of ``x`` is not used.

    Args:
        objective: A real floating scalar.
        x: The scalar of its graph to search for.
        method: ``"brent"``, ``"golden"`` or ``"bounded"``.
        bracket: For the first two, two or three numbers, also symbolic, that lie about the minimum.
        bounds: For the third, two numbers, also symbolic, between which the minimum lies.
        optimizer_kwargs: Further arguments of SciPy's function: ``tol``, ``options``.

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
    title = "minimize_scalar"
    name = _method(title, method)
    variables, value = _Variables.of(title, x, _value(title, objective, scalar=True))
    _check_scalar(title, variables.start, "minimize")
    ends, wrong = (bounds, bracket) if name == "bounded" else (bracket, bounds)
    if wrong is not None:
        raise ArgumentError(
            f"{title}: method={method!r} with {'bracket' if bounds is None else 'bounds'}.",
            "Give bounds= to 'bounded', and bracket= to the others.",
        )
    if name == "bounded" and ends is None and "bounds" not in (optimizer_kwargs or {}):
        raise ArgumentError(f"{title}: method='bounded' without bounds.", "Give bounds=(a, b).")
    return _solve(title, variables, value, 0, name, optimizer_kwargs, ends)


@overload
def root(
    equations: Any,
    variables: Tensor,
    method: str = "hybr",
    jac: bool = True,
    use_vectorized_jac: bool = False,
    optimizer_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Tensor, Tensor]: ...


@overload
def root(
    equations: Any,
    variables: Sequence[Tensor],
    method: str = "hybr",
    jac: bool = True,
    use_vectorized_jac: bool = False,
    optimizer_kwargs: Mapping[str, Any] | None = None,
) -> tuple[list[Tensor], Tensor]: ...


def root(
    equations: Any,
    variables: Any,
    method: str = "hybr",
    jac: bool = True,
    use_vectorized_jac: bool = False,
    optimizer_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Any, Tensor]:
    """Return the root of a system of equations, found by ``scipy.optimize.root``.

    The search runs in NumPy on every backend, one for each element of a batch, and starts from the
    value of ``variables``. The root is differentiable with respect to everything else that the
    equations depend on, by the implicit function theorem, where their Jacobian can be inverted. The
    gradient with respect to the start is zero.

    Args:
        equations: A real floating array, with as many elements as the variables.
        variables: The array of its graph to search for, or a list of several.
        method: SciPy's name of a method.
        jac: Whether the method is given the Jacobian, if it uses one; otherwise SciPy takes finite
            differences.
        use_vectorized_jac: Jacobians are vectorised in any case; the argument is PyTensor's.
        optimizer_kwargs: Further arguments of SciPy's function: ``tol``, ``options``.

    Returns:
        The root, in the structure of ``variables``, and whether SciPy reports success, a bool
        scalar. Without success the root is the last point of the search.

    Raises:
        ArgumentError: The equations do not depend on the variables; an unknown method.
        ShapeError: There are more or fewer equations than variables.
        DTypeError: The equations or variables are not real floating.

    Example:
        >>> import graphc, graphc.tensor as gt
        >>> x, a = gt.vector("x", shape=(2,)), gt.scalar("a")
        >>> equations = gt.stack([x[0] + x[1] - a, x[0] - x[1] ** 2])
        >>> solution, success = gt.optimize.root(equations, x)
        >>> derivatives = graphc.jacobian(solution, a)
        >>> f = graphc.function([x, a], [solution, derivatives], mode="NUMPY")
        >>> [y.round(6).tolist() for y in f([1.0, 1.0], 6.0)]
        [[4.0, 2.0], [0.8, 0.2]]
    """
    name = _method("root", method, jac=jac)
    unknowns, value = _Variables.of("root", variables, _value("root", equations))
    sizes = [_size(value), _size(unknowns.variable)]
    if None not in sizes and sizes[0] != sizes[1]:
        raise ShapeError(
            f"root: {sizes[0]} equations for {sizes[1]} variables.",
            "Give as many of one as of the other.",
        )
    order = int(jac and SOLVERS["root"].methods[name].uses > 0)
    solution, success = _solve("root", unknowns, value, order, name, optimizer_kwargs)
    return unknowns.unpack_solution(solution), success


def root_scalar(  # noqa: PLR0913, PLR0917 (PyTensor's arguments)
    equation: Any,
    variable: Any,
    method: str = "secant",
    jac: bool = False,
    hess: bool = False,
    bracket: Any = None,
    optimizer_kwargs: Mapping[str, Any] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the root of a function of one number, found by ``scipy.optimize.root_scalar``.

    The gradient and the execution are as for ``root``.

    Args:
        equation: A real floating scalar.
        variable: The scalar of its graph to search for.
        method: ``"secant"``, ``"newton"`` (with ``jac``) or ``"halley"`` (with ``jac`` and
            ``hess``), which start from the variable's value; or ``"bisect"``, ``"brentq"``,
            ``"brenth"``, ``"ridder"`` or ``"toms748"``, which search in a bracket.
        jac: Whether the method is given the derivative.
        hess: Whether the method is given the second derivative.
        bracket: Two numbers, also symbolic, where the equation has different signs.
        optimizer_kwargs: Further arguments of SciPy's function: ``x1``, ``xtol``, ``maxiter``.

    Returns:
        The root, and whether SciPy reports that the search converged, a bool scalar. Where the
        equation has one sign at both ends of the bracket, the root is NaN.

    Raises:
        ArgumentError: As for ``root``; a method lacks an argument; ``hess`` without ``jac``.
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
    title = "root_scalar"
    name = _method(title, method, jac=jac, hess=hess)
    if hess and not jac:
        raise ArgumentError(f"{title}: hess=True without jac=True.", "Give both, or jac alone.")
    keywords = dict(optimizer_kwargs or {})
    ends = keywords.pop("bracket", bracket)
    ends = None if ends is None else list(ends)
    if ends is None and SOLVERS[title].methods[name].between:
        raise ArgumentError(
            f"{title}: method={method!r} and no bracket.",
            "Give bracket=(a, b), between which the equation changes its sign.",
        )
    unknown, value = _Variables.of(title, variable, _value(title, equation))
    for one in (value, unknown.start):
        _check_scalar(title, one, "root")
    if ends is not None and len(ends) != 2:
        raise ShapeError(f"{title}: the bracket {ends!r}.", "Give its two ends.")
    return _solve(title, unknown, value, jac + hess, name, keywords, ends)


# Checks.


def _method(title: str, method: Any, *, jac: bool = True, hess: bool = False) -> str:
    """Return SciPy's name of a method; raise if it lacks a derivative."""
    methods = SOLVERS[title].methods
    name = str(method).lower()
    if not isinstance(method, str) or name not in methods:
        raise ArgumentError(
            f"{title}: there is no method={method!r}.", f"Use one of {', '.join(methods)}."
        )
    prefix, needs = f"{title}: method={method!r}", methods[name].needs
    if hess and methods[name].uses < 2:
        able = ", ".join(key for key, one in methods.items() if one.uses == 2)
        remedy = f"Leave out hess=True, or use one of {able}." if able else "Leave out hess=True."
        raise ArgumentError(f"{prefix} uses no Hessian.", remedy)
    if needs == 2 and not hess:
        raise ArgumentError(f"{prefix} needs the Hessian.", "Give hess=True.")
    if needs and not jac:
        raise ArgumentError(f"{prefix} needs the gradient.", "Give jac=True.")
    return name


def _value(title: str, value: Any, *, scalar: bool = False) -> Tensor:
    array: Tensor = as_tensor(value)
    if not is_float(array.dtype):
        raise DTypeError(
            f"{title} of {array!r}, whose dtype is not real floating.",
            "Cast it with .astype('float64').",
        )
    if scalar and array.ndim:
        raise ShapeError(
            f"{title} of {array!r}, which is no scalar.",
            "Reduce it first, as with .sum() or .mean().",
        )
    return array


def _check_scalar(title: str, x: Tensor, instead: str) -> None:
    if x.ndim:
        raise ShapeError(f"{title}: {x!r} is no scalar.", f"Use gt.optimize.{instead}.")


def _size(x: Tensor) -> int | None:
    shape = x.type.shape
    return None if None in shape else math.prod(shape)  # type: ignore[arg-type]


# The operation.


@dataclass(frozen=True)
class _Variables:
    """The variables of a search: one array, or several packed into a vector.

    Attributes:
        start: The start of the search.
        variable: The formal parameter that replaces it in the graph.
        shapes: The shapes of the packed arrays; None for a single array.
    """

    start: Tensor
    variable: Tensor
    shapes: list[Tensor] | None

    @classmethod
    def of(cls, title: str, x: Any, value: Tensor) -> tuple[_Variables, Tensor]:
        """Return the variables, and the value as a function of their formal parameter."""
        several = isinstance(x, list | tuple)
        xs = [_check_variable(title, one, value) for one in (x if several else [x])]
        if not several:
            variable = stand_in(xs[0])
            return cls(xs[0], variable, None), _in_terms(value, xs, [variable])
        start, shapes = pack(*xs)
        variable = stand_in(start)
        unpacked_arrays = [
            part.astype(one.dtype) for part, one in zip(unpack(variable, shapes), xs, strict=True)
        ]
        return cls(start, variable, shapes), _in_terms(value, xs, unpacked_arrays)

    def unpack_solution(self, solution: Tensor) -> Any:
        return solution if self.shapes is None else unpack(solution, self.shapes)


def _in_terms(value: Tensor, xs: Sequence[Tensor], parts: Sequence[Tensor]) -> Tensor:
    (result,) = to_gathered_form(replace_nodes([value], dict(zip(xs, parts, strict=True))), parts)
    return result  # type: ignore[return-value]


def _check_variable(title: str, x: Any, value: Tensor) -> Tensor:
    if not isinstance(x, Tensor) or x not in toposort([value]):
        raise ArgumentError(
            f"{title}: {value!r} does not depend on {x!r}.",
            "Give a symbolic array of its graph, or a list of several.",
        )
    if not is_float(x.dtype):
        raise DTypeError(
            f"{title}: {x!r} is searched for, whose dtype is not real floating.",
            "Declare it floating, or cast it before it is used.",
        )
    return x


def _solve(  # noqa: PLR0913, PLR0917
    title: str,
    variables: _Variables,
    value: Tensor,
    order: int,
    method: str,
    keywords: Mapping[str, Any] | None,
    ends: Sequence[Any] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the solution and SciPy's success, with ``order`` derivatives for SciPy."""
    outputs = [value]
    for _ in range(order):
        derivative = jacobian if outputs[-1].ndim else grad
        outputs.append(derivative(outputs[-1], variables.variable, disconnected_inputs="ignore"))
    graph, outside = close_graph([variables.variable], outputs, {})
    numbers = [] if ends is None else [stack([cast(x, "float64") for x in ends])]
    op = Problem(graph, title, method, SolverOptions(title, keywords))
    solution, success = picks(Node.make(op, variables.start, *outside, *numbers))
    return solution, success
