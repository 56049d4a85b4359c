"""Ranges, identity matrices and diagonals."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from graphc.ir import dtype_name
from graphc.link.mlx.arrays import device_array, dtype_of
from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.index import replace_part
from graphc.tensor.arrays.create import Arange, Eye, StaticArange
from graphc.tensor.arrays.diagonal import Diagonal, FromDiagonal, diagonal_length
from graphc.tensor.core.shape import target_shape

EXACT = 2**53
"""MLX counts in float64, which is exact for integers below this one."""


@backend.lower(Arange)
def arange(op: Arange, start: Any, stop: Any, step: Any) -> Any:
    """Return a range; its limits are known while MLX traces."""
    return count_on_device(op.perform(start, stop, step))


@backend.lower(StaticArange)
def static_arange(op: StaticArange) -> Any:
    return count_on_device(op.perform())


def count_on_device(values: np.ndarray[Any, Any]) -> Any:
    """Return evenly spaced values; the device counts integers, so that no values are copied."""
    if not len(values):
        return mx.zeros((0,), dtype_of(dtype_name(values.dtype)))
    if values.dtype.kind not in "iu" or max(abs(int(values[0])), abs(int(values[-1]))) >= EXACT:
        return device_array(values)
    first, last = int(values[0]), int(values[-1])
    step = int(values[1]) - first if len(values) > 1 else 1
    return mx.arange(first, last + step, step, dtype_of(dtype_name(values.dtype)))


@backend.lower(Eye)
def eye(op: Eye, *symbolic: Any) -> Any:
    n, m = target_shape(op.shape, symbolic)
    return on_diagonal(mx.ones((1,), dtype_of(op.dtype)), n, m, op.offset)


@backend.lower(Diagonal)
def diagonal(op: Diagonal, x: Any) -> Any:
    """Return a diagonal of the last two axes by a gather: a reshape may copy all elements."""
    *batch, n, m = x.shape
    count = diagonal_length(n, m, op.offset)
    if not count:
        return mx.zeros((*batch, 0), x.dtype)
    return mx.diagonal(x, op.offset, -2, -1)


@backend.lower(FromDiagonal)
def from_diagonal(op: FromDiagonal, v: Any, *symbolic: Any) -> Any:
    """Return zeros with values on a diagonal."""
    return on_diagonal(v, *op.target(v.shape[-1], symbolic), op.offset)


def on_diagonal(v: Any, n: int, m: int, offset: int) -> Any:
    """Return matrices of zeros with values broadcast to a diagonal.

    In row-major order, the elements of a diagonal are one row and one column apart.
    """
    count = diagonal_length(n, m, offset)
    first = offset if offset >= 0 else -offset * m
    indices = range(first, first + count * (m + 1), m + 1) if count else range(0)
    batch = v.shape[:-1]
    flat = mx.zeros((*batch, n * m), v.dtype)
    ranges = [*map(range, batch), indices]
    return mx.reshape(replace_part(flat, ranges, v), (*batch, n, m))
