"""Reductions in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import lax

from graphc.errors import RuntimeShapeError, ShapeError
from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Lowering,
    Ragged,
    at_least,
    ragged,
    rule,
)
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
    dtype_range,
)
from graphc.tensor.core.elementwise import widened


@backend.lower(Sum, Prod)
def add_up(op: Reduction, x: Any) -> Any:
    """Sum or multiply along axes; half-width floats in float32."""
    dtype = x.dtype
    wide = np.dtype(widened(dtype))
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
    """Whether all are true."""
    return lax.reduce_and(x, op.axes)


@backend.lower(Any_)
def any(op: Any_, x: Any) -> Any:
    """Whether any is true."""
    return lax.reduce_or(x, op.axes)


@backend.lower(ArgExtreme)
def arg_extreme(op: ArgExtreme, x: Any) -> Any:
    """Return the index of the first extreme value, or of the first NaN."""
    Max((op.axis,)).refuse_empty(x.shape)
    find = lax.argmax if isinstance(op, ArgMax) else lax.argmin
    return find(x, op.axis, np.int64)


def neutral(op: Reduction | ArgExtreme, dtype: Any) -> Any:
    """Return the neutral element of a reduction."""
    match op:
        case Sum() | Any_():
            return 0
        case Prod() | All():
            return 1
    lowest, highest = dtype_range(dtype)
    return lowest if isinstance(op, Max | ArgMax) else highest


@rule(Sum, Prod, Extreme, All, Any_, ArgExtreme)
def of_ragged(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Reduce a ragged array; unused elements are neutral."""
    op: Any = node.op
    (x,) = values
    assert isinstance(x, Ragged)
    axes = op.axes if isinstance(op, Reduction) else (op.axis,)
    if x.axis not in axes:
        axis = x.axis - sum(a < x.axis for a in axes)
        return ragged(lowering(op, x.buffer), x.count, axis)
    if isinstance(op, Extreme | ArgExtreme):
        extreme = op if isinstance(op, Extreme) else Max((op.axis,))
        empty = [0 if axis == x.axis else n for axis, n in enumerate(x.buffer.shape)]
        try:
            extreme.refuse_empty(empty)
        except ShapeError as error:
            found = RuntimeShapeError(error.problem, error.remedy, node.where)
            at_least(x.count, 1, lambda a, b: found)
    return lowering(op, x.filled(neutral(op, x.dtype)))
