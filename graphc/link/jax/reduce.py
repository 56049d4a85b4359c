"""Reductions in ``jax.lax``."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.elementwise import widened
from graphc.tensor.reduce import (
    All,
    Any_,
    ArgExtreme,
    ArgMax,
    Extreme,
    Max,
    Prod,
    Reduction,
    Sum,
)


@backend.lower(Sum, Prod)
def add_up(op: Reduction, x: Any) -> Any:
    """Half-width floats are added up, and multiplied, in float32."""
    dtype = x.dtype
    wide = np.dtype(widened(dtype))
    reduce = lax.reduce_sum if isinstance(op, Sum) else lax.reduce_prod
    y = reduce(lax.convert_element_type(x, wide), op.axes)
    return lax.convert_element_type(y, dtype)


@backend.lower(Extreme)
def extreme(op: Extreme, x: Any) -> Any:
    """An empty slice has no extreme value, and raises as in NumPy."""
    op.refuse_empty(x.shape)
    return (lax.reduce_max if isinstance(op, Max) else lax.reduce_min)(x, op.axes)


@backend.lower(All)
def all(op: All, x: Any) -> Any:
    """Whether all are true."""
    return lax.reduce_and(x, op.axes)


@backend.lower(Any_)
def any(op: Any_, x: Any) -> Any:
    """Whether any is true."""
    return lax.reduce_or(x, op.axes)


@backend.lower(ArgExtreme)
def arg_extreme(op: ArgExtreme, x: Any) -> Any:
    """The first of equal values, or the first NaN."""
    Max((op.axis,)).refuse_empty(x.shape)
    find = lax.argmax if isinstance(op, ArgMax) else lax.argmin
    return find(x, op.axis, np.int64)
