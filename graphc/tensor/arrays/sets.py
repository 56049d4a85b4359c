"""Set operations: distinct elements, membership, union and intersection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from graphc.errors import ArgumentError
from graphc.ir import Node, Op, Pick, TensorType, TupleType
from graphc.ir.lengths import SymbolicLength
from graphc.tensor.arrays.create import arange, zeros, zeros_like
from graphc.tensor.arrays.cumulative import cumsum
from graphc.tensor.arrays.join import concatenate
from graphc.tensor.arrays.select import put_along_axis, take
from graphc.tensor.arrays.sort import argsort, comparable, searchsorted, sort
from graphc.tensor.core.elementwise import isnan, less, logical_not, not_equal
from graphc.tensor.core.shape import length, lengths, ravel, reshape
from graphc.tensor.core.tensor import (
    Tensor,
    TensorLike,
    as_tensor,
    axes_of,
    constant,
    function,
    operands,
)

__all__ = ["intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique"]


@dataclass(frozen=True, slots=True)
class Unique(Op):
    """The indices of the distinct slices along an axis, in order, and how often each occurs.

    Results are their first positions, the index among them of each slice, and the counts.

    Attributes:
        axis: None for the distinct elements of an array.
    """

    axis: int | None
    name = "unique"

    def infer(self, x: TensorType) -> TupleType:
        count = None if x.value is None else SymbolicLength.of("unique", x.value)
        some = TensorType("int64", (count,))
        which = x.with_dtype("int64")
        if self.axis is not None:
            which = which.with_shape((x.shape[self.axis],))
        return TupleType((some, which, some))

    def perform(self, x: np.ndarray[Any, Any]) -> tuple[Any, ...]:
        _, first, which, count = np.unique(comparable(x), True, True, True, self.axis)
        shape = x.shape if self.axis is None else (x.shape[self.axis],)
        return first.astype(np.int64), which.reshape(shape).astype(np.int64), count.astype(np.int64)

    def pullback(self, g: Any, y: Any, x: Tensor) -> tuple[None]:
        return (None,)


@overload
def unique(
    x: TensorLike,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: int | None = None,
    *,
    size: Any = None,
    fill_value: TensorLike | None = None,
) -> Tensor: ...


@overload
def unique(
    x: TensorLike,
    return_index: Literal[True],
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    size: Any = None,
    fill_value: TensorLike | None = None,
) -> list[Tensor]: ...


@overload
def unique(
    x: TensorLike,
    return_index: bool = False,
    *,
    return_inverse: Literal[True],
    return_counts: bool = False,
    axis: int | None = None,
    size: Any = None,
    fill_value: TensorLike | None = None,
) -> list[Tensor]: ...


@overload
def unique(
    x: TensorLike,
    return_index: bool = False,
    return_inverse: bool = False,
    *,
    return_counts: Literal[True],
    axis: int | None = None,
    size: Any = None,
    fill_value: TensorLike | None = None,
) -> list[Tensor]: ...


@function
def unique(  # noqa: PLR0913 (NumPy's arguments)
    x: TensorLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    size: Any = None,
    fill_value: TensorLike | None = None,
) -> Tensor | list[Tensor]:
    """Return the distinct elements in ascending order.

    Their number depends on the values, so compiled backends take constants only, or a ``size``.

    Args:
        x: Any dtype and shape; NaN is one element.
        return_index: Return the position where each occurs first, too.
        return_inverse: Return, for each element of x, its index among the distinct ones, too.
        return_counts: Return how often each occurs, too.
        axis: Return the distinct slices along this axis, not the elements.
        size: The number of elements to return, an integer: the first ones if there are more. Only
            without an axis.
        fill_value: The filler if there are fewer, by default the smallest element; its counts are
            0.

    Returns:
        The elements; if more is requested, a list of them and int64 arrays.

    Raises:
        ShapeError: x has no such axis.
        ArgumentError: There are both an axis and a ``size``, or a ``fill_value`` without ``size``.

    Example:
        >>> import graphc.tensor as gt
        >>> x = gt.lvector("x")
        >>> values, counts = gt.unique(x, return_counts=True, size=3, fill_value=-1)
        >>> values.eval({x: [5, 2, 5]}).tolist(), counts.eval({x: [5, 2, 5]}).tolist()
        ([2, 5, -1], [1, 2, 0])
    """
    x = as_tensor(x)
    requested = (return_index, return_inverse, return_counts)
    if size is not None and axis is not None:
        raise ArgumentError("unique: size= requires axis=None.")
    if size is None and fill_value is not None:
        raise ArgumentError("unique: fill_value= requires size=.")
    if size is not None:
        values, *rest = _unique_of_size(x, size, fill_value)
    else:
        if axis is not None:
            (axis,) = axes_of("unique", (axis,), x.ndim)
        distinct = Node.make(Unique(axis), x)
        rest = [Tensor.make(Pick(i), distinct) for i in range(3)]
        values = take(x, rest[0], axis)
    if not any(requested):
        return values
    return [values, *[y for y, wanted in zip(rest, requested, strict=True) if wanted]]


def _unique_of_size(x: Tensor, size: Any, fill_value: Any) -> tuple[Tensor, ...]:
    """Return the distinct elements, first positions, inverse indices and counts."""
    flat = ravel(x)
    n = length(flat, 0)
    order = argsort(flat)
    ordered = flat[order]
    a, b = ordered[:-1], ordered[1:]
    new = not_equal(a, b) & logical_not(isnan(a) & isnan(b))
    # Cut to n, as the first one is there also where there is no element.
    rank = concatenate([constant([0]), cumsum(new)])[:n]
    starts = searchsorted(rank, arange(size + 1))
    fill = ordered[:1] if fill_value is None else as_tensor([fill_value], dtype=x.dtype)
    fill = concatenate([fill, zeros(1, x.dtype)])[:1]
    values = concatenate([ordered, fill])[starts[:-1]]
    first = concatenate([order, constant([0])])[starts[:-1]]
    which = put_along_axis(zeros_like(order), order, rank)
    return values, first, reshape(which, lengths(x)), starts[1:] - starts[:-1]


# Membership.


@function
def isin(element: TensorLike, test_elements: TensorLike, invert: bool = False) -> Tensor:
    """Return whether each element is among others.

    Args:
        element: Real numbers of any shape; NaN is in no array.
        test_elements: The others, of any shape.
        invert: Return whether it is not.

    Returns:
        An array of bool, of the elements' shape.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.isin([1, 2, 3], [2, 4]).eval(mode="NUMPY").tolist()
        [False, True, False]
    """
    (x, among), _ = operands("isin", (element, test_elements))
    among = sort(among, axis=None)
    is_member = less(searchsorted(among, x, "left"), searchsorted(among, x, "right"))
    is_member = is_member & logical_not(isnan(x))
    return logical_not(is_member) if invert else is_member


# Two arrays. The number of elements depends on the values, as for ``unique``.


def _flatten_both(op: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    (a, b), _ = operands(op, (a, b))
    return ravel(a), ravel(b)


@function
def union1d(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the distinct elements of either array, in ascending order.

    Args:
        a: Any shape; compiled backends take constants and integer inputs, as for ``unique``.
        b: Any shape.

    Returns:
        A vector of the common dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.union1d([3, 1], [2, 3]).eval(mode="NUMPY").tolist()
        [1, 2, 3]
    """
    return unique(concatenate(_flatten_both("union1d", a, b)))


@function
def setdiff1d(a: TensorLike, b: TensorLike, assume_unique: bool = False) -> Tensor:
    """Return the distinct elements of the first array that are not in the second.

    Args:
        a: Real numbers of any shape; compiled backends take constants and integer inputs.
        b: Real numbers of any shape.
        assume_unique: The elements of ``a`` are distinct, and keep their order.

    Returns:
        A vector of the first array's dtype.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.setdiff1d([3, 1, 2, 3], [2]).eval(mode="NUMPY").tolist()
        [1, 3]
    """
    a = ravel(as_tensor(a))
    a = a if assume_unique else unique(a)
    return a[isin(a, b, invert=True)]


@function
def setxor1d(a: TensorLike, b: TensorLike, assume_unique: bool = False) -> Tensor:
    """Return the distinct elements of exactly one of two arrays, in ascending order.

    Arguments as for ``intersect1d``.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.setxor1d([1, 2], [2, 3]).eval(mode="NUMPY").tolist()
        [1, 3]
    """
    a, b = _flatten_both("setxor1d", a, b)
    if not assume_unique:
        a, b = unique(a), unique(b)
    return sort(concatenate([a[isin(a, b, invert=True)], b[isin(b, a, invert=True)]]))


@overload
def intersect1d(
    a: TensorLike,
    b: TensorLike,
    assume_unique: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...


@overload
def intersect1d(
    a: TensorLike, b: TensorLike, assume_unique: bool = False, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor, Tensor]: ...


@function
def intersect1d(
    a: TensorLike, b: TensorLike, assume_unique: bool = False, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """Return the distinct elements of both arrays, in ascending order.

    Args:
        a: Real numbers of any shape; compiled backends take constants and integer inputs.
        b: Real numbers of any shape.
        assume_unique: The elements of each are distinct.
        return_indices: Return the position of each in ``a`` and in ``b``, too.

    Returns:
        A vector of the common dtype, or a tuple of it and two int64 vectors.

    Example:
        >>> import graphc.tensor as gt
        >>> common, of_a, of_b = gt.intersect1d([4, 1, 2], [2, 4, 9], return_indices=True)
        >>> [y.eval(mode="NUMPY").tolist() for y in (common, of_a, of_b)]
        [[2, 4], [2, 0], [0, 1]]
    """
    a, b = _flatten_both("intersect1d", a, b)
    if assume_unique:
        (first, at), (second, there) = ((sort(x), argsort(x)) for x in (a, b))
    else:
        (first, at), (second, there) = (unique(x, return_index=True) for x in (a, b))
    # Both are in ascending order, so that their common elements correspond.
    of_a, of_b = isin(first, second), isin(second, first)
    common = first[of_a]
    return (common, at[of_a], there[of_b]) if return_indices else common
