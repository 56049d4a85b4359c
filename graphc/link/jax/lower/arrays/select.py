"""Bounds checks of indices that are known while JAX traces."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from graphc.link.jax.backend import backend
from graphc.tensor.arrays.select import CheckedIndices


@backend.lower(CheckedIndices)
def checked_indices(op: CheckedIndices, i: Any, n: Any) -> Any:
    """Check known indices; traced ones are not checked."""
    if isinstance(i, np.ndarray | np.generic) and isinstance(n, np.ndarray | np.generic | int):
        return op.perform(np.asarray(i), np.asarray(n))
    return jnp.broadcast_to(i, jnp.broadcast_shapes(i.shape, jnp.shape(n)))
