"""Loops over leading axes: the operands and parameters of a scan equation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, jaxpr_as_fun

from graphc.link.jax.implicit.partition import aval_of
from graphc.link.jax.releases import bind_scan, scan_operands


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
        body, groups = scan_operands(eqn)
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
        return bind_scan(self.eqn, body, consts, carries, rows)
