"""Arrays made by a rule, in ``jax.lax``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.ir import numpy_dtype
from graphc.link.jax.backend import backend
from graphc.tensor.create import Arange, Eye, StaticArange
from graphc.tensor.shape import target_shape


@backend.lower(Arange)
def arange(op: Arange, start: Any, stop: Any, step: Any) -> Any:
    """The three are known while JAX traces, so the length is."""
    return counted(op.perform(start, stop, step))


@backend.lower(StaticArange)
def static_arange(op: StaticArange) -> Any:
    """The numbers are part of the graph."""
    return counted(op.perform())


def counted(values: np.ndarray[Any, Any]) -> Any:
    """Evenly spaced values, counted on the device rather than passed to it."""
    if len(values) < 2 or values.dtype.kind not in "iu":
        return values
    step = values[1] - values[0]
    return lax.add(lax.mul(lax.iota(values.dtype, len(values)), step), values[0])


@backend.lower(Eye)
def eye(op: Eye, *symbolic: Any) -> Any:
    """Ones on a diagonal."""
    n, m = target_shape(op.shape, symbolic)
    return jnp.eye(n, m, op.offset, numpy_dtype(op.dtype))
