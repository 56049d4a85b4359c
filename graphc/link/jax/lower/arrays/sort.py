"""Sorting in ``jax.lax`` and ``jax.numpy``; unique values are found on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, Ragged, ragged, rule
from graphc.tensor.arrays.reduce import dtype_range
from graphc.tensor.arrays.sort import ArgSort, SearchSorted, Sort


@backend.lower(Sort)
def sort(op: Sort, x: Any) -> Any:
    """Sort; NaN comes last."""
    return lax.sort(x, dimension=op.axis)


@backend.lower(ArgSort)
def argsort(op: ArgSort, x: Any) -> Any:
    """Sort indices along with elements; equal elements keep their order."""
    places = lax.broadcasted_iota(np.int64, x.shape, op.axis)
    return lax.sort((x, places), dimension=op.axis, num_keys=1)[1]


@backend.lower(SearchSorted)
def searchsorted(op: SearchSorted, x: Any, v: Any) -> Any:
    """Search one vector at a time."""

    def search(x: Any, v: Any) -> Any:
        return jnp.searchsorted(x, v, side=op.side)

    for _ in range(op.batched):
        search = jax.vmap(search)
    return lax.convert_element_type(search(jnp.asarray(x), v), np.int64)


@rule(Sort, ArgSort)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Sort a ragged array; unused elements come last, equal ones keep their order."""
    op: Any = node.op
    (x,) = values
    assert isinstance(x, Ragged)
    last = np.nan if x.dtype.kind in "fc" else dtype_range(x.dtype)[1]
    buffer = x.filled(last) if x.axis == op.axis else x.buffer
    return ragged(lowering(op, buffer), x.count, x.axis)
