"""Places of the elements that are not zero: all of them, or a number that is given."""

from __future__ import annotations

from typing import Any

from graphc.errors import ArgumentError, ShapeError
from graphc.ir import here, where as where_is
from graphc.tensor.create import arange
from graphc.tensor.cumulative import cumsum
from graphc.tensor.elementwise import cast, maximum, not_equal, where
from graphc.tensor.index import nonzero_places
from graphc.tensor.join import stack
from graphc.tensor.reduce import sum
from graphc.tensor.shape import entries, lengths, ravel
from graphc.tensor.sort import searchsorted
from graphc.tensor.tensor import Tensor, as_tensor, function

__all__: list[str] = []


@function
def nonzero(x: Any, *, size: Any = None, fill_value: Any = None) -> tuple[Tensor, ...]:
    """The places of the elements that are not zero, in row-major order.

    How many there are depends on the values, so JAX takes it for constants only, unless a ``size``
    is given.

    Args:
        x: At least one axis.
        size: How many to give, an integer, Python's or symbolic: if there are more, the first ones.
        fill_value: What stands for those missing if there are fewer, 0 by default: an integer, or
            one for each axis.

    Returns:
        An int64 vector for each axis, of unknown length without a ``size``.

    Raises:
        ShapeError: x has no axis.
        ArgumentError: A ``fill_value`` without a ``size``, or not one for each axis.

    Example:
        >>> import graphc.tensor as gt
        >>> (places,) = gt.nonzero([0, 5, 0, 7], size=3, fill_value=-1)
        >>> places.eval(mode="NUMPY").tolist()
        [1, 3, -1]
    """
    x = as_tensor(x)
    if size is None:
        if fill_value is not None:
            raise ArgumentError("nonzero: fill_value= goes with size=.", "", where_is(here()))
        return nonzero_places(x)
    if not x.ndim:
        raise ShapeError("nonzero: a 0-d array has no places.", "", where_is(here()))
    fills = list(fill_value) if isinstance(fill_value, list | tuple) else [fill_value or 0] * x.ndim
    if len(fills) != x.ndim:
        raise ArgumentError(
            f"nonzero: {len(fills)} fill values for {x.ndim} axes.",
            "Give one, or one for each axis.",
            where_is(here()),
        )
    flat, there = _first(x, size)
    places: list[Tensor] = []
    for n in reversed(lengths(x)[1:]):
        least = maximum(n, 1)  # an empty array has no places, but a remainder of them
        places, flat = [flat % least, *places], flat // least
    both = zip((flat, *places), fills, strict=True)
    return tuple(where(there, i, cast(n, "int64")) for i, n in both)


def _first(x: Tensor, size: Any) -> tuple[Tensor, Tensor]:
    """The places of the first ones among all elements, and which of them there are.

    The k-th is where the count of those so far first is k.
    """
    (known,), symbolic = entries("nonzero", size)
    found = cast(ravel(not_equal(x, 0)), "int64")
    order = arange(symbolic[0] if known is None else known)
    return searchsorted(cumsum(found), order + 1), order < sum(found)


@function
def flatnonzero(x: Any, *, size: Any = None, fill_value: Any = None) -> Tensor:
    """The places of what is not zero among all elements in row-major order, an int64 vector.

    Arguments and errors as for ``nonzero``; of a scalar too.
    """
    return nonzero(ravel(x), size=size, fill_value=fill_value)[0]


@function
def nonzero_values(x: Any) -> Tensor:
    """The elements that are not zero, as a vector."""
    x = ravel(x)
    return x[nonzero_places(x)]  # type: ignore[no-any-return]


@function
def argwhere(x: Any, *, size: Any = None, fill_value: Any = None) -> Tensor:
    """The places of the elements that are not zero: a row of int64 for each.

    Arguments and errors as for ``nonzero``; of a scalar too, whose places have no number.
    """
    x = as_tensor(x)
    if not x.ndim:
        return nonzero(x[None], size=size)[0][:, None][:, :0]
    return stack(nonzero(x, size=size, fill_value=fill_value), axis=1)
