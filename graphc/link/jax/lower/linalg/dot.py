"""Products over axes in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, common, make_ragged, rule, zero_beyond
from graphc.tensor.linalg.dot import DotGeneral


@backend.lower(DotGeneral)
def dot_general(op: DotGeneral, a: Any, b: Any) -> Any:
    """Contract; for bools, count the true products in int32."""
    logical = a.dtype.kind == "b"
    if logical:
        a, b = (lax.convert_element_type(x, np.int32) for x in (a, b))
    y = lax.dot_general(a, b, (op.contract, op.batch_axes), preferred_element_type=a.dtype)
    return lax.ne(y, np.int32(0)) if logical else y


@rule(DotGeneral)
def ragged_dot_general(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Contract ragged arrays; unused elements are zero along summed axes."""
    op: Any = node.op
    operands, batch = list(values), []
    for pair in zip(*op.batch_axes, strict=True):
        operands, n = common(node, operands, pair)
        batch.append(n)
    for pair in zip(*op.contract, strict=True):
        operands, _ = common(node, operands, pair)
    numbered = list(enumerate(operands))
    free = [x.shape[axis] for side, x in numbered for axis in op.free(side, x.ndim)]
    buffers = [zero_beyond(x, op.contract[side]) for side, x in numbered]
    return make_ragged(lowering(op, *buffers), [*batch, *free])
