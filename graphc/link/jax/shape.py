"""The same elements in another shape, in ``jax.lax``; lengths are Python integers here."""

from __future__ import annotations

from typing import Any

from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.shape import Reshape


@backend.lower(Reshape)
def reshape(op: Reshape, x: Any, *symbolic: Any) -> Any:
    """The elements in row-major order."""
    return lax.reshape(x, op.target(x.shape, symbolic))
