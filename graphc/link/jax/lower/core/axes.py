"""Orders of axes, in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax

from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import Lowering, Ragged, ragged, rule
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose


@backend.lower(ExpandDims)
def expand_dims(op: ExpandDims, x: Any) -> Any:
    """Insert axes of length 1."""
    return lax.expand_dims(x, op.axes)


@backend.lower(Squeeze)
def squeeze(op: Squeeze, x: Any) -> Any:
    """Remove axes of length 1."""
    return lax.squeeze(x, op.axes)


@backend.lower(Transpose)
def transpose(op: Transpose, x: Any) -> Any:
    """Permute axes."""
    return lax.transpose(x, op.axes)


@rule(ExpandDims, Squeeze, Transpose)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Move the axis of unknown length with the others."""
    (x,) = values
    assert isinstance(x, Ragged)
    places: list[Any] = list(range(x.ndim))
    match node.op:
        case ExpandDims(axes):
            for axis in sorted(axes):
                places.insert(axis, None)
        case Squeeze(axes):
            places = [i for i in places if i not in axes]
        case Transpose(axes):
            places = list(axes)
    return ragged(lowering(node.op, x.buffer), x.count, places.index(x.axis))
