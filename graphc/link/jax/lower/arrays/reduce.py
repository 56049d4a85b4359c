"""Reductions in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from graphc.errors import GraphcError, RuntimeShapeError, ShapeError
from graphc.ir import Node
from graphc.link.jax.backend import backend
from graphc.link.jax.bounded import (
    Lowering,
    Ragged,
    at_least,
    make_ragged,
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


def identity(op: Reduction | ArgExtreme, dtype: Any) -> Any:
    """Return the identity element of a reduction."""
    match op:
        case Sum() | Any_():
            return 0
        case Prod() | All():
            return 1
    lowest, highest = dtype_range(dtype)
    return lowest if isinstance(op, Max | ArgMax) else highest


@rule(Sum, Prod, Extreme, All, Any_, ArgExtreme)
def ragged_reduce(node: Node, lowering: Lowering, values: Sequence[Any]) -> Any:
    """Reduce a ragged array; unused elements along its axes are the identity element."""
    op: Any = node.op
    (x,) = values
    assert isinstance(x, Ragged)
    axes = op.axes if isinstance(op, Reduction) else (op.axis,)
    if isinstance(op, Extreme | ArgExtreme):
        _refuse_empty(node, x, axes)
    number = identity(op, x.dtype)
    y = lowering(op, x.with_padding(number, [axis for axis in x.axes if axis in axes]))
    shape = [n for axis, n in enumerate(x.shape) if axis not in axes]
    has_fill = x.fill is not None and x.fill == number and not isinstance(op, ArgExtreme)
    return make_ragged(y, shape, number if has_fill else None)


def _refuse_empty(node: Node, x: Ragged, axes: Sequence[int]) -> None:
    """Raise where an extreme of an empty slice has no value."""
    op: Any = node.op
    extreme = op if isinstance(op, Extreme) else Max((op.axis,))
    for axis in x.axes:
        if axis in axes:
            empty = [0 if i == axis else n for i, n in enumerate(x.buffer.shape)]
            try:
                extreme.refuse_empty(empty)
            except ShapeError as error:
                at_least(x.shape[axis], 1, _raising(error, node))


def _raising(error: ShapeError, node: Node) -> Callable[[int, int], GraphcError]:
    return lambda a, b: RuntimeShapeError(error.problem, error.remedy, node.where)
