"""Orders of axes, in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, Ragged, agree, cut, make_ragged, rule, unequal
from graphc.link.jax.symbolic import has_symbols
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.shape import are_equal


@backend.lower(ExpandDims)
def expand_dims(op: ExpandDims, x: Any) -> Any:
    return lax.expand_dims(x, op.axes)


@backend.lower(Squeeze)
def squeeze(op: Squeeze, x: Any) -> Any:
    if has_symbols([x]) and not all(are_equal(x.shape[axis], 1) for axis in op.axes):
        raise ValueError(f"axes {op.axes} of a shape {x.shape} are not of length 1")
    return lax.squeeze(x, op.axes)


@backend.lower(Transpose)
def transpose(op: Transpose, x: Any) -> Any:
    return lax.transpose(x, op.axes)


@rule(ExpandDims, Squeeze, Transpose)
def ragged_axes(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Insert, remove or permute the axes of a buffer and of its lengths."""
    (x,) = values
    assert isinstance(x, Ragged)
    buffer = x.buffer
    shape: list[Any] = list(x.shape)
    match node.op:
        case ExpandDims(axes):
            for axis in sorted(axes):
                shape.insert(axis, 1)
        case Squeeze(axes):
            for axis in axes:
                agree(shape[axis], 1, unequal(node))
                buffer = cut(buffer, 1, axis)
            shape = [n for i, n in enumerate(shape) if i not in axes]
        case Transpose(axes):
            shape = [shape[i] for i in axes]
    return make_ragged(lowering(node.op, buffer), shape, x.fill)
