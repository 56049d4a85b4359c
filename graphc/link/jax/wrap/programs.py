"""Programs that JAX can trace and not run."""

from __future__ import annotations

import jax
from jax.extend.core import ClosedJaxpr

from graphc.link.jax.jaxprs import has_primitive, nested


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
    for part in nested(program):
        if isinstance(part, ClosedJaxpr) and any(
            isinstance(x, jax.core.Tracer) for x in part.consts
        ):
            raise CapturedByRuleError(
                "a function with jax.custom_jvp or jax.custom_vjp captures the array that the "
                "derivative is taken by, for which JAX has no rule; make it an argument of that "
                "function"
            )
    if has_primitive(program, "custom_lin"):
        raise NoPushforwardError("jax.custom_vjp has no forward mode")
