"""Loops and branches with implicit operands.

A carry stays implicit if the body returns it with the structure that the carry has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, jaxpr_as_fun

from graphc.errors import MaterializeError
from graphc.implicit.policy import deferred_reports
from graphc.link.jax.implicit.avals import ImplicitAvals, element, flatten, stack, unflatten
from graphc.link.jax.implicit.calls import fill_unused, rebind
from graphc.link.jax.implicit.interpreter import (
    as_typed,
    materialize_for,
    rule,
)
from graphc.link.jax.implicit.partition import aval_of
from graphc.link.jax.implicit.trace import trace_and_run
from graphc.link.jax.implicit.transform import (
    RequestedResults,
    TransformedProgram,
    transform,
)
from graphc.link.jax.jaxprs import replace_at, used_results
from graphc.link.jax.releases import as_closed, bind_scan, scan_operands


@rule("cond")
def cond(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a branch; a result is implicit if all branches return the same structure."""
    index, *rest = operands
    leaves, kinds = flatten(rest)
    used = used_results(eqn)
    none = (False,) * len(used)
    branches, differ = _branches(kinds, RequestedResults(eqn, used, none))
    if any(differ):
        branches, _ = _branches(kinds, RequestedResults(eqn, used, differ))
    arrays = [materialize_for(index, eqn), *leaves]
    programs = tuple(x.report().closed for x in branches)
    return fill_unused(used, rebind(eqn, arrays, branches[0].kinds, branches=programs))


def _branches(
    kinds: ImplicitAvals, requested: RequestedResults
) -> tuple[list[TransformedProgram], tuple[bool, ...]]:
    """Return the branches, and for each result whether its structure differs between them."""
    branches = [transform(x, kinds, requested) for x in requested.eqn.params["branches"]]
    differ = [len(set(result)) > 1 for result in zip(*[x.kinds for x in branches], strict=True)]
    return branches, tuple(bool(x) for x in fill_unused(requested.used, differ))


class LoopCarries:
    """The carries of a loop; carries whose structure the body does not keep are densified.

    Args:
        eqn: The loop's equation.
        carries: The initial values.
        used: For each result of the body, whether it is used; all carries are.
    """

    def __init__(self, eqn: JaxprEqn, carries: Sequence[Any], used: Sequence[bool]) -> None:
        self.eqn = eqn
        self.carries = list(carries)
        self.used = tuple(used)
        self.dense = [False] * len(used)

    def body(self, program: Any, before: ImplicitAvals, after: ImplicitAvals) -> TransformedProgram:
        """Return the loop's body for carries whose structure it keeps.

        Args:
            program: The body.
            before: The abstract values of the parameters in front of the carries.
            after: The abstract values of the parameters behind the carries.
        """
        while True:
            kinds = flatten(self.carries)[1]
            requested = RequestedResults(self.eqn, self.used, tuple(self.dense))
            body = transform(program, (*before, *kinds, *after), requested)
            pairs = zip(kinds, body.kinds[: len(kinds)], strict=True)
            changed = [i for i, (kind, new_kind) in enumerate(pairs) if kind != new_kind]
            if not changed:
                # Densified carries get the types of the body's parameters.
                avals = as_closed(program).in_avals[len(before) :]
                for i in [i for i in range(len(self.carries)) if self.dense[i]]:
                    self.carries[i] = as_typed(self.carries[i], avals[i])
                return body
            for i in changed:
                self.dense[i] = True
                self.carries[i] = materialize_for(self.carries[i], self.eqn)


@rule("while")
def while_(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a while loop."""
    first = eqn.params["cond_nconsts"]
    second = first + eqn.params["body_nconsts"]
    cond_consts, cond_kinds = flatten(operands[:first])
    body_consts, body_kinds = flatten(operands[first:second])
    carries = LoopCarries(eqn, operands[second:], [True] * len(eqn.outvars))
    body = carries.body(eqn.params["body_jaxpr"], body_kinds, ())
    leaves, kinds = flatten(carries.carries)
    dense = RequestedResults(eqn, (True,), (True,))
    test = transform(eqn.params["cond_jaxpr"], (*cond_kinds, *kinds), dense).report()
    body.report()
    return rebind(
        eqn,
        [*test.consts, *cond_consts, *body.consts, *body_consts, *leaves],
        kinds,
        cond_jaxpr=test.program,
        body_jaxpr=body.program,
        cond_nconsts=len(test.consts) + len(cond_consts),
        body_nconsts=len(body.consts) + len(body_consts),
    )


@rule("scan")
def scan(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """Run a scan; stacks of implicit arrays have a leading axis too."""
    program, groups = scan_operands(eqn)
    consts, init, rows = [[operands[i] for i in group] for group in groups]
    length, count = eqn.params["length"], len(init)
    if indexed := [i for i, x in enumerate(rows) if _must_be_indexed(x, length)]:
        program, consts, rows = _index_rows(program, consts, rows, indexed, length)
    consts, const_kinds = flatten(consts)
    rows, row_kinds = flatten([_as_stack(eqn, x) for x in rows])
    elements = tuple(kind and element(kind, length) for kind in row_kinds)
    used = (*[True] * count, *used_results(eqn)[count:])
    carries = LoopCarries(eqn, init, used)
    body = carries.body(program, const_kinds, elements)
    while unstackable := _unstackable_results(carries, body, length):
        for i in unstackable:
            carries.dense[i] = True
        body = carries.body(program, const_kinds, elements)
    body.report()
    leaves, kinds = flatten(carries.carries)
    stacks = tuple(kind and stack(kind, length) for kind in body.kinds[count:])
    results = bind_scan(eqn, body.program, [*body.consts, *consts], leaves, rows)
    return fill_unused(used, unflatten((*kinds, *stacks), results))


def _index_rows(
    body: ClosedJaxpr, consts: list[Any], rows: list[Any], indexed: Sequence[int], length: int
) -> tuple[ClosedJaxpr, list[Any], list[Any]]:
    """Return a scan with some rows as constants, of which each step indexes its element.

    Args:
        body: The program of constants, carries and elements, which returns carries and rows.
        consts: The constants.
        rows: The operands that the scan runs over.
        indexed: The indices of the new constants in ``rows``.
        length: The number of steps.
    """
    first, last, stacks = len(consts), len(body.in_avals) - len(rows), [rows[i] for i in indexed]
    others = [i for i in range(len(rows)) if i not in indexed]

    def run(*values: Any) -> Any:
        carries = values[first + len(indexed) : last + len(indexed)]
        step, *elements = values[last + len(indexed) :]
        taken = [
            lax.dynamic_index_in_dim(x, step, keepdims=False)
            for x in values[first : first + len(indexed)]
        ]
        elements = replace_at(rows, [*indexed, *others], [*taken, *elements])
        return jaxpr_as_fun(body)(*values[:first], *carries, *elements)

    avals = list(body.in_avals)
    counter: Any = jax.core.ShapedArray((), jnp.uint32)
    elements = [counter, *[avals[last + i] for i in others]]
    types = [*avals[:first], *map(aval_of, stacks), *avals[first:last], *elements]
    others_rows = [lax.iota(jnp.uint32, length), *[rows[i] for i in others]]
    return jax.make_jaxpr(run)(*types), [*consts, *stacks], others_rows


def _must_be_indexed(x: Any, length: int) -> bool:
    """Return whether x is an implicit array that is not a stack, and that a handler can index."""
    (kind,) = flatten([x])[1]
    if kind is None or not length or element(kind, length):
        return False

    def run(step: Any, *leaves: Any) -> Any:
        take = partial(lax.dynamic_index_in_dim, keepdims=False)
        return flatten([trace_and_run(take, (kind.treedef.build(leaves), step), {})])[0]

    try:
        with deferred_reports() as reports:
            jax.make_jaxpr(run)(jax.core.ShapedArray((), jnp.uint32), *kind.avals)
    except MaterializeError:
        return False
    return not reports


def _as_stack(eqn: JaxprEqn, x: Any) -> Any:
    """Return an operand that the loop runs over as an array, or as a stack of implicit arrays."""
    (kind,) = flatten([x])[1]
    is_stack = kind is None or element(kind, eqn.params["length"])
    return x if is_stack else materialize_for(x, eqn)


def _unstackable_results(carries: LoopCarries, body: TransformedProgram, length: int) -> list[int]:
    """Return the indices of the body's implicit results that cannot be stacked."""
    count = len(carries.carries)
    kinds = enumerate(fill_unused(carries.used, body.kinds)[count:], count)
    return [i for i, kind in kinds if kind is not None and stack(kind, length) is None]
