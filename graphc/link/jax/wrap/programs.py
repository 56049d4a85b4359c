"""Programs that JAX can trace and not run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr


class NoPushforwardError(TypeError):
    """A function with ``jax.custom_vjp`` has no pushforward."""


class CapturedByRuleError(TypeError):
    """JAX has no derivative with respect to what a function with a custom rule captures."""


def refuse_what_runs_not(program: ClosedJaxpr) -> None:
    """Raise where a traced program has a part that JAX cannot run.

    Raises:
        NoPushforwardError: There is a pushforward of what has only a pullback.
        CapturedByRuleError: A custom rule has captured what the derivative is taken by.
    """
    for part in _parts(program):
        if isinstance(part, ClosedJaxpr) and any(
            isinstance(x, jax.core.Tracer) for x in part.consts
        ):
            raise CapturedByRuleError(
                "a function with jax.custom_jvp or jax.custom_vjp captures the array that the "
                "derivative is taken by, for which JAX has no rule; make it an argument of that "
                "function"
            )
        bare = part.jaxpr if isinstance(part, ClosedJaxpr) else part
        if any(equation.primitive.name == "custom_lin" for equation in bare.eqns):
            raise NoPushforwardError("jax.custom_vjp has no forward mode")


def _parts(program: Any) -> Iterator[Any]:
    """Yield the program and those nested in its equations."""
    waiting = [program]
    while waiting:
        part = waiting.pop()
        yield part
        bare = part.jaxpr if isinstance(part, ClosedJaxpr) else part
        for equation in bare.eqns:
            held = jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program)
            waiting += filter(_is_program, held)


def _is_program(value: Any) -> bool:
    return isinstance(value, ClosedJaxpr | Jaxpr)
