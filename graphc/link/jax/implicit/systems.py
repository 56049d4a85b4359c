"""JAX's functions of linear systems, which structured matrices compute as they know better.

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

from graphc.implicit.structured import Structured
from graphc.implicit.systems import is_square, solution


def _solve(a: Structured, b: Any) -> Any:
    if b.ndim == 1:
        x = NotImplemented if a.ndim != 2 else solution(a, jnp.expand_dims(b, -1))
        return x if x is NotImplemented else jnp.squeeze(x, -1)
    return solution(a, b) if a.shape[:-2] == b.shape[:-2] else NotImplemented


def _of_positive(a: Any, b: Any, *, lower: bool) -> Any:
    return jax.scipy.linalg.solve(a, b, lower=lower, assume_a="pos")


def _one(x: Any) -> Any:
    return x if x is NotImplemented else [x]


FUNCTIONS: dict[str, tuple[Sequence[Callable[..., Any]], Callable[..., Any]]] = {
    "solve": ([jnp.linalg.solve], lambda a, b: _one(_solve(a, b))),
    # With assume_a="pos", and b a vector or of as many axes as a.
    "_solve": (
        [partial(_of_positive, lower=lower) for lower in (False, True)],
        lambda a, b: _one(_solve(a, b)),
    ),
    "inv": ([jnp.linalg.inv], lambda a: _one(a.inverted())),
    "det": ([jnp.linalg.det], lambda a: _one(a.det())),
    "slogdet": ([jnp.linalg.slogdet], lambda a: a.slogdet()),
    "diagonal": ([jnp.diagonal], lambda a: NotImplemented if a.ndim != 2 else _one(a.diagonal(0))),
}
"""By name, JAX's functions, and the same of a structured matrix: results, or NotImplemented."""


def by_structure(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    """Return the results of a compiled function of JAX's that knows structures, or None."""
    known = FUNCTIONS.get(eqn.params["name"])
    if known is None or not isinstance(operands[0], Structured) or not is_square(operands[0]):
        return None
    functions, structured = known
    if not any(_is_call(eqn, function) for function in functions):
        return None
    found = structured(*operands)
    return None if found is NotImplemented else list(found)


def _is_call(eqn: JaxprEqn, function: Callable[..., Any]) -> bool:
    """Whether an equation calls this function, and no other one of that name."""
    types = [x.aval for x in eqn.invars]
    wanted: Any = jax.make_jaxpr(function)(*types).eqns
    if len(wanted) != 1 or wanted[0].primitive is not eqn.primitive:
        return False
    ours, theirs = eqn.params["jaxpr"], wanted[0].params["jaxpr"]
    return ours is theirs or str(ours) == str(theirs)
