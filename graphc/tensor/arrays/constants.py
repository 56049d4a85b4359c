"""Values that are known while a graph is built."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.errors import SymbolicValueError
from graphc.ir import Constant, Node
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.index import Index
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from graphc.tensor.core.elementwise import Cast, Elementwise
from graphc.tensor.core.shape import Reshape, Shape
from graphc.tensor.core.specify import SpecifyShape
from graphc.tensor.core.tensor import TensorLike, as_tensor, function

__all__ = [
    "get_scalar_constant_value", "get_underlying_scalar_constant_value",
]  # fmt: skip

PASSING = (BroadcastTo, ExpandDims, Squeeze, Transpose, Reshape, SpecifyShape)
"""Operations whose result holds the values of their first input."""


@function
def get_underlying_scalar_constant_value(
    v: TensorLike,
    *,
    elemwise: bool = True,
    only_process_constants: bool = False,
    max_recur: int = 10,
    raise_not_constant: bool = True,
) -> Any:
    """Return the one number that all elements of an array are known to equal.

    Args:
        v: An array: a constant, one repeated to a shape, or computed from such.
        elemwise: Also apply elementwise functions to such numbers.
        only_process_constants: Take the number from a constant alone.
        max_recur: The number of operations to compute, one after the other.
        raise_not_constant: Raise if there is no such number, rather than return the array.

    Returns:
        A 0-d NumPy array of v's dtype.

    Raises:
        SymbolicValueError: There is no such number.

    Example:
        >>> import graphc.tensor as gt
        >>> get_underlying_scalar_constant_value(gt.zeros((3, gt.lscalar())) + 2)
        array(2.)
    """
    x = as_tensor(v)
    is_allowed = not only_process_constants or isinstance(x.op, Constant)
    number = _number(x, max_recur if elemwise else -1) if is_allowed else None
    if number is not None:
        return number
    if raise_not_constant:
        raise SymbolicValueError(
            f"{x!r} is not known to be one number while the graph is built.",
            "Pass raise_not_constant=False to get the array instead.",
        )
    return x


@function
def get_scalar_constant_value(
    v: TensorLike,
    elemwise: bool = True,
    only_process_constants: bool = False,
    max_recur: int = 10,
    raise_not_constant: bool = True,
) -> Any:
    """Return the number that a 0-d array is known to be.

    Arguments, result and errors are as for ``get_underlying_scalar_constant_value``; an array that
    has axes is not a number.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.get_scalar_constant_value(gt.constant(2.5)).item()
        2.5
    """
    x = as_tensor(v)
    if not x.ndim:
        return get_underlying_scalar_constant_value(
            x,
            elemwise=elemwise,
            only_process_constants=only_process_constants,
            max_recur=max_recur,
            raise_not_constant=raise_not_constant,
        )
    if raise_not_constant:
        raise SymbolicValueError(f"{x!r} is not a scalar.")
    return x


def _number(node: Node, computed: int) -> Any:
    """Return the number as a 0-d array, within a bounded number of operations, or None."""
    while isinstance(node.op, PASSING):
        node = node.inputs[0]
    match node.op:
        case Constant(value=value):
            same = value.size and (value == value.flat[0]).all()
            return np.array(value.flat[0], value.dtype) if same else None
        case Index(entries=(int(i),)) if isinstance(node.inputs[0].op, Shape):
            n = node.inputs[0].inputs[0].type.shape[i]
            return None if n is None else np.array(n, np.int64)
        case Index() if len(node.inputs) == 1:
            return _number(node.inputs[0], computed)
        case Cast() | Elementwise() if computed > 0 or isinstance(node.op, Cast):
            operands = [_number(x, computed - 1) for x in node.inputs]
            if any(x is None for x in operands):
                return None
            with np.errstate(all="ignore"):
                return np.asarray(node.op.perform(*operands), node.type.numpy_dtype)
    return None
