"""The same elements in another shape; lengths are Python integers here."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.link.mlx.arrays import reshaped
from graphc.link.mlx.backend import backend
from graphc.tensor.core.shape import Length, Reshape


@backend.lower(Reshape)
def reshape(op: Reshape, x: Any, *symbolic: Any) -> Any:
    """The elements in row-major order."""
    return reshaped(x, op.target(x.shape, symbolic))


@backend.lower(Length)
def length(op: Length, x: Any) -> Any:
    """Known while MLX traces."""
    return np.asarray(x.shape[op.axis], np.int64)
