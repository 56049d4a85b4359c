"""Jaxprs: one evaluator and one liveness analysis for all that read them, and nested jaxprs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from graphc.link.jax.releases import bind

CALLS = {
    **dict.fromkeys(("jit", "pjit", "remat", "remat2", "checkpoint"), "jaxpr"),
    **dict.fromkeys(("closed_call", "core_call"), "call_jaxpr"),
}
"""Primitives that only call a jaxpr, and the parameter that has the jaxpr."""

Program = ClosedJaxpr | Jaxpr

Visit = Callable[[JaxprEqn, list[Any]], Sequence[Any]]
"""A function that returns an equation's results, given the equation and its operands."""


def walk(
    program: Program,
    operands: Sequence[Any],
    visit: Visit,
    used: Sequence[bool] | None = None,
    constant: Callable[[Any, Any], Any] = lambda _, value: value,
) -> list[Any]:
    """Evaluate a program's equations in order, without those that no result needs.

    Each value is dropped after its last use. Equations with effects are always evaluated.

    Args:
        program: The program.
        operands: The program's arguments, in any form that ``visit`` takes.
        visit: A function that evaluates an equation. Outputs that nothing reads are
            ``UnreadResult`` in the equation that it gets; see ``used_results``.
        used: For each result, whether it is wanted (default: all); the others are None.
        constant: A function of a variable or literal and its value in the program, which returns
            the value in the form that ``visit`` takes; default: the value itself.

    Returns:
        The results, in the form that ``visit`` returns.

    Example:
        >>> program = jax.make_jaxpr(lambda x: 2 * x + 1)(1.0)
        >>> names = lambda eqn, operands: [f"{eqn.primitive}({', '.join(map(str, operands))})"]
        >>> walk(program, ["x"], names)
        ['add(mul(2.0, x), 1.0)']
    """
    jaxpr = open_jaxpr(program)
    wanted = (True,) * len(jaxpr.outvars) if used is None else tuple(used)
    values: dict[Any, Any] = dict(zip(jaxpr.invars, operands, strict=True))
    for x, value in zip(jaxpr.constvars, getattr(program, "consts", ()), strict=True):
        values[x] = constant(x, value)

    def read(x: Any) -> Any:
        return constant(x, x.val) if isinstance(x, Literal) else values[x]

    for step in _live_steps(jaxpr, wanted):
        results = visit(step.marked, [read(x) for x in step.eqn.invars])
        values.update(zip(step.marked.outvars, results, strict=True))
        for x in step.last_read:
            del values[x]
    pairs = zip(jaxpr.outvars, wanted, strict=True)
    return [read(x) if is_wanted else None for x, is_wanted in pairs]


@dataclass(frozen=True, eq=False)
class UnreadResult:
    """An output of an equation that nothing reads.

    Attributes:
        aval: The output's type.
    """

    aval: Any


class _Step(NamedTuple):
    """An equation that results need.

    Attributes:
        eqn: The equation.
        marked: The equation, in which outputs that nothing reads are ``UnreadResult``.
        last_read: The variables that no later equation reads, and no result is.
    """

    eqn: JaxprEqn
    marked: JaxprEqn
    last_read: tuple[Any, ...]


_steps: WeakKeyDictionary[Jaxpr, dict[tuple[bool, ...], tuple[_Step, ...]]] = WeakKeyDictionary()


def _live_steps(jaxpr: Jaxpr, wanted: tuple[bool, ...]) -> tuple[_Step, ...]:
    """Return the equations that the wanted results need: the liveness analysis, cached."""
    cache = _steps.setdefault(jaxpr, {})
    if wanted not in cache:
        pairs = zip(jaxpr.outvars, wanted, strict=True)
        needed = {x for x, is_wanted in pairs if is_wanted and not isinstance(x, Literal)}
        steps = []
        for eqn in reversed(jaxpr.eqns):
            outvars: list[Any] = [x if x in needed else UnreadResult(x.aval) for x in eqn.outvars]
            unread = [x for x in outvars if isinstance(x, UnreadResult)]
            if len(unread) == len(outvars) and not eqn.effects:
                continue
            read = dict.fromkeys(x for x in eqn.invars if not isinstance(x, Literal))
            last_read = (*unread, *[x for x in read if x not in needed])
            steps.append(_Step(eqn, eqn.replace(outvars=outvars) if unread else eqn, last_read))
            needed.update(read)
        cache[wanted] = tuple(reversed(steps))
    return cache[wanted]


def used_results(eqn: JaxprEqn) -> tuple[bool, ...]:
    """Return which results of an equation that ``walk`` visits are read."""
    return tuple(not isinstance(x, UnreadResult) for x in eqn.outvars)


def live_equations(program: Jaxpr) -> list[JaxprEqn]:
    """Return the equations that results depend on, and the equations with effects."""
    return [step.eqn for step in _live_steps(program, (True,) * len(program.outvars))]


def operands_of_results(program: Program) -> frozenset[int]:
    """Return the indices of the operands that any result depends on, also through calls.

    Example:
        >>> program = jax.make_jaxpr(jax.jit(lambda x, y, z: x + z))(1.0, 2.0, 3.0)
        >>> sorted(operands_of_results(program))
        [0, 2]
    """
    none: frozenset[int] = frozenset()

    def visit(eqn: JaxprEqn, operands: list[Any]) -> Sequence[Any]:
        inner = CALLS.get(eqn.primitive.name)
        if inner is not None:
            return walk(eqn.params[inner], operands, visit, used_results(eqn), lambda *_: none)
        return [none.union(*operands)] * len(eqn.outvars)

    indices = [frozenset((i,)) for i in range(len(open_jaxpr(program).invars))]
    return none.union(*walk(program, indices, visit, constant=lambda *_: none))


def bind_equation(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Bind an equation with dense operands."""
    results = bind(eqn.primitive, operands, eqn.params)
    return results if eqn.primitive.multiple_results else [results]


def default_fill_value(dtype: Any) -> Any:
    """Return the value that a gather gives to slices out of bounds."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.nan
    if dtype.kind == "b":
        return True
    bounds = np.iinfo(dtype)
    return bounds.max if dtype.kind == "u" else bounds.min


def nested(program: Program) -> Iterator[Program]:
    """Yield a jaxpr and all jaxprs nested in its equations."""
    waiting = [program]
    while waiting:
        jaxpr = waiting.pop()
        yield jaxpr
        for equation in open_jaxpr(jaxpr).eqns:
            values = jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr)
            waiting += filter(_is_jaxpr, values)


def open_jaxpr(program: Program) -> Jaxpr:
    """Return a jaxpr without the constants that it captured."""
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def has_primitive(program: Program, name: str) -> bool:
    return any(eqn.primitive.name == name for x in nested(program) for eqn in open_jaxpr(x).eqns)


def _is_jaxpr(value: Any) -> bool:
    return isinstance(value, ClosedJaxpr | Jaxpr)


# Lists of operands and results.


def replace_at(values: Sequence[Any], indices: Iterable[int], new: Iterable[Any]) -> list[Any]:
    """Return the values with new ones at these indices."""
    result = list(values)
    for i, x in zip(indices, new, strict=True):
        result[i] = x
    return result
