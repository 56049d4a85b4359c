"""Orders of axes: views."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose


@backend.lower(ExpandDims)
def expand_dims(op: ExpandDims, x: Any) -> Any:
    """New axes of length 1."""
    return mx.expand_dims(x, op.axes)


@backend.lower(Squeeze)
def squeeze(op: Squeeze, x: Any) -> Any:
    """Without axes of length 1."""
    return mx.squeeze(x, op.axes)


@backend.lower(Transpose)
def transpose(op: Transpose, x: Any) -> Any:
    """The axes in another order."""
    return mx.transpose(x, op.axes)
