"""Reshapes, axes, lengths, and declared shapes and shardings; lengths are Python integers here."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from graphc.link.mlx.arrays import reshape_array
from graphc.link.mlx.backend import backend
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.shape import Length, Reshape
from graphc.tensor.core.sharding import Shard
from graphc.tensor.core.specify import SpecifyShape


@backend.lower(Reshape)
def reshape(op: Reshape, x: Any, *symbolic: Any) -> Any:
    """Return the elements in another shape, in row-major order."""
    return reshape_array(x, op.target(x.shape, symbolic))


@backend.lower(Length)
def length(op: Length, x: Any) -> Any:
    """Return a length, which is known while MLX traces."""
    return np.asarray(x.shape[op.axis], np.int64)


@backend.lower(SpecifyShape)
def specify_shape(op: SpecifyShape, x: Any, *symbolic: Any) -> Any:
    """Return the array itself; raise if it has other lengths."""
    op.admit(x.shape, symbolic)
    return x


@backend.lower(ExpandDims)
def expand_dims(op: ExpandDims, x: Any) -> Any:
    """Insert axes of length 1."""
    return mx.expand_dims(x, op.axes)


@backend.lower(Squeeze)
def squeeze(op: Squeeze, x: Any) -> Any:
    """Remove axes of length 1."""
    return mx.squeeze(x, op.axes)


@backend.lower(Transpose)
def transpose(op: Transpose, x: Any) -> Any:
    """Permute the axes."""
    return mx.transpose(x, op.axes)


@backend.lower(Shard)
def shard(op: Shard, x: Any) -> Any:
    """Return the array itself: MLX has no mesh of devices."""
    return x
