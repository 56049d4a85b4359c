"""Arrays made by a rule."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from graphc.ir import dtype_name
from graphc.link.mlx.arrays import device_array, dtype_of
from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.arrays.diagonal import on_diagonal
from graphc.tensor.arrays.create import Arange, Eye, StaticArange
from graphc.tensor.core.shape import target_shape

EXACT = 2**53
"""MLX counts in float64, which holds all integers up to this one."""


@backend.lower(Arange)
def arange(op: Arange, start: Any, stop: Any, step: Any) -> Any:
    """The three are known while MLX traces, so the length is."""
    return counted(op.perform(start, stop, step))


@backend.lower(StaticArange)
def static_arange(op: StaticArange) -> Any:
    """The numbers are part of the graph."""
    return counted(op.perform())


def counted(values: np.ndarray[Any, Any]) -> Any:
    """Evenly spaced values: whole numbers are counted on the device rather than passed to it."""
    if not len(values):
        return mx.zeros((0,), dtype_of(dtype_name(values.dtype)))
    if values.dtype.kind not in "iu" or max(abs(int(values[0])), abs(int(values[-1]))) >= EXACT:
        return device_array(values)
    first, last = int(values[0]), int(values[-1])
    step = int(values[1]) - first if len(values) > 1 else 1
    return mx.arange(first, last + step, step, dtype_of(dtype_name(values.dtype)))


@backend.lower(Eye)
def eye(op: Eye, *symbolic: Any) -> Any:
    """Ones on a diagonal."""
    n, m = target_shape(op.shape, symbolic)
    return on_diagonal(mx.ones((1,), dtype_of(op.dtype)), n, m, op.offset)
