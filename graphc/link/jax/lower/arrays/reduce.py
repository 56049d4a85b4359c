"""Reductions in ``jax.lax``."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from graphc.link.jax.backend import backend
from graphc.tensor.arrays.reduce import (
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
from graphc.tensor.core.elementwise import wide_dtype


@backend.lower(Sum, Prod)
def sum_or_product(op: Reduction, x: Any) -> Any:
    """Sum or multiply along axes; half-width floats in float32."""
    dtype = x.dtype
    wide = np.dtype(wide_dtype(dtype))
    reduce = lax.reduce_sum if isinstance(op, Sum) else lax.reduce_prod
    y = reduce(lax.convert_element_type(x, wide), op.axes)
    return lax.convert_element_type(y, dtype)


@backend.lower(Extreme)
def extreme(op: Extreme, x: Any) -> Any:
    """Reduce by max or min; an empty slice raises as in NumPy."""
    op.refuse_empty(x.shape)
    return (lax.reduce_max if isinstance(op, Max) else lax.reduce_min)(x, op.axes)


@backend.lower(All)
def all(op: All, x: Any) -> Any:
    return lax.reduce_and(x, op.axes)


@backend.lower(Any_)
def any(op: Any_, x: Any) -> Any:
    return lax.reduce_or(x, op.axes)


@backend.lower(ArgExtreme)
def arg_extreme(op: ArgExtreme, x: Any) -> Any:
    """Return the index of the first extreme value, or of the first NaN."""
    Max((op.axis,)).refuse_empty(x.shape)
    find = lax.argmax if isinstance(op, ArgMax) else lax.argmin
    return find(x, op.axis, np.int64)
