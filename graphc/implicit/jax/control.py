"""Loops and branches entered: their programs run with implicit arrays.

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
from graphc.implicit.jax.calls import placed, rebound
from graphc.implicit.jax.interpreter import as_typed, materialized_for, rule, used_results
from graphc.implicit.jax.kinds import Kinds, flatten, unflatten
from graphc.implicit.jax.scans import Scan
from graphc.implicit.jax.stacks import element, stack
from graphc.implicit.jax.trace import called
from graphc.implicit.jax.transform import Transformed, Wanted, closed, transformed
from graphc.implicit.policy import untold

__all__ = ["Carried"]


@rule("cond")
def cond(eqn: JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
    """A branch: a result is implicit where all branches give it in the same form."""
    index, *rest = operands
    leaves, kinds = flatten(rest)
    branches, used = eqn.params["branches"], used_results(eqn)
    made = [transformed(x, kinds, Wanted.of(eqn)) for x in branches]
    mixed = [len(set(found)) > 1 for found in zip(*[x.kinds for x in made], strict=True)]
    if any(mixed):
        wanted = Wanted(eqn, used, tuple(bool(x) for x in placed(used, mixed)))
        made = [transformed(x, kinds, wanted) for x in branches]
    given = [materialized_for(index, eqn), *leaves]
    programs = tuple(x.tell().whole for x in made)
    return placed(used, rebound(eqn, given, made[0].kinds, branches=programs))


class Carried:
    """The carries of a loop, made whole as far as the loop's body does not keep their forms.

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

    def body(self, program: Any, before: Kinds, after: Kinds) -> Transformed:
        """The body, for carries that it keeps.

        Args:
            program: It.
            before: What its parameters in front of the carries are.
            after: What those behind are.
        """
        while True:
            kinds = flatten(self.carries)[1]
            wanted = Wanted(self.eqn, self.used, tuple(self.dense))
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
    """A loop that goes on while a condition holds."""
    first = eqn.params["cond_nconsts"]
    second = first + eqn.params["body_nconsts"]
    tested, tested_kinds = flatten(operands[:first])
    used, used_kinds = flatten(operands[first:second])
    carried = Carried(eqn, operands[second:], [True] * len(eqn.outvars))
    body = carried.body(eqn.params["body_jaxpr"], used_kinds, ())
    leaves, kinds = flatten(carried.carries)
    whole = Wanted(eqn, (True,), (True,))
    test = transformed(eqn.params["cond_jaxpr"], (*tested_kinds, *kinds), whole).tell()
    body.tell()
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
    """A loop over the leading axis, which implicit arrays have that are stacks."""
    parts, length = Scan.of(eqn, operands), eqn.params["length"]
    parts = parts.indexed([i for i, x in enumerate(parts.rows) if _is_indexed(x, length)])
    count = len(parts.carries)
    consts, const_kinds = flatten(parts.consts)
    rows, row_kinds = flatten([_stacked(eqn, x) for x in parts.rows])
    elements = tuple(kind and element(kind, length) for kind in row_kinds)
    used = (*[True] * count, *used_results(eqn)[count:])
    carried = Carried(eqn, parts.carries, used)
    body = carried.body(parts.body, const_kinds, elements)
    while loose := _loose(carried, body, length):
        for i in loose:
            carried.dense[i] = True
        body = carried.body(parts.body, const_kinds, elements)
    body.tell()
    leaves, kinds = flatten(carried.carries)
    stacks = tuple(kind and stack(kind, length) for kind in body.kinds[count:])
    found = parts.again(body.program, [*body.consts, *consts], leaves, rows)
    return placed(used, unflatten((*kinds, *stacks), found))


def _is_indexed(x: Any, length: int) -> bool:
    """Whether it is an implicit array that is no stack, of which a handler gives each element."""
    (kind,) = flatten([x])[1]
    if kind is None or not length or element(kind, length):
        return False

    def run(step: Any, *leaves: Any) -> Any:
        take = partial(lax.dynamic_index_in_dim, keepdims=False)
        return flatten([called(take, (kind.form.build(leaves), step), {})])[0]

    try:
        with untold() as told:
            jax.make_jaxpr(run)(jax.core.ShapedArray((), jnp.uint32), *kind.avals)
    except MaterializeError:
        return False
    return not told


def _stacked(eqn: JaxprEqn, x: Any) -> Any:
    """What a loop goes over: an array, or a stack of implicit ones."""
    (kind,) = flatten([x])[1]
    is_stack = kind is None or element(kind, eqn.params["length"])
    return x if is_stack else materialized_for(x, eqn)


def _loose(carried: Carried, body: Transformed, length: int) -> list[int]:
    """The places of the body's results that are implicit and make no stack."""
    kinds = placed(carried.used, body.kinds)[len(carried.carries) :]
    places = enumerate(kinds, len(carried.carries))
    return [i for i, kind in places if kind is not None and stack(kind, length) is None]
