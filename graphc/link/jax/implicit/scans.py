"""The operands and parameters of a scan equation, in any supported version of JAX.

JAX up to 0.10 counts the operands that are constants and carries. In later versions, ranks show
which operands the loop runs over, and a traced scan shows whether carries precede constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, jaxpr_as_fun

from graphc.link.jax.implicit.partition import aval_of
from graphc.link.jax.implicit.transform import as_closed

COUNTS = {"num_consts", "num_carry"}


@dataclass(frozen=True)
class Scan:
    """A loop over leading axes.

    Attributes:
        eqn: The equation.
        body: The program of constants, carries and elements, which returns carries and rows.
        consts: The operands that are the same in each step.
        carries: The initial values of the carries.
        rows: The operands that the loop runs over.
    """

    eqn: JaxprEqn
    body: ClosedJaxpr
    consts: Sequence[Any]
    carries: Sequence[Any]
    rows: Sequence[Any]

    @classmethod
    def of(cls, eqn: JaxprEqn, operands: Sequence[Any]) -> Scan:
        """Split the operands of a scan equation."""
        body = as_closed(eqn.params["jaxpr"])
        if eqn.params.keys() >= COUNTS:
            first = eqn.params["num_consts"]
            second = first + eqn.params["num_carry"]
            return cls(eqn, body, operands[:first], operands[first:second], operands[second:])
        groups = _operand_groups(eqn, body)
        order = [i for group in groups for i in group]
        if order != list(range(len(operands))):
            body = _reorder_parameters(body, order)
        return cls(eqn, body, *[[operands[i] for i in group] for group in groups])

    def with_indexed_rows(self, indexed: Sequence[int]) -> Scan:
        """Return the scan with some rows as constants, of which each step indexes its element.

        Args:
            indexed: The indices of these rows in ``rows``.
        """
        if not indexed:
            return self
        count, length = len(self.consts), self.eqn.params["length"]
        others = [i for i in range(len(self.rows)) if i not in indexed]
        splits = count, count + len(indexed), len(self.carries) + count + len(indexed)

        def run(*values: Any) -> Any:
            consts, stacks = values[: splits[0]], values[splits[0] : splits[1]]
            carries, (step, *other_rows) = values[splits[1] : splits[2]], values[splits[2] :]
            indexed_rows = [lax.dynamic_index_in_dim(x, step, keepdims=False) for x in stacks]
            row_of = dict(zip([*indexed, *others], [*indexed_rows, *other_rows], strict=True))
            rows = [row_of[i] for i in range(len(row_of))]
            return jaxpr_as_fun(self.body)(*consts, *carries, *rows)

        avals = list(self.body.in_avals)
        first = len(avals) - len(self.rows)
        body_avals = [
            *[*avals[:count], *[aval_of(self.rows[i]) for i in indexed], *avals[count:first]],
            *[jax.core.ShapedArray((), jnp.uint32), *[avals[first + i] for i in others]],
        ]
        consts = [*self.consts, *[self.rows[i] for i in indexed]]
        rows = [lax.iota(jnp.uint32, length), *[self.rows[i] for i in others]]
        body = jax.make_jaxpr(run)(*body_avals)
        return Scan(self.eqn, body, consts, self.carries, rows)

    def rebind(
        self, body: ClosedJaxpr, consts: Sequence[Any], carries: Sequence[Any], rows: Sequence[Any]
    ) -> Sequence[Any]:
        """Bind the scan with another body and other arrays."""
        params: dict[str, Any] = dict(self.eqn.params)
        if not params.keys() >= COUNTS:
            return self._scan(body, consts, carries, rows)
        params |= {"jaxpr": body, "num_consts": len(consts), "num_carry": len(carries)}
        if "linear" in params:
            params["linear"] = (False,) * (len(consts) + len(carries) + len(rows))
        primitive: Any = self.eqn.primitive
        results: Sequence[Any] = primitive.bind(*consts, *carries, *rows, **params)
        return results

    def _scan(
        self, body: ClosedJaxpr, consts: Sequence[Any], carries: Sequence[Any], rows: Sequence[Any]
    ) -> Sequence[Any]:
        step = jaxpr_as_fun(body)

        def run(carry: Sequence[Any], elements: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            results = list(step(*consts, *carry, *elements))
            return results[: len(carry)], results[len(carry) :]

        names = ("length", "reverse", "unroll", "_split_transpose")
        settings = {name: self.eqn.params[name] for name in names if name in self.eqn.params}
        last, stacks = lax.scan(run, list(carries), list(rows), **settings)
        return [*last, *stacks]


def _operand_groups(eqn: JaxprEqn, body: ClosedJaxpr) -> tuple[list[int], list[int], list[int]]:
    """Return the indices of the operands that are constants, carries and rows."""
    body_ranks = list(map(_rank, body.in_avals))
    ranks = [_rank(x.aval) for x in eqn.invars]
    rows = [i for i, n in enumerate(ranks) if n != body_ranks[i]]
    others = [i for i, n in enumerate(ranks) if n == body_ranks[i]]
    results = zip(eqn.outvars, body.out_avals, strict=True)
    count = sum(_rank(x.aval) == _rank(aval) for x, aval in results)
    if _carries_first():
        return others[count:], others[:count], rows
    return others[: len(others) - count], others[len(others) - count :], rows


def _rank(aval: Any) -> int:
    return len(aval.shape)


@cache
def _carries_first() -> bool:
    """Return whether the carries of a scan are operands before its constants."""

    def scan(const: Any, carry: Any) -> Any:
        return lax.scan(lambda c, _: (c + const.sum(), None), carry, length=2)

    types = [jax.core.ShapedArray((n,), jnp.float32) for n in (2, 3)]
    (eqn,) = [x for x in jax.make_jaxpr(scan)(*types).eqns if x.primitive.name == "scan"]
    lengths: list[Any] = [x.aval.shape for x in eqn.invars]
    return lengths.index((3,)) < lengths.index((2,))


def _reorder_parameters(body: ClosedJaxpr, order: Sequence[int]) -> ClosedJaxpr:
    def run(*values: Any) -> Any:
        value_of = dict(zip(order, values, strict=True))
        return jaxpr_as_fun(body)(*[value_of[i] for i in range(len(values))])

    return jax.make_jaxpr(run)(*[body.in_avals[i] for i in order])
