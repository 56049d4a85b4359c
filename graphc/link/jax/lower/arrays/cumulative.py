"""Running sums, products and extremes in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, Ragged, aligned, inner, ragged, rule, within
from graphc.link.jax.counts import Count, minus
from graphc.tensor.arrays.coupled import CoupledRecurrence
from graphc.tensor.arrays.cumulative import CumMax, CumMin, CumProd, CumSum, Cumulative, Recurrence
from graphc.tensor.arrays.reduce import dtype_range
from graphc.tensor.core.elementwise import widened

ACCUMULATE = {
    CumSum: lax.cumsum,
    CumProd: lax.cumprod,
    CumMax: lax.cummax,
    CumMin: lax.cummin,
}


@backend.lower(Cumulative)
def accumulate(op: Cumulative, x: Any) -> Any:
    """Accumulate along an axis; half-width floats in float32, bools as numbers."""
    wide = np.dtype(np.uint8) if x.dtype == bool else np.dtype(widened(x.dtype))
    y = ACCUMULATE[type(op)](lax.convert_element_type(x, wide), op.axis, op.reverse)
    return lax.convert_element_type(y, x.dtype)


@backend.lower(Recurrence)
def recurrence(op: Recurrence, a: Any, b: Any) -> Any:
    """Compute y -> a * y + b by an associative scan of logarithmic depth."""
    wide = np.dtype(widened(b.dtype))

    def joined(first: Any, then: Any) -> Any:
        return then[0] * first[0], then[0] * first[1] + then[1]

    steps = tuple(lax.convert_element_type(x, wide) for x in (a, b))
    if is_symbolic_dim(a.shape[op.axis]):
        y = _one_by_one(lambda a, y, b: a * y + b, *steps, axis=op.axis, reverse=op.reverse)
        return lax.convert_element_type(y, b.dtype)
    y = lax.associative_scan(joined, steps, reverse=op.reverse, axis=op.axis)[1]
    return lax.convert_element_type(y, b.dtype)


def _one_by_one(step: Callable[..., Any], a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    """Compute it element after element, as a tree of them has a length that is known."""
    n = jnp.asarray(b.shape[axis])

    def body(i: Any, y: Any) -> Any:
        at, before = (n - 1 - i, n - i) if reverse else (i, i - 1)
        parts = [lax.dynamic_index_in_dim(x, k, axis) for x, k in ((a, at), (y, before), (b, at))]
        return lax.dynamic_update_index_in_dim(y, step(*parts), at, axis)

    return lax.fori_loop(1, n, body, b)


@backend.lower(CoupledRecurrence)
def coupled_recurrence(op: CoupledRecurrence, a: Any, b: Any) -> Any:
    """Join steps as matrices and vectors, with the axis of steps first."""
    wide = np.dtype(widened(b.dtype))

    def moved(a: Any, y: Any, b: Any) -> Any:
        return jnp.einsum("npq...,nq...->np...", a, y) + b

    def joined(first: Any, then: Any) -> Any:
        product = jnp.einsum("npq...,nqr...->npr...", then[0], first[0])
        return product, moved(then[0], first[1], then[1])

    steps = tuple(jnp.moveaxis(lax.convert_element_type(x, wide), -1, 0) for x in (a, b))
    if is_symbolic_dim(b.shape[-1]):
        y = _one_by_one(moved, *steps, axis=0, reverse=op.reverse)
    else:
        y = lax.associative_scan(joined, steps, reverse=op.reverse)[1]
    return lax.convert_element_type(jnp.moveaxis(y, 0, -1), b.dtype)


@rule(Cumulative)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Accumulate a ragged array; from the end, unused elements are neutral."""
    op: Any = node.op
    (x,) = values
    assert isinstance(x, Ragged)
    buffer = x.buffer
    if op.reverse and op.axis in x.axes:
        lowest, highest = dtype_range(x.dtype)
        neutral = {CumSum: 0, CumProd: 1, CumMax: lowest, CumMin: highest}
        buffer = x.filled(neutral[type(op)], [op.axis])
    return ragged(lowering(op, buffer), x.shape)


@rule(Recurrence)
def of_ragged_factors(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Accumulate ragged factors; from the end, unused elements contribute nothing."""
    op: Any = node.op
    found, shape = aligned(node, values, node.inputs)
    a, b = [inner(x) for x in found]
    if op.reverse and isinstance(shape[op.axis], Count):
        # The last factor has nothing to multiply, whatever it is.
        a = _first(a, op.axis, minus(shape[op.axis], 1))
        b = _first(b, op.axis, shape[op.axis])
    return ragged(lowering(op, a, b), shape)


def _first(buffer: Any, axis: int, count: Any) -> Any:
    """The first elements of a buffer, and zeros."""
    return jnp.where(within(buffer.shape, axis, count), buffer, np.zeros((), buffer.dtype))
