"""Differences of neighbours."""

from __future__ import annotations

from typing import Any

from graphc.errors import ShapeError
from graphc.ir import here, where
from graphc.tensor.axes import slice_at_axis
from graphc.tensor.broadcast import one_slice
from graphc.tensor.elementwise import not_equal, subtract
from graphc.tensor.join import concatenate
from graphc.tensor.shape import ravel
from graphc.tensor.tensor import Tensor, as_tensor, axes_of, function

__all__: list[str] = []


@function
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Each element's difference from the one before it.

    Args:
        x: At least one axis; of bools, whether the two differ.
        n: How often to take differences; an axis gets shorter by one each time.
        axis: The axis to take them along.
        prepend: Values put in front of x along the axis before; a scalar is one value.
        append: Values put behind it.

    Raises:
        ShapeError: ``n`` is negative, or there is no such axis.

    Example:
        >>> diff([1, 4, 9, 16], n=2).eval(mode="NUMPY").tolist()
        [2, 2]
    """
    x = as_tensor(x)
    (at,) = axes_of("diff", axis, x.ndim)
    if n < 0:
        raise ShapeError(f"diff: {n} differences.", "Use 0 or more.", where(here()))
    if n == 0:
        return x  # type: ignore[no-any-return]
    parts = [_beside(prepend, x, at), x, _beside(append, x, at)]
    x = concatenate([part for part in parts if part is not None], at)
    minus = not_equal if x.dtype == "bool" else subtract
    for _ in range(n):
        x = minus(x[slice_at_axis(slice(1, None), at)], x[slice_at_axis(slice(None, -1), at)])
    return x  # type: ignore[no-any-return]


def _beside(value: Any, x: Tensor, axis: int) -> Tensor | None:
    if value is None:
        return None
    y = as_tensor(value)
    if y.ndim:
        return y  # type: ignore[no-any-return]
    return one_slice(y, x, axis)


@function
def ediff1d(x: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """The differences of neighbours among all elements in row-major order.

    Args:
        x: Any shape.
        to_end: Values put behind the differences, in x's dtype.
        to_begin: Values put in front of them.

    Returns:
        A vector.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.ediff1d([1, 2, 4], to_end=9).eval(mode="NUMPY").tolist()
        [1, 2, 9]
    """
    x = ravel(x)
    ends = [
        None if end is None else ravel(as_tensor(end, dtype=x.dtype)) for end in (to_begin, to_end)
    ]
    parts = [ends[0], x[1:] - x[:-1], ends[1]]
    return concatenate([part for part in parts if part is not None])
