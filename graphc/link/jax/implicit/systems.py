"""JAX's functions that structured arrays compute as they know better, as those of linear systems.

``jnp.linalg.solve`` and the like are compiled functions, which factor a matrix. Their equation is
known by the name and by the program, which is that of the function for the same types.
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
from graphc.implicit.structured import Structured
from graphc.implicit.systems import is_square, solution
from graphc.implicit.treedef import dtype_of
from graphc.link.jax.implicit.interpreter import UnreadResult


def _solve(a: Structured, b: Any) -> Any:
    if b.ndim == 1:
        x = NotImplemented if a.ndim != 2 else solution(a, jnp.expand_dims(b, -1))
        return x if x is NotImplemented else jnp.squeeze(x, -1)
    return solution(a, b) if a.shape[:-2] == b.shape[:-2] else NotImplemented


def _of_positive(a: Any, b: Any, *, lower: bool) -> Any:
    return jax.scipy.linalg.solve(a, b, lower=lower, assume_a="pos")


def _one(x: Any) -> Any:
    return x if x is NotImplemented else [x]


def _system(structured: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a square matrix of floating numbers."""

    def apply(a: Any, *others: Any) -> Any:
        is_one = isinstance(a, Structured) and is_square(a)
        return structured(a, *others) if is_one else NotImplemented

    return apply


def _diagonal(x: Any) -> Any:
    return _one(x.diagonal(0)) if isinstance(x, Structured) and x.ndim == 2 else NotImplemented


FUNCTIONS: dict[str, tuple[Sequence[Callable[..., Any]], Callable[..., Any]]] = {
    "solve": ([jnp.linalg.solve], _system(lambda a, b: _one(_solve(a, b)))),
    # With assume_a="pos", and b a vector or of as many axes as a.
    "_solve": (
        [partial(_of_positive, lower=lower) for lower in (False, True)],
        _system(lambda a, b: _one(_solve(a, b))),
    ),
    "inv": ([jnp.linalg.inv], _system(lambda a: _one(a.inverted()))),
    "det": ([jnp.linalg.det], _system(lambda a: _one(a.det()))),
    "slogdet": ([jnp.linalg.slogdet], _system(lambda a: a.slogdet())),
    "remainder": ([jnp.remainder], lambda a, b: _one(elementwise.binary("remainder", a, b))),
    "floor_divide": (
        [jnp.floor_divide],
        lambda a, b: _one(elementwise.binary("floor_divide", a, b)),
    ),
    "diagonal": ([jnp.diagonal], _diagonal),
}
"""By name, JAX's functions, and the same of a structured array: results, or NotImplemented."""


def by_structure(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    """Return the results of a compiled function of JAX's that knows structures, or None."""
    known = FUNCTIONS.get(eqn.params["name"])
    if known is None or not any(isinstance(x, Structured) for x in operands):
        return None
    functions, structured = known
    if not any(_is_call(eqn, function) for function in functions):
        return None
    found = structured(*operands)
    if found is NotImplemented or not all(map(_has_dtype, found, eqn.outvars)):
        return None  # operands of several dtypes are promoted as the program does
    return list(found)


def _has_dtype(y: Any, variable: Any) -> bool:
    return isinstance(variable, UnreadResult) or dtype_of(y) == variable.aval.dtype


def _is_call(eqn: JaxprEqn, function: Callable[..., Any]) -> bool:
    """Whether an equation calls this function, and no other one of that name."""
    types = [x.aval for x in eqn.invars]
    wanted: Any = jax.make_jaxpr(function)(*types).eqns
    if len(wanted) != 1 or wanted[0].primitive is not eqn.primitive:
        return False
    ours, theirs = eqn.params["jaxpr"], wanted[0].params["jaxpr"]
    return ours is theirs or str(ours) == str(theirs)
