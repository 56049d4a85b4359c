"""Gradients of arrays that a score function captures, added where a block reads them.

The gradient of an array that is only looked up, as ``bias[h, q, k]``, is added to the elements that
a block reads. An array that is computed with first gets a gradient of its full size from each
block: what depends on no index is better computed before it is captured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from graphc.link.jax.implicit.interpreter import bound
from graphc.link.jax.varying import vary_as

Adder = Callable[[Any], Any]
"""A function that adds a block's gradient to a total."""


def pulled(
    function: Callable[..., Any], scaled: Any, captured: Sequence[Any]
) -> tuple[Any, Callable[[Any], tuple[Any, list[Adder]]]]:
    """A function's result, and its pullback.

    Args:
        function: Of ``scaled`` and the captured arrays.
        scaled: The products of a block.
        captured: The arrays that have gradients.

    Returns:
        The result, and a function of its cotangent: it returns the gradient of ``scaled``, and for
        each captured array a function that adds its gradient to a total.
    """
    program = jax.make_jaxpr(function)(scaled, *captured)
    variables = program.jaxpr.invars[1:]
    reads = [_reads(program.jaxpr, x) for x in variables]
    probes = {n: _zeros(eqn.outvars[0].aval) for found in reads for n, eqn in (found or {}).items()}

    def probed(scaled: Any, captured: Sequence[Any], probes: Mapping[int, Any]) -> Any:
        pairs = zip(captured, reads, strict=True)
        given = [x if found is None else lax.stop_gradient(x) for x, found in pairs]
        return _run(program, (scaled, *given), probes)

    score, pull, indices = jax.vjp(probed, scaled, list(captured), probes, has_aux=True)

    def back(g: Any) -> tuple[Any, list[Adder]]:
        by_scaled, by_whole, by_probes = pull(g)
        pairs = zip(by_whole, reads, strict=True)
        return by_scaled, [_adder(x, found, indices, by_probes) for x, found in pairs]

    return score, back


def _zeros(aval: Any) -> Any:
    return vary_as(jnp.zeros(aval.shape, aval.dtype), aval)


def _reads(jaxpr: Jaxpr, x: Any) -> dict[int, JaxprEqn] | None:
    """The equations that look up elements of x, by number; None where x has another use."""
    if any(y is x for y in jaxpr.outvars):
        return None
    found = {n: e for n, e in enumerate(jaxpr.eqns) if any(y is x for y in e.invars)}
    looked_up = all(e.primitive.name == "gather" and e.invars[0] is x for e in found.values())
    return found if looked_up else None


def _run(
    program: ClosedJaxpr, operands: Sequence[Any], probes: Mapping[int, Any]
) -> tuple[Any, dict[int, Any]]:
    """A program's result, with probes added to the results of lookups; and their indices."""
    jaxpr = program.jaxpr
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, program.consts, strict=True))
    known.update(zip(jaxpr.invars, operands, strict=True))
    indices = {}

    def read(x: Any) -> Any:
        return x.val if isinstance(x, Literal) else known[x]

    for n, eqn in enumerate(jaxpr.eqns):
        given = [read(x) for x in eqn.invars]
        with eqn.ctx.manager:
            results = bound(eqn, given)
        if n in probes:
            results = [results[0] + probes[n]]
            indices[n] = given[1]
        known.update(zip(eqn.outvars, results, strict=True))
    (result,) = jaxpr.outvars
    return read(result), indices


def _adder(
    whole: Any,
    reads: Mapping[int, JaxprEqn] | None,
    indices: Mapping[int, Any],
    by_probes: Mapping[int, Any],
) -> Adder:
    def added(total: Any) -> Any:
        if reads is None:
            return total + whole.astype(total.dtype)
        for n, eqn in reads.items():
            total = _scattered(total, eqn, indices[n], by_probes[n])
        return total

    return added


def _scattered(total: Any, eqn: JaxprEqn, indices: Any, g: Any) -> Any:
    """A total with gradients added where elements were looked up: the transpose of a gather."""
    there = eqn.params["dimension_numbers"]
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=there.offset_dims,
        inserted_window_dims=there.collapsed_slice_dims,
        scatter_dims_to_operand_dims=there.start_index_map,
        operand_batching_dims=there.operand_batching_dims,
        scatter_indices_batching_dims=there.start_indices_batching_dims,
    )
    return lax.scatter_add(
        total,
        indices,
        g.astype(total.dtype),
        numbers,
        indices_are_sorted=eqn.params["indices_are_sorted"],
        unique_indices=eqn.params["unique_indices"],
        mode=eqn.params["mode"],
    )
