"""What a mask function gives for every query and key, one by one."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

from graphc.attention.mods import mask_of, tiled
from graphc.capture import Lifted
from graphc.errors import ArgumentError
from graphc.ir import Graph, Leaf, toposort
from graphc.loop.evaluate import evaluate
from graphc.tensor.tensor import as_tensor

__all__ = ["dense"]


def dense(mask: Lifted, shape: tuple[int, int, int, int]) -> np.ndarray[Any, Any]:
    """A mask function's values.

    Args:
        mask: It captures arrays whose values are known.
        shape: Batch, heads, queries, keys.

    Returns:
        bool, of that shape.
    """
    indices = [np.arange(n, dtype=np.int32) for n in shape]
    try:
        mod = mask_of(mask)
    except ArgumentError:
        if "jax" not in sys.modules:
            raise
        # One that is written in jax.numpy takes no symbolic scalars.
        jax = import_module("graphc.attention.jax.functions")
        function, captured = jax.MaskFunction(mask.stripped), jax.captured("mask_mod", mask)
        return np.asarray(jax.tiled(function, indices, captured))
    kept = tiled(mod.graph, mod.captured, [as_tensor(i) for i in indices])
    leaves = {x: x.op.array for x in toposort([kept]) if isinstance(x.op, Leaf)}
    (values,) = evaluate(Graph(leaves, [kept]), *leaves.values())
    return np.broadcast_to(values, shape)
