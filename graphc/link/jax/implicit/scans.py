"""The operands and parameters of a scan equation, in any supported version of JAX.

JAX up to 0.10 counts the operands that are constants and carries. Later, ranks tell
what is gone over, and a scan that is tried tells whether carries come before constants.
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
from graphc.link.jax.implicit.transform import closed

COUNTS = {"num_consts", "num_carry"}


@dataclass(frozen=True)
class Scan:
    """A loop over leading axes.

    Attributes:
        eqn: Its equation.
        body: Of constants, carries and elements, in this order; gives carries and rows.
        consts: The operands that are the same in each step.
        carries: The first values of carries.
        rows: The operands that it goes over.
    """

    eqn: JaxprEqn
    body: ClosedJaxpr
    consts: Sequence[Any]
    carries: Sequence[Any]
    rows: Sequence[Any]

    @classmethod
    def of(cls, eqn: JaxprEqn, operands: Sequence[Any]) -> Scan:
        """Split the operands of a scan equation."""
        body = closed(eqn.params["jaxpr"])
        if eqn.params.keys() >= COUNTS:
            first = eqn.params["num_consts"]
            second = first + eqn.params["num_carry"]
            return cls(eqn, body, operands[:first], operands[first:second], operands[second:])
        places = _places(eqn, body)
        order = [i for part in places for i in part]
        if order != list(range(len(operands))):
            body = _in_order(body, order)
        return cls(eqn, body, *[[operands[i] for i in part] for part in places])

    def indexed(self, places: Sequence[int]) -> Scan:
        """Make some sequences constants, whose element each step takes by index.

        Args:
            places: Which of ``rows``.
        """
        if not places:
            return self
        count, length = len(self.consts), self.eqn.params["length"]
        left = [i for i in range(len(self.rows)) if i not in places]
        splits = count, count + len(places), len(self.carries) + count + len(places)

        def run(*values: Any) -> Any:
            consts, whole = values[: splits[0]], values[splits[0] : splits[1]]
            carries, (step, *others) = values[splits[1] : splits[2]], values[splits[2] :]
            taken = [lax.dynamic_index_in_dim(x, step, keepdims=False) for x in whole]
            elements = dict(zip([*places, *left], [*taken, *others], strict=True))
            rows = [elements[i] for i in range(len(elements))]
            return jaxpr_as_fun(self.body)(*consts, *carries, *rows)

        avals = list(self.body.in_avals)
        first = len(avals) - len(self.rows)
        inside = [
            *[*avals[:count], *[aval_of(self.rows[i]) for i in places], *avals[count:first]],
            *[jax.core.ShapedArray((), jnp.uint32), *[avals[first + i] for i in left]],
        ]
        consts = [*self.consts, *[self.rows[i] for i in places]]
        rows = [lax.iota(jnp.uint32, length), *[self.rows[i] for i in left]]
        body = jax.make_jaxpr(run)(*inside)
        return Scan(self.eqn, body, consts, self.carries, rows)

    def again(
        self, body: ClosedJaxpr, consts: Sequence[Any], carries: Sequence[Any], rows: Sequence[Any]
    ) -> Sequence[Any]:
        """Bind the scan with another body and other arrays."""
        params: dict[str, Any] = dict(self.eqn.params)
        if not params.keys() >= COUNTS:
            return self._by_function(body, consts, carries, rows)
        params |= {"jaxpr": body, "num_consts": len(consts), "num_carry": len(carries)}
        if "linear" in params:
            params["linear"] = (False,) * (len(consts) + len(carries) + len(rows))
        primitive: Any = self.eqn.primitive
        found: Sequence[Any] = primitive.bind(*consts, *carries, *rows, **params)
        return found

    def _by_function(
        self, body: ClosedJaxpr, consts: Sequence[Any], carries: Sequence[Any], rows: Sequence[Any]
    ) -> Sequence[Any]:
        step = jaxpr_as_fun(body)

        def run(carry: Sequence[Any], elements: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            results = list(step(*consts, *carry, *elements))
            return results[: len(carry)], results[len(carry) :]

        known = ("length", "reverse", "unroll", "_split_transpose")
        settings = {name: self.eqn.params[name] for name in known if name in self.eqn.params}
        last, stacks = lax.scan(run, list(carries), list(rows), **settings)
        return [*last, *stacks]


def _places(eqn: JaxprEqn, body: ClosedJaxpr) -> tuple[list[int], list[int], list[int]]:
    """Return which operands are constants, carries and sequences."""
    inside = list(map(_rank, body.in_avals))
    outside = [_rank(x.aval) for x in eqn.invars]
    rows = [i for i, n in enumerate(outside) if n != inside[i]]
    fixed = [i for i, n in enumerate(outside) if n == inside[i]]
    results = zip(eqn.outvars, body.out_avals, strict=True)
    count = sum(_rank(x.aval) == _rank(aval) for x, aval in results)
    if _carries_first():
        return fixed[count:], fixed[:count], rows
    return fixed[: len(fixed) - count], fixed[len(fixed) - count :], rows


def _rank(aval: Any) -> int:
    return len(aval.shape)


@cache
def _carries_first() -> bool:
    """Whether the carries of a scan are operands before its constants."""

    def tried(const: Any, carry: Any) -> Any:
        return lax.scan(lambda c, _: (c + const.sum(), None), carry, length=2)

    types = [jax.core.ShapedArray((n,), jnp.float32) for n in (2, 3)]
    (eqn,) = [x for x in jax.make_jaxpr(tried)(*types).eqns if x.primitive.name == "scan"]
    lengths: list[Any] = [x.aval.shape for x in eqn.invars]
    return lengths.index((3,)) < lengths.index((2,))


def _in_order(body: ClosedJaxpr, order: Sequence[int]) -> ClosedJaxpr:
    """Reorder the parameters of a program."""

    def run(*values: Any) -> Any:
        given = dict(zip(order, values, strict=True))
        return jaxpr_as_fun(body)(*[given[i] for i in range(len(values))])

    return jax.make_jaxpr(run)(*[body.in_avals[i] for i in order])
