"""Nested programs with implicit operands, rewritten as programs of arrays and cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self
from weakref import WeakKeyDictionary

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

from graphc.implicit.policy import Materialization, deferred_reports, report
from graphc.link.jax.implicit.avals import ImplicitAvals, flatten, unflatten
from graphc.link.jax.implicit.function_pair import valued
from graphc.link.jax.implicit.interpreter import (
    as_typed,
    inline,
    materialized_for,
    standing,
    used_results,
    where_of,
)
from graphc.link.jax.implicit.known import known_numbers


@dataclass(frozen=True)
class RequestedResults:
    """The results that are wanted of a program, and which of them whole.

    Attributes:
        eqn: For which equation.
        used: Which of them; others are not among the results.
        dense: Which are to be whole.
        valued: Which are to be the arrays that straight-through results hold, without derivatives.
    """

    eqn: JaxprEqn
    used: tuple[bool, ...]
    dense: tuple[bool, ...]
    valued: tuple[bool, ...] = ()

    @classmethod
    def of(cls, eqn: JaxprEqn, dense: Sequence[bool] = ()) -> RequestedResults:
        """Want the results that are read of an equation's program."""
        used = used_results(eqn)
        return cls(eqn, used, tuple(dense) or (False,) * len(used))


@dataclass(frozen=True, eq=False)
class Transformed:
    """A program of implicit arrays, rewritten as one of their arrays.

    Attributes:
        whole: Of the operands' arrays, with its constants.
        program: Of its constants and then the operands' arrays.
        consts: Its constants.
        kinds: What each result is that is used.
        reports: What becomes whole in it, with the policy.
    """

    whole: ClosedJaxpr
    program: ClosedJaxpr
    consts: tuple[Any, ...]
    kinds: ImplicitAvals
    reports: tuple[tuple[Materialization, str], ...]

    def call(self, *leaves: Any) -> Sequence[Any]:
        """Return the results' arrays, given the operands' arrays."""
        self.report()
        found: Sequence[Any] = jaxpr_as_fun(self.program)(*self.consts, *leaves)
        return found

    def report(self) -> Self:
        """Publish the reports of arrays that become whole, once the program is used."""
        for found, policy in self.reports:
            report(found, policy)
        return self


_made: WeakKeyDictionary[Any, dict[Any, Transformed]] = WeakKeyDictionary()


def closed(program: ClosedJaxpr | Jaxpr) -> ClosedJaxpr:
    """Return the program closed over its constants, of which it may have none."""
    # From JAX 0.12 on both are one class, which may have constants.
    return program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program, ())


def transformed(
    program: ClosedJaxpr | Jaxpr,
    kinds: ImplicitAvals,
    wanted: RequestedResults,
    numbers: tuple[Any, ...] = (),
) -> Transformed:
    """Return the program rewritten for operands of these avals; cached.

    Args:
        program: It.
        kinds: What each operand is.
        wanted: Which of its results, and which of them whole.
        numbers: Of each operand the number that all its elements are, None where none is known.
    """
    owner = program.jaxpr if isinstance(program, ClosedJaxpr) and not program.consts else program
    known = _made.setdefault(owner, {})
    reports = where_of(wanted.eqn) if any(wanted.dense) else None
    given = tuple([None if c is None else (str(c.dtype), c.tobytes()) for c in numbers])
    key = kinds, wanted.used, wanted.dense, wanted.valued, reports, standing(), given
    found = known.get(key)
    if found is None:
        found = _transformed(closed(program), kinds, wanted, numbers)
        if not any(isinstance(x, jax.core.Tracer) for x in found.consts):
            known[key] = found
    return found


def _transformed(
    program: ClosedJaxpr,
    kinds: ImplicitAvals,
    wanted: RequestedResults,
    numbers: tuple[Any, ...],
) -> Transformed:
    given: list[ImplicitAvals] = []

    def run(*leaves: Any) -> list[Any]:
        operands = unflatten(kinds, leaves)
        with known_numbers(zip(operands, numbers, strict=False)):
            found = inline(program, operands, wanted.used)
        results = []
        for y, aval, i in zip(found, program.out_avals, range(len(found)), strict=True):
            if wanted.used[i]:
                y = valued(y) if wanted.valued and wanted.valued[i] else y
                y = materialized_for(y, wanted.eqn) if wanted.dense[i] else y
                results.append(as_typed(y, aval))
        parts, found_kinds = flatten(results)
        given.append(found_kinds)
        return parts

    avals: list[Any] = []
    for kind, aval in zip(kinds, program.in_avals, strict=True):
        avals += [aval] if kind is None else kind.avals
    with deferred_reports() as reports:
        made = jax.make_jaxpr(run)(*avals)
    consts = tuple(made.consts)
    return Transformed(made, _without_constants(made), consts, given[0], tuple(reports))


def _without_constants(program: ClosedJaxpr) -> ClosedJaxpr:
    """Make the constants leading operands."""
    if not program.consts:
        return program
    count = len(program.consts)

    def run(*values: Any) -> Sequence[Any]:
        found: Sequence[Any] = jax.core.eval_jaxpr(program.jaxpr, values[:count], *values[count:])
        return found

    avals = [*map(jax.typeof, program.consts), *program.in_avals]
    return jax.make_jaxpr(run)(*avals)
