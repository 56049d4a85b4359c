"""Arrays of one number that is known before a program runs, such as the 0 of ``maximum(x, 0)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.implicit.jax_arrays import jax_arrays
from graphc.implicit.namespace import numpy_like
from graphc.implicit.structured import Structured
from graphc.implicit.treedef import dtype_of
from graphc.ir import Constant, Leaf, Node, numpy_dtype, toposort
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.core.axes import ExpandDims, Squeeze
from graphc.tensor.core.elementwise import Cast
from graphc.tensor.core.shape import Reshape

MAX_COMPARED = 4096
"""The elements of a larger constant are not compared with each other."""

REARRANGING = (BroadcastTo, ExpandDims, Squeeze, Reshape)
"""Operations that repeat or rearrange the elements of their first input."""


def number_of(x: Any) -> Any:
    """Return the number that all elements are known to equal; None if there is none.

    Example:
        >>> import graphc.tensor as gt
        >>> from graphc.implicit.structures.zeros import Zeros
        >>> [number_of(x) for x in (gt.zeros((3, 4)), Zeros.of((2, 2)), gt.vector())]
        [np.float64(0.0), np.float64(0.0), None]
    """
    if isinstance(x, Structured):
        return None if x.uniform is None else number_of(x.uniform)
    if isinstance(x, Node):
        return _of_node(x)
    if isinstance(x, bool | int | float | complex | np.generic | np.ndarray):
        return _of_array(np.asarray(x))
    return jax_arrays().known_number(x) if numpy_like(x).name == "JAX" else None


def _of_array(x: np.ndarray[Any, Any]) -> Any:
    if not 0 < x.size <= MAX_COMPARED:
        return None
    first = x.reshape(-1)[0]
    return first if x.size == 1 or bool(np.all(x == first)) else None


def _of_node(x: Node) -> Any:
    casts = []
    while isinstance(x.op, (*REARRANGING, Cast)):
        casts += [numpy_dtype(x.op.dtype)] if isinstance(x.op, Cast) else []
        x = x.inputs[0]
    value = _of_array(x.op.value) if isinstance(x.op, Constant) else None
    if value is None:
        return None
    for dtype in reversed(casts):
        value = value.astype(dtype)
    return value


def array_of(x: Any) -> np.ndarray[Any, Any] | None:
    """Return a NumPy array if the values are known before a program runs, else None."""
    if isinstance(x, Node):
        return _evaluate(x)
    if isinstance(x, np.ndarray):
        return x
    return jax_arrays().known_array(x) if numpy_like(x).name == "JAX" else None


MAX_EVALUATED = 32
"""The most nodes that are evaluated to find the values of an array, such as a transpose."""


def _evaluate(x: Node) -> np.ndarray[Any, Any] | None:
    """Return the value of a few operations on constants and captured arrays, else None."""
    values: dict[Node, Any] = {}
    waiting, seen = [x], {x}
    while waiting:
        node = waiting.pop()
        if isinstance(node.op, Constant | Leaf):
            values[node] = node.op.value if isinstance(node.op, Constant) else node.op.array
        elif not node.inputs or len(seen) > MAX_EVALUATED:
            return None
        waiting += [y for y in node.inputs if y not in seen]
        seen.update(node.inputs)
    for node in toposort([x], values):
        values[node] = node.op.perform(*[values[y] for y in node.inputs])
    return np.asarray(values[x])


def is_zero_at(name: str, dtype: Any, number: Any, first: bool) -> bool:
    """Return whether a binary function maps zero and another number to zero.

    Args:
        name: The NumPy name of the function.
        dtype: The dtype of zero.
        number: The other number.
        first: Whether zero is the first operand.
    """
    zero = np.zeros((), dtype)
    with np.errstate(all="ignore"):
        try:
            y = getattr(np, name)(*((zero, number) if first else (number, zero)))
        except (TypeError, ValueError):  # an integer to a negative power
            return False
    return bool(y == 0)


def is_same_number(a: Any, b: Any) -> bool:
    """Return whether all elements of two arrays of one dtype equal one known number."""
    x, y = number_of(a), number_of(b)
    return x is not None and y is not None and dtype_of(a) == dtype_of(b) and bool(x == y)


def as_number(number: Any, like: Any) -> Any:
    """Return a number as a 0-d array of the dtype of another array."""
    return np.asarray(number).astype(dtype_of(like))
