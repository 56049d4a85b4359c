"""Ranges and identity matrices in ``jax.lax``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.export import is_symbolic_dim

from graphc.ir import numpy_dtype
from graphc.link.jax.backend import backend
from graphc.link.jax.symbolic import has_symbols, most as larger_length
from graphc.tensor.arrays.create import Arange, Eye, StaticArange
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
    """Return ones on a diagonal, zeros elsewhere."""
    n, m = target_shape(op.shape, symbolic)
    return jnp.eye(n, m, op.offset, numpy_dtype(op.dtype))
