"""Gradients of arrays that a score function captures, added where a block reads them.

The gradient of an array that is only indexed, as ``bias[h, q, k]``, is added to the elements that a
block reads. Any other array gets a gradient of its full size from each block: a value that depends
on no index is better computed before it is captured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from graphc.link.jax.jaxprs import bind_equation, live_equations, walk
from graphc.link.jax.varying import vary_as

Adder = Callable[[Any], Any]
"""A function that adds a block's gradient to a total."""


def pullback(
    function: Callable[..., Any], scaled: Any, captured: Sequence[Any]
) -> tuple[Any, Callable[[Any], tuple[Any, list[Adder]]]]:
    """Return a function's result, and its pullback.

    Args:
        function: A function of ``scaled`` and the captured arrays.
        scaled: The scaled products of a block.
        captured: The arrays that have gradients.

    Returns:
        The result, and a function of its cotangent, which returns the gradient with respect to
        ``scaled``, and for each captured array a function that adds its gradient to a total.
    """
    program = jax.make_jaxpr(function)(scaled, *captured)
    variables = program.jaxpr.invars[1:]
    reads = [_reads(program.jaxpr, x) for x in variables]
    gathers = [y for read in reads for y in read or {}]

    def add_probes(scaled: Any, captured: Sequence[Any], probes: Sequence[Any]) -> Any:
        pairs = zip(captured, reads, strict=True)
        arrays = [x if read is None else lax.stop_gradient(x) for x, read in pairs]
        return _run(program, (scaled, *arrays), dict(zip(gathers, probes, strict=True)))

    zeros = [_zeros(y.aval) for y in gathers]
    score, pull, positions = jax.vjp(add_probes, scaled, list(captured), zeros, has_aux=True)
    indices = dict(zip(gathers, positions, strict=True))

    def back(g: Any) -> tuple[Any, list[Adder]]:
        by_scaled, by_arrays, by_gathers = pull(g)
        by_probes = dict(zip(gathers, by_gathers, strict=True))
        pairs = zip(by_arrays, reads, strict=True)
        return by_scaled, [_adder(x, read, indices, by_probes) for x, read in pairs]

    return score, back


def _zeros(aval: Any) -> Any:
    return vary_as(jnp.zeros(aval.shape, aval.dtype), aval)


def _reads(jaxpr: Jaxpr, x: Any) -> dict[Any, JaxprEqn] | None:
    """Return the equations that gather from x, by result; None if x has another use."""
    if any(y is x for y in jaxpr.outvars):
        return None
    equations = [e for e in live_equations(jaxpr) if any(y is x for y in e.invars)]
    reads = {e.outvars[0]: e for e in equations}
    are_gathers = all(e.primitive.name == "gather" and e.invars[0] is x for e in reads.values())
    return reads if are_gathers else None


def _run(
    program: ClosedJaxpr, operands: Sequence[Any], probes: Mapping[Any, Any]
) -> tuple[Any, list[Any]]:
    """Return a program's result, with probes added to the results of gathers, and their indices."""
    indices = {}

    def visit(eqn: JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        with eqn.ctx.manager:
            results = bind_equation(eqn, inputs)
        y = eqn.outvars[0]
        if y in probes:
            indices[y] = inputs[1]
            return [results[0] + probes[y]]
        return results

    (result,) = walk(program, operands, visit)
    return result, [indices[y] for y in probes]


def _adder(
    full_gradient: Any,
    reads: Mapping[Any, JaxprEqn] | None,
    indices: Mapping[Any, Any],
    by_probes: Mapping[Any, Any],
) -> Adder:
    def add(total: Any) -> Any:
        if reads is None:
            return total + full_gradient.astype(total.dtype)
        for y, eqn in reads.items():
            total = _scatter_add(total, eqn, indices[y], by_probes[y])
        return total

    return add


def _scatter_add(total: Any, eqn: JaxprEqn, indices: Any, g: Any) -> Any:
    """Add gradients to a total where elements were gathered: the transpose of a gather."""
    dimensions = eqn.params["dimension_numbers"]
    scatter_dimensions = lax.ScatterDimensionNumbers(
        update_window_dims=dimensions.offset_dims,
        inserted_window_dims=dimensions.collapsed_slice_dims,
        scatter_dims_to_operand_dims=dimensions.start_index_map,
        operand_batching_dims=dimensions.operand_batching_dims,
        scatter_indices_batching_dims=dimensions.start_indices_batching_dims,
    )
    return lax.scatter_add(
        total,
        indices,
        g.astype(total.dtype),
        scatter_dimensions,
        indices_are_sorted=eqn.params["indices_are_sorted"],
        unique_indices=eqn.params["unique_indices"],
        mode=eqn.params["mode"],
    )
