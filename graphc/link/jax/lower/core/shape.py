"""Reshapes in ``jax.lax``; lengths are Python integers here."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.core.shape import Length, Reshape


@backend.lower(Reshape)
def reshape(op: Reshape, x: Any, *symbolic: Any) -> Any:
    """Reshape in row-major order."""
    return lax.reshape(x, op.target(x.shape, symbolic))


@backend.lower(Length)
def length(op: Length, x: Any) -> Any:
    """Return a length, which is known while JAX traces."""
    return np.asarray(x.shape[op.axis], np.int64)
