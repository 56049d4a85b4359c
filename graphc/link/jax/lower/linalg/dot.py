"""Products over axes in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, Ragged, aligned, ragged, refused, rule
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
    a, b = values
    pairs = [*zip(*op.contract, strict=True), *zip(*op.batch_axes, strict=True)]
    own = [(a.axis if isinstance(a, Ragged) else None), (b.axis if isinstance(b, Ragged) else None)]
    joined = [pair for pair in pairs if pair[0] == own[0] or pair[1] == own[1]]
    if len(joined) > 1 or (not joined and None not in own):
        raise refused(node)
    axes = joined[0] if joined else own
    if any(k is not None and k != axis for k, axis in zip(own, axes, strict=True)):
        raise refused(node)
    buffers, count = aligned(node, values, axes)
    contracted = bool(joined) and joined[0] in [*zip(*op.contract, strict=True)]
    if contracted:
        filled = [Ragged(x, count, k).filled(0) for x, k in zip(buffers, axes, strict=True)]
        return lowering(op, *filled)
    return ragged(lowering(op, *buffers), count, _place(op, a.ndim, axes))


def _place(op: DotGeneral, ndim: int, axes: Sequence[int | None]) -> int:
    """Return the place in the result of an operand's free axis."""
    first, second = axes
    if first in op.batch_axes[0]:
        return op.batch_axes[0].index(first)
    if first is not None:
        free = [i for i in range(ndim) if i not in (*op.contract[0], *op.batch_axes[0])]
        return len(op.batch_axes[0]) + free.index(first)
    taken = (*op.contract[1], *op.batch_axes[1])
    assert second is not None
    before = sum(i not in taken for i in range(second))
    return ndim - len(op.contract[0]) + before
