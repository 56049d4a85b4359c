"""JAX's programs, and those nested in their equations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

CALLS = {
    **dict.fromkeys(("jit", "pjit", "remat", "remat2", "checkpoint"), "jaxpr"),
    **dict.fromkeys(("closed_call", "core_call"), "call_jaxpr"),
}
"""Primitives that do nothing but call a program, and the parameter that has it."""


def nested(program: ClosedJaxpr | Jaxpr) -> Iterator[ClosedJaxpr | Jaxpr]:
    """Yield the program and those nested in its equations."""
    waiting = [program]
    while waiting:
        part = waiting.pop()
        yield part
        for equation in bare(part).eqns:
            held = jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program)
            waiting += filter(_is_program, held)


def bare(program: ClosedJaxpr | Jaxpr) -> Jaxpr:
    """Return a program without the constants that it captured."""
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def needed(program: Jaxpr) -> list[JaxprEqn]:
    """Return the equations that results depend on, and those that have effects."""
    read = {x for x in program.outvars if not isinstance(x, Literal)}
    kept = []
    for eqn in reversed(program.eqns):
        if eqn.effects or not read.isdisjoint(eqn.outvars):
            kept.append(eqn)
            read.update([x for x in eqn.invars if not isinstance(x, Literal)])
    return kept[::-1]


def has_primitive(program: ClosedJaxpr | Jaxpr, name: str) -> bool:
    """Whether a primitive of a name is applied in a program or in one nested in it."""
    return any(eqn.primitive.name == name for part in nested(program) for eqn in bare(part).eqns)


def _is_program(value: Any) -> bool:
    return isinstance(value, ClosedJaxpr | Jaxpr)
