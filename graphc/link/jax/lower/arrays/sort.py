"""Sorting in ``jax.lax`` and ``jax.numpy``; unique values are computed on the host."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, Ragged, inner, make_ragged, rule, unknown_length_error
from graphc.link.jax.counts import as_count
from graphc.link.jax.symbolic import has_symbols
from graphc.tensor.arrays.reduce import dtype_range
from graphc.tensor.arrays.sort import ArgSort, SearchSorted, Sort


@backend.lower(Sort)
def sort(op: Sort, x: Any) -> Any:
    """Sort; NaN comes last."""
    return lax.sort(x, dimension=op.axis)


@backend.lower(ArgSort)
def argsort(op: ArgSort, x: Any) -> Any:
    """Sort indices along with elements; equal elements keep their order."""
    indices = lax.broadcasted_iota(np.int64, x.shape, op.axis)
    return lax.sort((x, indices), dimension=op.axis, num_keys=1)[1]


@backend.lower(SearchSorted)
def searchsorted(op: SearchSorted, x: Any, v: Any) -> Any:
    """Search one vector at a time."""

    def search(x: Any, v: Any) -> Any:
        return jnp.searchsorted(x, v, side=op.side)

    if has_symbols([x]):
        search = partial(_bisect, right=op.right)
    for _ in range(op.batched):
        search = jax.vmap(search)
    return lax.convert_element_type(search(jnp.asarray(x), v), np.int64)


def _bisect(x: Any, v: Any, *, right: bool) -> Any:
    """Search a vector of symbolic length by bisection."""

    def is_open(ends: Any) -> Any:
        return ends[0] < ends[1]

    def step(ends: Any) -> Any:
        low, high = ends
        middle = (low + high) // 2
        # NumPy's order: NaN is greater than all else.
        element = x[middle]
        is_nan, v_is_nan = element != element, v != v  # noqa: PLR0124
        before = (element < v) | (v_is_nan & ~is_nan)
        if right:
            before |= (element == v) | (v_is_nan & is_nan)
        return (
            jnp.where(is_open(ends) & before, middle + 1, low),
            jnp.where(is_open(ends) & ~before, middle, high),
        )

    low = jnp.zeros(v.shape, np.int64)
    return lax.while_loop(
        lambda ends: jnp.any(is_open(ends)), step, (low, low + jnp.asarray(x.shape[0]))
    )[0]


def greatest(dtype: Any) -> Any:
    """Return a value that no element is sorted behind."""
    if dtype.kind == "c":
        return complex(np.nan, np.nan)
    return np.nan if dtype.kind in "fV" else dtype_range(dtype)[1]


@rule(Sort, ArgSort)
def ragged_sort(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Sort a ragged array; unused elements come last, equal ones keep their order."""
    op: Any = node.op
    (x,) = values
    assert isinstance(x, Ragged)
    axes = [axis for axis in x.axes if axis == op.axis]
    return make_ragged(lowering(op, x.with_padding(greatest(x.dtype), axes)), x.shape)


@rule(SearchSorted)
def ragged_searchsorted(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Search a ragged vector; no index exceeds its length."""
    op: Any = node.op
    x, v = values
    if op.batched or (isinstance(x, Ragged) and x.dtype.kind not in "fiu"):
        raise unknown_length_error(node)
    n = x.shape[0]
    buffer = x.with_padding(greatest(x.dtype)) if isinstance(x, Ragged) else x
    indices = lax.min(lowering(op, buffer, inner(v)), jnp.asarray(as_count(n).value))
    return make_ragged(indices, v.shape)
