"""Nested programs with implicit operands, transformed to programs of arrays and cached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self
from weakref import WeakKeyDictionary

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun

from graphc.implicit.array import is_implicit
from graphc.implicit.policy import Materialization, deferred_reports, report
from graphc.link.jax.implicit import interpreter
from graphc.link.jax.implicit.avals import ImplicitAvals, flatten, unflatten
from graphc.link.jax.implicit.known import known_numbers
from graphc.link.jax.implicit.partition import aval_of
from graphc.link.jax.jaxprs import used_results
from graphc.link.jax.releases import as_closed


@dataclass(frozen=True)
class RequestedResults:
    """The results of a nested program that are requested, and which of them are densified.

    Attributes:
        eqn: The equation with the program.
        used: For each result, whether it is requested; the other results are dropped.
        dense: For each result, whether it is densified.
    """

    eqn: JaxprEqn
    used: tuple[bool, ...]
    dense: tuple[bool, ...]

    @classmethod
    def of(cls, eqn: JaxprEqn, dense: Sequence[bool] = ()) -> RequestedResults:
        """Request the results of an equation's program that are read."""
        used = used_results(eqn)
        return cls(eqn, used, tuple(dense) or (False,) * len(used))


@dataclass(frozen=True, eq=False)
class TransformedProgram:
    """A program of implicit arrays, transformed to a program of their arrays.

    Attributes:
        closed: The program of the operands' arrays, closed over its constants.
        program: The program of the constants followed by the operands' arrays.
        consts: The constants.
        kinds: The abstract values of the requested results.
        reports: The arrays that the program densifies, each with the policy.
    """

    closed: ClosedJaxpr
    program: ClosedJaxpr
    consts: tuple[Any, ...]
    kinds: ImplicitAvals
    reports: tuple[tuple[Materialization, str], ...]

    def call(self, *leaves: Any) -> Sequence[Any]:
        """Return the results' arrays, given the operands' arrays."""
        self.report()
        results: Sequence[Any] = jaxpr_as_fun(self.program)(*self.consts, *leaves)
        return results

    def report(self) -> Self:
        """Report the arrays that the program densifies, as the program is used now."""
        for materialization, policy in self.reports:
            report(materialization, policy)
        return self


_cache: WeakKeyDictionary[Any, dict[Any, TransformedProgram]] = WeakKeyDictionary()


def transform(
    program: ClosedJaxpr | Jaxpr,
    kinds: ImplicitAvals,
    requested: RequestedResults,
    numbers: tuple[Any, ...] = (),
) -> TransformedProgram:
    """Return a program transformed for operands of these abstract values; cached.

    Args:
        program: The program.
        kinds: The abstract values of the operands.
        requested: The requested results.
        numbers: The number that all elements of an operand have, for each operand; None if unknown.
    """
    owner = program.jaxpr if isinstance(program, ClosedJaxpr) and not program.consts else program
    cache = _cache.setdefault(owner, {})
    line = interpreter.where_of(requested.eqn) if any(requested.dense) else None
    constants = tuple([None if c is None else (str(c.dtype), c.tobytes()) for c in numbers])
    key = (kinds, requested.used, requested.dense, constants, line, interpreter.dispatch_state())
    transformed = cache.get(key)
    if transformed is None:
        transformed = _transform(as_closed(program), kinds, requested, numbers)
        if not any(isinstance(x, jax.core.Tracer) for x in transformed.consts):
            cache[key] = transformed
    return transformed


def _transform(
    program: ClosedJaxpr,
    kinds: ImplicitAvals,
    requested: RequestedResults,
    numbers: tuple[Any, ...],
) -> TransformedProgram:
    traced: list[ImplicitAvals] = []

    def run(*leaves: Any) -> list[Any]:
        operands = unflatten(kinds, leaves)
        with known_numbers(zip(operands, numbers, strict=False)):
            ys = interpreter.inline(program, operands, requested.used)
        results = []
        for i, (y, aval) in enumerate(zip(ys, program.out_avals, strict=True)):
            if requested.used[i]:
                y = interpreter.materialize_for(y, requested.eqn) if requested.dense[i] else y
                results.append(interpreter.as_typed(y, aval))
        arrays, result_kinds = flatten(results)
        traced.append(result_kinds)
        return arrays

    avals: list[Any] = []
    for kind, aval in zip(kinds, program.in_avals, strict=True):
        avals += [aval] if kind is None else kind.avals
    with deferred_reports() as reports:
        closed = jax.make_jaxpr(run)(*avals)
    consts = tuple(closed.consts)
    program = _with_constants_as_operands(closed)
    return TransformedProgram(closed, program, consts, traced[0], tuple(reports))


def _with_constants_as_operands(program: ClosedJaxpr) -> ClosedJaxpr:
    if not program.consts:
        return program
    count = len(program.consts)

    def run(*values: Any) -> Sequence[Any]:
        ys: Sequence[Any] = jax.core.eval_jaxpr(program.jaxpr, values[:count], *values[count:])
        return ys

    avals = [*map(jax.typeof, program.consts), *program.in_avals]
    return jax.make_jaxpr(run)(*avals)


def run_through(function: Callable[..., Any], *args: Any) -> Any:
    """Run a function of dense arrays on trees of arrays, of which some are implicit."""
    operands, tree = jax.tree.flatten(args, is_leaf=is_implicit)

    def function_of_leaves(*arrays: Any) -> Any:
        return function(*jax.tree.unflatten(tree, arrays))

    program, shapes = jax.make_jaxpr(function_of_leaves, return_shape=True)(*map(aval_of, operands))
    return jax.tree.unflatten(jax.tree.structure(shapes), interpreter.inline(program, operands))
