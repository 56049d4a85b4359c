"""Orders of axes, in ``jax.lax``."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
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
