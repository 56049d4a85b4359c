"""Programs within programs as functions of arrays alone: made once, kept with the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self
from weakref import WeakKeyDictionary

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

from graphc.implicit.jax.interpreter import (
    as_typed,
    inline,
    materialized_for,
    standing,
    used_results,
    where_of,
)
from graphc.implicit.jax.kinds import Kinds, flatten, unflatten
from graphc.implicit.policy import Materialization, tell_of, untold

__all__ = ["Transformed", "Wanted", "closed", "transformed"]


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a program's results.

    Attributes:
        eqn: For which equation.
        used: Which of them; others are not among the results.
        dense: Which are to be whole.
    """

    eqn: JaxprEqn
    used: tuple[bool, ...]
    dense: tuple[bool, ...]

    @classmethod
    def of(cls, eqn: JaxprEqn, dense: Sequence[bool] = ()) -> Wanted:
        """The results that are read, of a program that has those of the equation."""
        used = used_results(eqn)
        return cls(eqn, used, tuple(dense) or (False,) * len(used))


@dataclass(frozen=True, eq=False)
class Transformed:
    """A program whose values are implicit arrays, in terms of the arrays in these.

    Attributes:
        whole: Of the operands' arrays, with its constants.
        program: Of its constants and then the operands' arrays.
        consts: Its constants.
        kinds: What each result is that is used.
        told: What becomes whole in it.
    """

    whole: ClosedJaxpr
    program: ClosedJaxpr
    consts: tuple[Any, ...]
    kinds: Kinds
    told: tuple[tuple[Materialization, str], ...]

    def call(self, *leaves: Any) -> Sequence[Any]:
        """The results' arrays, for the operands' arrays."""
        self.tell()
        found: Sequence[Any] = jaxpr_as_fun(self.program)(*self.consts, *leaves)
        return found

    def tell(self) -> Self:
        """Report what becomes whole: this is used, and was no mere attempt."""
        for found, policy in self.told:
            tell_of(found, policy)
        return self


_made: WeakKeyDictionary[Any, dict[Any, Transformed]] = WeakKeyDictionary()


def closed(program: ClosedJaxpr | Jaxpr) -> ClosedJaxpr:
    """The program with its constants, also where it has none."""
    return ClosedJaxpr(program, ()) if isinstance(program, Jaxpr) else program


def transformed(program: ClosedJaxpr | Jaxpr, kinds: Kinds, wanted: Wanted) -> Transformed:
    """A program for operands of these kinds; the same object for the same program and kinds.

    Args:
        program: It.
        kinds: What each operand is.
        wanted: What is wanted of its results.
    """
    owner = program.jaxpr if isinstance(program, ClosedJaxpr) and not program.consts else program
    known = _made.setdefault(owner, {})
    told = where_of(wanted.eqn) if any(wanted.dense) else None
    key = kinds, wanted.used, wanted.dense, told, standing()
    found = known.get(key)
    if found is None:
        found = _transformed(closed(program), kinds, wanted)
        if not any(isinstance(x, jax.core.Tracer) for x in found.consts):
            known[key] = found
    return found


def _transformed(program: ClosedJaxpr, kinds: Kinds, wanted: Wanted) -> Transformed:
    given: list[Kinds] = []

    def run(*leaves: Any) -> list[Any]:
        found = inline(program, unflatten(kinds, leaves), wanted.used)
        results = []
        for y, aval, i in zip(found, program.out_avals, range(len(found)), strict=True):
            if wanted.used[i]:
                y = materialized_for(y, wanted.eqn) if wanted.dense[i] else y
                results.append(as_typed(y, aval))
        parts, found_kinds = flatten(results)
        given.append(found_kinds)
        return parts

    avals: list[Any] = []
    for kind, aval in zip(kinds, program.in_avals, strict=True):
        avals += [aval] if kind is None else kind.avals
    with untold() as told:
        made = jax.make_jaxpr(run)(*avals)
    consts = tuple(made.consts)
    return Transformed(made, _without_constants(made), consts, given[0], tuple(told))


def _without_constants(program: ClosedJaxpr) -> ClosedJaxpr:
    """The same of its constants and its operands."""
    if not program.consts:
        return program
    count = len(program.consts)

    def run(*values: Any) -> Sequence[Any]:
        found: Sequence[Any] = jax.core.eval_jaxpr(program.jaxpr, values[:count], *values[count:])
        return found

    avals = [*map(jax.typeof, program.consts), *program.in_avals]
    return jax.make_jaxpr(run)(*avals)
