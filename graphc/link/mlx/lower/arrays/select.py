"""Indices that are to be within a length: those known on the host are checked."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from graphc.link.mlx.arrays import device_array
from graphc.link.mlx.backend import backend
from graphc.tensor.arrays.select import CheckedIndices


@backend.lower(CheckedIndices)
def checked_indices(op: CheckedIndices, i: Any, n: Any) -> Any:
    """Others are taken on trust."""
    if isinstance(i, np.ndarray | np.generic) and isinstance(n, np.ndarray | np.generic):
        return op.perform(np.asarray(i), np.asarray(n))
    shape = np.broadcast_shapes(i.shape, n.shape)
    return i if i.shape == shape else mx.broadcast_to(device_array(i), shape)
