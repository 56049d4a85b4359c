"""Running sums, products and extremes in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim

from graphc.link.jax.backend import backend
from graphc.tensor.arrays.coupled import CoupledRecurrence
from graphc.tensor.arrays.cumulative import CumMax, CumMin, CumProd, CumSum, Cumulative, Recurrence
from graphc.tensor.core.elementwise import wide_dtype

ACCUMULATE = {
    CumSum: lax.cumsum,
    CumProd: lax.cumprod,
    CumMax: lax.cummax,
    CumMin: lax.cummin,
}


@backend.lower(Cumulative)
def accumulate(op: Cumulative, x: Any) -> Any:
    """Accumulate along an axis; half-width floats in float32, bools as numbers."""
    wide = np.dtype(np.uint8) if x.dtype == bool else np.dtype(wide_dtype(x.dtype))
    y = ACCUMULATE[type(op)](lax.convert_element_type(x, wide), op.axis, op.reverse)
    return lax.convert_element_type(y, x.dtype)


@backend.lower(Recurrence)
def recurrence(op: Recurrence, a: Any, b: Any) -> Any:
    """Compute y -> a * y + b by an associative scan of logarithmic depth."""
    wide = np.dtype(wide_dtype(b.dtype))

    steps = tuple(lax.convert_element_type(x, wide) for x in (a, b))
    # A product of many factors may be infinite though each factor is finite: zeros stay zero.
    are_finite = ~jnp.any(jnp.isinf(steps[0]))

    def times(factor: Any, y: Any) -> Any:
        return jnp.where(jnp.isinf(factor) & (y == 0) & are_finite, y, factor * y)

    def compose(earlier: Any, later: Any) -> Any:
        return later[0] * earlier[0], times(later[0], earlier[1]) + later[1]

    if is_symbolic_dim(a.shape[op.axis]):
        y = _scan_one_by_one(lambda a, y, b: a * y + b, *steps, axis=op.axis, reverse=op.reverse)
        return lax.convert_element_type(y, b.dtype)
    y = lax.associative_scan(compose, steps, reverse=op.reverse, axis=op.axis)[1]
    return lax.convert_element_type(y, b.dtype)


def _scan_one_by_one(step: Callable[..., Any], a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    """Apply steps in turn: an associative scan needs a static length."""
    n = jnp.asarray(b.shape[axis])

    def body(i: Any, y: Any) -> Any:
        current, previous = (n - 1 - i, n - i) if reverse else (i, i - 1)
        pairs = ((a, current), (y, previous), (b, current))
        operands = [lax.dynamic_index_in_dim(x, k, axis) for x, k in pairs]
        return lax.dynamic_update_index_in_dim(y, step(*operands), current, axis)

    return lax.fori_loop(1, n, body, b)


@backend.lower(CoupledRecurrence)
def coupled_recurrence(op: CoupledRecurrence, a: Any, b: Any) -> Any:
    """Compute y -> a @ y + b by an associative scan over the last axis."""
    wide = np.dtype(wide_dtype(b.dtype))

    def advance(a: Any, y: Any, b: Any) -> Any:
        return jnp.einsum("npq...,nq...->np...", a, y) + b

    def compose(earlier: Any, later: Any) -> Any:
        product = jnp.einsum("npq...,nqr...->npr...", later[0], earlier[0])
        return product, advance(later[0], earlier[1], later[1])

    steps = tuple(jnp.moveaxis(lax.convert_element_type(x, wide), -1, 0) for x in (a, b))
    if is_symbolic_dim(b.shape[-1]):
        y = _scan_one_by_one(advance, *steps, axis=0, reverse=op.reverse)
    else:
        y = lax.associative_scan(compose, steps, reverse=op.reverse)[1]
    return lax.convert_element_type(jnp.moveaxis(y, 0, -1), b.dtype)
