"""Products over axes in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, common, ragged, rule, zero_beyond
from graphc.tensor.linalg.dot import DotGeneral


@backend.lower(DotGeneral)
def dot_general(op: DotGeneral, a: Any, b: Any) -> Any:
    """Contract; of bools, "or" of "and" by counting."""
    logical = a.dtype.kind == "b"
    if logical:
        a, b = (lax.convert_element_type(x, np.int32) for x in (a, b))
    y = lax.dot_general(a, b, (op.contract, op.batch_axes), preferred_element_type=a.dtype)
    return lax.ne(y, np.int32(0)) if logical else y


@rule(DotGeneral)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Contract ragged arrays; unused elements are zero along summed axes."""
    op: Any = node.op
    found, batch = list(values), []
    for pair in zip(*op.batch_axes, strict=True):
        found, n = common(node, found, pair)
        batch.append(n)
    for pair in zip(*op.contract, strict=True):
        found, _ = common(node, found, pair)
    sides = list(enumerate(found))
    free = [x.shape[axis] for side, x in sides for axis in op.free(side, x.ndim)]
    buffers = [zero_beyond(x, op.contract[side]) for side, x in sides]
    return ragged(lowering(op, *buffers), [*batch, *free])
