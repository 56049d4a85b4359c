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
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from graphc.link.jax.implicit.interpreter import bind_equation
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
    probes = {n: _zeros(e.outvars[0].aval) for read in reads for n, e in (read or {}).items()}

    def add_probes(scaled: Any, captured: Sequence[Any], probes: Mapping[int, Any]) -> Any:
        pairs = zip(captured, reads, strict=True)
        arrays = [x if read is None else lax.stop_gradient(x) for x, read in pairs]
        return _run(program, (scaled, *arrays), probes)

    score, pull, indices = jax.vjp(add_probes, scaled, list(captured), probes, has_aux=True)

    def back(g: Any) -> tuple[Any, list[Adder]]:
        by_scaled, by_arrays, by_probes = pull(g)
        pairs = zip(by_arrays, reads, strict=True)
        return by_scaled, [_adder(x, read, indices, by_probes) for x, read in pairs]

    return score, back


def _zeros(aval: Any) -> Any:
    return vary_as(jnp.zeros(aval.shape, aval.dtype), aval)


def _reads(jaxpr: Jaxpr, x: Any) -> dict[int, JaxprEqn] | None:
    """Return the equations that gather from x, by index; None if x has another use."""
    if any(y is x for y in jaxpr.outvars):
        return None
    reads = {n: e for n, e in enumerate(jaxpr.eqns) if any(y is x for y in e.invars)}
    are_gathers = all(e.primitive.name == "gather" and e.invars[0] is x for e in reads.values())
    return reads if are_gathers else None


def _run(
    program: ClosedJaxpr, operands: Sequence[Any], probes: Mapping[int, Any]
) -> tuple[Any, dict[int, Any]]:
    """Return a program's result, with probes added to the results of gathers, and their indices."""
    jaxpr = program.jaxpr
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, program.consts, strict=True))
    values.update(zip(jaxpr.invars, operands, strict=True))
    indices = {}

    def read(x: Any) -> Any:
        return x.val if isinstance(x, Literal) else values[x]

    for n, eqn in enumerate(jaxpr.eqns):
        inputs = [read(x) for x in eqn.invars]
        with eqn.ctx.manager:
            results = bind_equation(eqn, inputs)
        if n in probes:
            results = [results[0] + probes[n]]
            indices[n] = inputs[1]
        values.update(zip(eqn.outvars, results, strict=True))
    (result,) = jaxpr.outvars
    return read(result), indices


def _adder(
    full_gradient: Any,
    reads: Mapping[int, JaxprEqn] | None,
    indices: Mapping[int, Any],
    by_probes: Mapping[int, Any],
) -> Adder:
    def add(total: Any) -> Any:
        if reads is None:
            return total + full_gradient.astype(total.dtype)
        for n, eqn in reads.items():
            total = _scatter_add(total, eqn, indices[n], by_probes[n])
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
