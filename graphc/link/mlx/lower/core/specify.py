"""Lengths that an array must have: they are known while MLX traces."""

from __future__ import annotations

from typing import Any

from graphc.link.mlx.backend import backend
from graphc.tensor.core.specify import SpecifyShape


@backend.lower(SpecifyShape)
def specify_shape(op: SpecifyShape, x: Any, *symbolic: Any) -> Any:
    """The array itself, if it has them."""
    op.admit(x.shape, symbolic)
    return x
