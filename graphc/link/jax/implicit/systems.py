"""JAX's functions that structured arrays compute better, such as solutions of linear systems.

``jnp.linalg.solve`` and the like are compiled functions, which factor a matrix. Their equation is
recognized by its name, and by its program, which equals the function's program for these types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
from jax.extend.core import JaxprEqn

from graphc.implicit import elementwise
from graphc.implicit.layout import StructureLost
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import Structured
from graphc.implicit.systems import can_solve, solution
from graphc.implicit.treedef import dtype_of
from graphc.link.jax.jaxprs import UnreadResult


def _solve(a: Structured, b: Any) -> Any:
    if b.ndim == 1:
        x = NotImplemented if a.ndim != 2 else solution(a, jnp.expand_dims(b, -1))
        return x if x is NotImplemented else numpy_like(x).squeeze(x, -1)
    return solution(a, b) if a.shape[:-2] == b.shape[:-2] else NotImplemented


def _solve_positive_definite(a: Any, b: Any, *, lower: bool) -> Any:
    return jax.scipy.linalg.solve(a, b, lower=lower, assume_a="pos")


def _of_square_matrix(structured: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that applies to a solvable structured matrix only."""

    def apply(a: Any, *others: Any) -> Any:
        if not (isinstance(a, Structured) and can_solve(a)):
            return NotImplemented
        return structured(a, *others)

    return apply


def _diagonal(x: Any) -> Any:
    return x.diagonal(0) if isinstance(x, Structured) and x.ndim == 2 else NotImplemented


FUNCTIONS: dict[str, tuple[Sequence[Callable[..., Any]], Callable[..., Any]]] = {
    "solve": ([jnp.linalg.solve], _of_square_matrix(_solve)),
    # With assume_a="pos", for a vector b, or for b with the number of axes of a.
    "_solve": (
        [partial(_solve_positive_definite, lower=lower) for lower in (False, True)],
        _of_square_matrix(_solve),
    ),
    "inv": ([jnp.linalg.inv], _of_square_matrix(lambda a: a.inverse())),
    "det": ([jnp.linalg.det], _of_square_matrix(lambda a: a.det())),
    "slogdet": ([jnp.linalg.slogdet], _of_square_matrix(lambda a: a.slogdet())),
    "remainder": ([jnp.remainder], partial(elementwise.binary, "remainder")),
    "floor_divide": ([jnp.floor_divide], partial(elementwise.binary, "floor_divide")),
    "diagonal": ([jnp.diagonal], _diagonal),
}
"""By name, JAX's functions, and a function of structured arrays.

The function returns the result, a tuple of several results, or NotImplemented."""


def by_structure(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    """Return the results of a function of JAX that structured arrays compute; else None."""
    entry = FUNCTIONS.get(eqn.params["name"])
    if entry is None or not any(isinstance(x, Structured) for x in operands):
        return None
    functions, structured = entry
    if not any(_is_call(eqn, function) for function in functions):
        return None
    try:
        results = structured(*operands)
    except StructureLost:
        return None
    if results is NotImplemented:
        return None
    results = results if isinstance(results, tuple) else [results]
    if not all(map(_has_dtype, results, eqn.outvars)):
        return None  # the program promotes operands of several dtypes otherwise
    return list(results)


def _has_dtype(y: Any, variable: Any) -> bool:
    return isinstance(variable, UnreadResult) or dtype_of(y) == variable.aval.dtype


def _is_call(eqn: JaxprEqn, function: Callable[..., Any]) -> bool:
    """Return whether an equation calls this function, and not another function of that name."""
    types = [x.aval for x in eqn.invars]
    equations: Any = jax.make_jaxpr(function)(*types).eqns
    if len(equations) != 1 or equations[0].primitive is not eqn.primitive:
        return False
    program, expected = eqn.params["jaxpr"], equations[0].params["jaxpr"]
    return program is expected or str(program) == str(expected)
