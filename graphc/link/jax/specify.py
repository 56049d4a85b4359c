"""Lengths that an array must have: they are known while JAX traces."""

from __future__ import annotations

from typing import Any

from graphc.link.jax.backend import backend
from graphc.tensor.specify import SpecifyShape


@backend.lower(SpecifyShape)
def specify_shape(op: SpecifyShape, x: Any, *symbolic: Any) -> Any:
    """The array itself, if it has them."""
    op.admit(x.shape, symbolic)
    return x
