"""Orders of axes, in ``jax.lax``."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.axes import ExpandDims, Squeeze, Transpose


@backend.lower(ExpandDims)
def expand_dims(op: ExpandDims, x: Any) -> Any:
    """New axes of length 1."""
    return lax.expand_dims(x, op.axes)


@backend.lower(Squeeze)
def squeeze(op: Squeeze, x: Any) -> Any:
    """Without axes of length 1."""
    return lax.squeeze(x, op.axes)


@backend.lower(Transpose)
def transpose(op: Transpose, x: Any) -> Any:
    """The axes in another order."""
    return lax.transpose(x, op.axes)
