"""Bounds of a mask function that JAX traced, over blocks of indices: its program in intervals.

What is not known here is left open, and so never wrong. What does not depend on indices is
computed as it is, for which one function is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

from graphc.attention.intervals.interval import Interval, point, unknown
from graphc.attention.jax.primitives import (
    RULES,
    Value,
    applied_to,
    rule,
    selected,
    spread_of,
)
from graphc.attention.jax.programs import Program
from graphc.attention.jax.spreads import Spread, combined, hull, is_bounded, single

__all__ = ["bounds"]


def bounds(program: Program, indices: Sequence[Interval], captured: Sequence[Any]) -> Interval:
    """Where a mask function is certainly true, and where possibly.

    Args:
        program: It.
        indices: The intervals of b, h, q and k, integers of NumPy's that broadcast.
        captured: The arrays that the function captures, as ``program_of`` was given them.

    Returns:
        Arrays to which the indices broadcast, of NumPy where all that is captured has values.

    Example:
        >>> from graphc.attention.jax.programs import program_of
        >>> from graphc.capture import lift
        >>> program = program_of(lift(lambda b, h, q, k: q >= k).stripped, ())
        >>> q = Interval(np.array([0, 4], np.int32), np.array([3, 7], np.int32))
        >>> zero, k = point(np.array(0, np.int32)), point(np.array(3, np.int32))
        >>> certain, possible = bounds(program, (zero, zero, q, k), ())
        >>> certain, possible
        (array([False,  True]), array([ True,  True]))
    """
    fixed = program.fixed_values(captured)
    known = {x: _readable(value) for x, value in fixed.items()}
    given = [*map(single, indices), *map(_readable, captured)]
    (kept,) = _run(program.traced, given, program.steps, known)
    return hull(spread_of(kept, program.traced.jaxpr.outvars[0].aval))


def _readable(x: Any) -> Any:
    """An array as NumPy's, where it has values."""
    if isinstance(x, jax.core.Tracer) or not is_bounded(jax.typeof(x).dtype):
        return x
    return np.asarray(x, jax.typeof(x).dtype)


def _run(
    program: ClosedJaxpr, operands: Sequence[Value], eqns: Sequence[JaxprEqn], known: dict[Any, Any]
) -> list[Value]:
    """The values of a program's results.

    Args:
        program: It.
        operands: Its arguments.
        eqns: Those of its equations that are to be run.
        known: What others give, by its variables.
    """
    bare = program.jaxpr
    known |= zip(bare.constvars, map(_readable, program.consts), strict=True)
    known |= zip(bare.invars, operands, strict=True)
    for eqn in eqns:
        found = _results(eqn, [_read(known, x) for x in eqn.invars])
        known |= zip(eqn.outvars, found, strict=True)
    return [_read(known, x) for x in bare.outvars]


def _read(known: dict[Any, Any], x: Any) -> Value:
    if not isinstance(x, Literal):
        return known[x]
    aval: Any = x.aval
    return np.asarray(x.val, aval.dtype)


def _results(eqn: JaxprEqn, operands: Sequence[Value]) -> Sequence[Value]:
    """What an equation gives: whatever there is no rule for gives anything."""
    rule = RULES.get(eqn.primitive.name)
    avals: list[Any] = [x.aval for x in (*eqn.invars, *eqn.outvars)]
    found = None
    if rule is not None and all(map(_has_bounds, avals)):
        found = rule(eqn, *operands)
    if found is None:
        return [_anything(x.aval) for x in eqn.outvars]
    return list(found) if eqn.primitive.multiple_results else [found]


def _has_bounds(aval: Any) -> bool:
    """Whether it is the type of an array that has elements, and these an order."""
    return 0 not in getattr(aval, "shape", (0,)) and is_bounded(aval.dtype)


def _anything(aval: Any) -> Spread | None:
    return single(unknown(str(aval.dtype)), aval.shape) if _has_bounds(aval) else None


@rule("cond")
def cond(eqn: JaxprEqn, which: Value, *operands: Value) -> Any:
    """All branches, and of their results that of the number."""
    branches = eqn.params["branches"]
    found = [_run(branch, operands, branch.jaxpr.eqns, {}) for branch in branches]
    (number,) = spread_of(which, eqn.invars[0].aval).parts
    number = applied_to("clip", "int32", number, *map(_int32, (0, len(branches) - 1)))
    return [
        _branch(number, variable.aval, values)
        for variable, *values in zip(eqn.outvars, *found, strict=True)
    ]


def _int32(x: int) -> Interval:
    return point(np.array(x, np.int32))


def _branch(number: Interval, aval: Any, values: Sequence[Value]) -> Value:
    spreads = [spread_of(x, aval) for x in values]
    return combined(partial(selected, number), aval.shape, *spreads)
