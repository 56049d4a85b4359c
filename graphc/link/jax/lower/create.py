"""Ranges, identity matrices, diagonals, repetition and implicit arrays, in ``jax.lax``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim

from graphc.implicit.node import Implicit
from graphc.ir import numpy_dtype
from graphc.link.jax.backend import backend
from graphc.link.jax.symbolic import has_symbols, most as larger_length
from graphc.tensor.arrays.create import Arange, Eye, StaticArange
from graphc.tensor.arrays.diagonal import FromDiagonal, MatrixDiagonal, diagonal_length
from graphc.tensor.core.shape import as_length, target_shape


@backend.lower(Arange)
def arange(op: Arange, start: Any, stop: Any, step: Any) -> Any:
    """Lower arange; its operands are known while JAX traces, and so is the length."""
    if not has_symbols((start, stop, step)):
        return device_range(op.perform(start, stop, step))
    start, stop, step = map(as_length, (start, stop, step))
    if is_symbolic_dim(step) or not step:
        raise ValueError(f"arange with the step {step}")
    span = stop - start if step > 0 else start - stop
    steps = lax.iota(numpy_dtype(op.dtype), (larger_length(span, 0) - 1) // abs(step) + 1)
    return lax.add(lax.mul(steps, _scalar(step, steps)), _scalar(start, steps))


def _scalar(n: Any, like: Any) -> Any:
    return jnp.asarray(n, like.dtype)


@backend.lower(StaticArange)
def static_arange(op: StaticArange) -> Any:
    """Lower arange with numbers that the operation holds."""
    return device_range(op.perform())


def device_range(values: np.ndarray[Any, Any]) -> Any:
    """Return evenly spaced values, computed on the device rather than copied to it."""
    if len(values) < 2 or values.dtype.kind not in "iu":
        return values
    step = values[1] - values[0]
    return lax.add(lax.mul(lax.iota(values.dtype, len(values)), step), values[0])


@backend.lower(Eye)
def eye(op: Eye, *symbolic: Any) -> Any:
    n, m = target_shape(op.shape, symbolic)
    return jnp.eye(n, m, op.offset, numpy_dtype(op.dtype))


@backend.lower(MatrixDiagonal)
def diagonal(op: MatrixDiagonal, x: Any) -> Any:
    """Read a diagonal: its elements lie one row and one column apart."""
    *batch, n, m = x.shape
    count = diagonal_length(n, m, op.offset)
    first = op.offset if op.offset >= 0 else -op.offset * m
    flat = lax.reshape(x, (*batch, n * m))
    if not count:
        return lax.slice_in_dim(flat, 0, 0, axis=-1)
    end = first + (count - 1) * (m + 1) + 1
    return lax.slice_in_dim(flat, first, end, m + 1, axis=-1)


@backend.lower(FromDiagonal)
def from_diagonal(op: FromDiagonal, v: Any, *symbolic: Any) -> Any:
    """Broadcast each element over its row, and select the diagonal."""
    count = v.shape[-1]
    n, m = op.target(count, symbolic)
    before = min(max(-op.offset, 0), n)
    zero = np.zeros((), v.dtype)
    batch_padding = [(0, 0, 0)] * (v.ndim - 1)
    rows = lax.pad(v, zero, [*batch_padding, (before, n - count - before, 0)])
    shape = (*v.shape[:-1], n, m)
    distance = lax.broadcasted_iota(np.int32, (n, m), 1) - lax.broadcasted_iota(np.int32, (n, m), 0)
    is_diagonal = lax.broadcast_in_dim(distance == op.offset, shape, (v.ndim - 1, v.ndim))
    full = lax.broadcast_in_dim(rows, shape, range(v.ndim))
    return lax.select(is_diagonal, full, lax.full_like(full, 0))


@backend.lower(Implicit)
def implicit(op: Implicit, *fields: Any) -> Any:
    return op.treedef.build(fields)
