"""Sorting in ``jax.lax`` and ``jax.numpy``; unique values are computed on the host."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.backend import backend
from graphc.link.jax.symbolic import has_symbols
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
