"""The value of a graph, by each operation's own NumPy reference: what every backend is held to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.ir import Leaf, Node, TupleType, numpy_dtype, toposort
from graphc.tensor.arrays.reduce import Composite

__all__ = ["evaluate"]


def evaluate(outputs: Sequence[Node], values: Mapping[Any, Any] | None = None) -> list[Any]:
    """The outputs for these values of inputs; each value found has its node's type."""
    known: dict[Any, Any] = {
        x: v if isinstance(x.type, TupleType) else np.asarray(v, numpy_dtype(x.type.dtype))
        for x, v in (values or {}).items()
    }
    with np.errstate(all="ignore"):
        for node in toposort(outputs, known):
            if isinstance(node.op, Leaf):
                known[node] = node.op.array
                continue
            given = [known[x] for x in node.inputs]
            if isinstance(node.op, Composite):
                made = node.op.expand(*node.inputs)
                (y,) = evaluate([made], known)
            else:
                y = node.op.perform(*given)
            known[node] = y if isinstance(node.type, TupleType) else _typed(node, y)
    return [known[y] for y in outputs]


def _typed(node: Node, y: Any) -> np.ndarray:
    y = np.asarray(y)
    assert y.dtype == numpy_dtype(node.type.dtype), (node, y.dtype)
    assert len(y.shape) == node.type.ndim, (node, y.shape)
    fits = [n in {None, m} for n, m in zip(node.type.shape, y.shape, strict=True)]
    assert all(fits), (node, y.shape)
    return y
