"""Loops and branches, run with implicit operands.

A carry stays implicit where the body gives it in the form in which it got it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn

from graphc.errors import MaterializeError
from graphc.implicit.policy import deferred_reports
from graphc.link.jax.implicit.avals import ImplicitAvals, flatten, unflatten
from graphc.link.jax.implicit.calls import placed, rebound
from graphc.link.jax.implicit.function_pair import deferred, is_traced, pair_of
from graphc.link.jax.implicit.interpreter import (
    as_typed,
    bound,
    materialized_for,
    rule,
    used_results,
)
from graphc.link.jax.implicit.scans import Scan
from graphc.link.jax.implicit.stacks import element, stack
from graphc.link.jax.implicit.trace import called
from graphc.link.jax.implicit.transform import RequestedResults, Transformed, closed, transformed


@rule("cond")
def cond(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a branch; a result is implicit where all branches give it the same structure."""
    index, *rest = operands
    leaves, kinds = flatten(rest)
    used = used_results(eqn)
    none = (False,) * len(used)
    made, mixed = _branches(kinds, RequestedResults(eqn, used, none))
    # Where derivatives differ, that of a result is the derivative of the branch that is run.
    held = mixed
    if any(held):
        made, mixed = _branches(kinds, RequestedResults(eqn, used, none, held))
    if any(mixed):
        made, _ = _branches(kinds, RequestedResults(eqn, used, mixed, held))
    given = [materialized_for(index, eqn), *leaves]
    programs = tuple(x.report().whole for x in made)
    results = placed(used, rebound(eqn, given, made[0].kinds, branches=programs))
    if not is_traced(operands):
        return results
    pair = pair_of(eqn, lambda *values: bound(eqn, values))
    return [deferred(pair, operands, i, y) if held[i] else y for i, y in enumerate(results)]


def _branches(
    kinds: ImplicitAvals, wanted: RequestedResults
) -> tuple[list[Transformed], tuple[bool, ...]]:
    """Return the branches, and in which of the results they differ."""
    made = [transformed(x, kinds, wanted) for x in wanted.eqn.params["branches"]]
    mixed = [len(set(found)) > 1 for found in zip(*[x.kinds for x in made], strict=True)]
    return made, tuple(bool(x) for x in placed(wanted.used, mixed))


class LoopCarries:
    """The carries of a loop; those whose structure the body does not keep become whole.

    Args:
        eqn: The loop.
        carries: Their first values.
        used: Which results of the body are wanted: all carries, and some behind.
    """

    def __init__(self, eqn: JaxprEqn, carries: Sequence[Any], used: Sequence[bool]) -> None:
        self.eqn = eqn
        self.carries = list(carries)
        self.used = tuple(used)
        self.dense = [False] * len(used)

    def body(self, program: Any, before: ImplicitAvals, after: ImplicitAvals) -> Transformed:
        """Return the loop's body for carries whose structure it keeps.

        Args:
            program: It.
            before: What its parameters in front of the carries are.
            after: What those behind are.
        """
        while True:
            kinds = flatten(self.carries)[1]
            wanted = RequestedResults(self.eqn, self.used, tuple(self.dense))
            made = transformed(program, (*before, *kinds, *after), wanted)
            pairs = zip(kinds, made.kinds[: len(kinds)], strict=True)
            changed = [i for i, (now, later) in enumerate(pairs) if now != later]
            if not changed:
                self._settle(closed(program).in_avals[len(before) :])
                return made
            for i in changed:
                self.dense[i] = True
                self.carries[i] = materialized_for(self.carries[i], self.eqn)

    def _settle(self, avals: Sequence[Any]) -> None:
        """Give carries that became whole the very type that the body has."""
        for i, is_dense in enumerate(self.dense[: len(self.carries)]):
            if is_dense:
                self.carries[i] = as_typed(self.carries[i], avals[i])


@rule("while")
def while_(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a while loop."""
    first = eqn.params["cond_nconsts"]
    second = first + eqn.params["body_nconsts"]
    tested, tested_kinds = flatten(operands[:first])
    used, used_kinds = flatten(operands[first:second])
    carried = LoopCarries(eqn, operands[second:], [True] * len(eqn.outvars))
    body = carried.body(eqn.params["body_jaxpr"], used_kinds, ())
    leaves, kinds = flatten(carried.carries)
    whole = RequestedResults(eqn, (True,), (True,))
    test = transformed(eqn.params["cond_jaxpr"], (*tested_kinds, *kinds), whole).report()
    body.report()
    return rebound(
        eqn,
        [*test.consts, *tested, *body.consts, *used, *leaves],
        kinds,
        cond_jaxpr=test.program,
        body_jaxpr=body.program,
        cond_nconsts=len(test.consts) + len(tested),
        body_nconsts=len(body.consts) + len(used),
    )


@rule("scan")
def scan(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a scan; implicit stacks have a leading axis too."""
    parts, length = Scan.of(eqn, operands), eqn.params["length"]
    parts = parts.indexed([i for i, x in enumerate(parts.rows) if _is_indexed(x, length)])
    count = len(parts.carries)
    consts, const_kinds = flatten(parts.consts)
    rows, row_kinds = flatten([_stacked(eqn, x) for x in parts.rows])
    elements = tuple(kind and element(kind, length) for kind in row_kinds)
    used = (*[True] * count, *used_results(eqn)[count:])
    carried = LoopCarries(eqn, parts.carries, used)
    body = carried.body(parts.body, const_kinds, elements)
    while loose := _loose(carried, body, length):
        for i in loose:
            carried.dense[i] = True
        body = carried.body(parts.body, const_kinds, elements)
    body.report()
    leaves, kinds = flatten(carried.carries)
    stacks = tuple(kind and stack(kind, length) for kind in body.kinds[count:])
    found = parts.again(body.program, [*body.consts, *consts], leaves, rows)
    return placed(used, unflatten((*kinds, *stacks), found))


def _is_indexed(x: Any, length: int) -> bool:
    """Whether an operand is an implicit array that is no stack and that a handler can index."""
    (kind,) = flatten([x])[1]
    if kind is None or not length or element(kind, length):
        return False

    def run(step: Any, *leaves: Any) -> Any:
        take = partial(lax.dynamic_index_in_dim, keepdims=False)
        return flatten([called(take, (kind.treedef.build(leaves), step), {})])[0]

    try:
        with deferred_reports() as reports:
            jax.make_jaxpr(run)(jax.core.ShapedArray((), jnp.uint32), *kind.avals)
    except MaterializeError:
        return False
    return not reports


def _stacked(eqn: JaxprEqn, x: Any) -> Any:
    """Return a sequence of the loop: an array, or a stack of implicit ones."""
    (kind,) = flatten([x])[1]
    is_stack = kind is None or element(kind, eqn.params["length"])
    return x if is_stack else materialized_for(x, eqn)


def _loose(carried: LoopCarries, body: Transformed, length: int) -> list[int]:
    """Return the body's implicit results that cannot be stacked, by index."""
    kinds = placed(carried.used, body.kinds)[len(carried.carries) :]
    places = enumerate(kinds, len(carried.carries))
    return [i for i, kind in places if kind is not None and stack(kind, length) is None]
