"""Indices that are to be within a length: those known while JAX traces are checked."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from graphc.link.jax.backend import backend
from graphc.tensor.select import Within


@backend.lower(Within)
def within(op: Within, i: Any, n: Any) -> Any:
    """Others are taken on trust."""
    if isinstance(i, np.ndarray | np.generic) and isinstance(n, np.ndarray | np.generic | int):
        return op.perform(np.asarray(i), np.asarray(n))
    return jnp.broadcast_to(i, np.broadcast_shapes(i.shape, np.shape(n)))
