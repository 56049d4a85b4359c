"""Jaxprs, and jaxprs nested in their equations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

CALLS = {
    **dict.fromkeys(("jit", "pjit", "remat", "remat2", "checkpoint"), "jaxpr"),
    **dict.fromkeys(("closed_call", "core_call"), "call_jaxpr"),
}
"""Primitives that only call a jaxpr, and the parameter that has the jaxpr."""


def nested(program: ClosedJaxpr | Jaxpr) -> Iterator[ClosedJaxpr | Jaxpr]:
    """Yield a jaxpr and all jaxprs nested in its equations."""
    waiting = [program]
    while waiting:
        jaxpr = waiting.pop()
        yield jaxpr
        for equation in open_jaxpr(jaxpr).eqns:
            values = jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr)
            waiting += filter(_is_jaxpr, values)


def open_jaxpr(program: ClosedJaxpr | Jaxpr) -> Jaxpr:
    """Return a jaxpr without the constants that it captured."""
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def live_equations(program: Jaxpr) -> list[JaxprEqn]:
    """Return the equations that results depend on, and the equations with effects."""
    read = {x for x in program.outvars if not isinstance(x, Literal)}
    live = []
    for eqn in reversed(program.eqns):
        if eqn.effects or not read.isdisjoint(eqn.outvars):
            live.append(eqn)
            read.update([x for x in eqn.invars if not isinstance(x, Literal)])
    return live[::-1]


def has_primitive(program: ClosedJaxpr | Jaxpr, name: str) -> bool:
    """Return whether a jaxpr, or a jaxpr nested in it, applies a primitive."""
    return any(eqn.primitive.name == name for x in nested(program) for eqn in open_jaxpr(x).eqns)


def _is_jaxpr(value: Any) -> bool:
    return isinstance(value, ClosedJaxpr | Jaxpr)
