"""The dense values of a mask function, for every query and key."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from graphc.attention.jax_arrays import jax_arrays
from graphc.attention.mods import mask_of, tiled
from graphc.capture import Lifted
from graphc.ir import Graph, Leaf, toposort
from graphc.loop.evaluate import evaluate
from graphc.tensor.core.tensor import as_tensor


def dense(mask: Lifted, shape: tuple[int, int, int, int]) -> np.ndarray[Any, Any]:
    """A mask function's values.

    Args:
        mask: The function, which captures arrays of known values.
        shape: Batch, heads, queries, keys.

    Returns:
        bool, of that shape.
    """
    indices = [np.arange(n, dtype=np.int32) for n in shape]
    try:
        mod = mask_of(mask)
    except Exception:
        if "jax" not in sys.modules:
            raise
        # A function written for JAX takes no symbolic scalars.
        return np.asarray(jax_arrays().mask_values(mask, indices))
    kept = tiled(mod.graph, mod.captured, [as_tensor(i) for i in indices])
    leaves = {x: x.op.array for x in toposort([kept]) if isinstance(x.op, Leaf)}
    (values,) = evaluate(Graph(leaves, [kept]), *leaves.values())
    return np.broadcast_to(values, shape)
