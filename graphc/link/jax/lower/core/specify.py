"""Checks of an array's lengths, which are known while JAX traces."""

from __future__ import annotations

from typing import Any

from graphc.link.jax.backend import backend
from graphc.tensor.core.specify import SpecifyShape


@backend.lower(SpecifyShape)
def specify_shape(op: SpecifyShape, x: Any, *symbolic: Any) -> Any:
    """Return the array; raise where its lengths differ."""
    op.admit(x.shape, symbolic)
    return x
