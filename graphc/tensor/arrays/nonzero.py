"""Positions of the nonzero elements, all of them or a fixed number."""

from __future__ import annotations

from typing import Any, Literal, overload

from graphc.errors import ArgumentError, ShapeError
from graphc.tensor.arrays.create import arange
from graphc.tensor.arrays.cumulative import cumsum
from graphc.tensor.arrays.index import nonzero_indices
from graphc.tensor.arrays.join import stack
from graphc.tensor.arrays.reduce import sum
from graphc.tensor.arrays.sort import searchsorted
from graphc.tensor.core.elementwise import cast, maximum, not_equal, where
from graphc.tensor.core.shape import entries, lengths, ravel
from graphc.tensor.core.tensor import Tensor, TensorLike, as_tensor, function

__all__ = ["argwhere", "flatnonzero", "nonzero", "nonzero_values"]


@overload
def nonzero(
    x: TensorLike,
    return_matrix: Literal[False] = False,
    *,
    size: Any = None,
    fill_value: TensorLike | None = None,
) -> tuple[Tensor, ...]: ...


@overload
def nonzero(
    x: TensorLike,
    return_matrix: Literal[True],
    *,
    size: Any = None,
    fill_value: TensorLike | None = None,
) -> Tensor: ...


@function
def nonzero(
    x: TensorLike,
    return_matrix: bool = False,
    *,
    size: Any = None,
    fill_value: TensorLike | None = None,
) -> Any:
    """Return the positions of the nonzero elements, in row-major order.

    Their number depends on the values, so JAX supports constants only, unless a ``size`` is
    given.

    Args:
        x: At least one axis.
        return_matrix: Return a matrix with a row for each axis instead of vectors.
        size: The number of positions to return, a Python or symbolic integer; the first ones.
        fill_value: The filler if there are fewer, 0 by default: an integer, or one for each axis.

    Returns:
        A tuple with an int64 vector for each axis, of unknown length without a ``size``.

    Raises:
        ShapeError: x has no axis.
        ArgumentError: A ``fill_value`` without a ``size``, or not one for each axis.

    Example:
        >>> import graphc.tensor as gt
        >>> (positions,) = gt.nonzero([0, 5, 0, 7], size=3, fill_value=-1)
        >>> positions.eval(mode="NUMPY").tolist()
        [1, 3, -1]
    """
    positions = _positions(as_tensor(x), size, fill_value)
    return stack(positions) if return_matrix else positions


def _positions(x: Tensor, size: Any, fill_value: Any) -> tuple[Tensor, ...]:
    if size is None:
        if fill_value is not None:
            raise ArgumentError("nonzero: fill_value= requires size=.")
        return nonzero_indices(x)
    if not x.ndim:
        raise ShapeError("nonzero: expected at least one axis, got a scalar.")
    fills = list(fill_value) if isinstance(fill_value, list | tuple) else [fill_value or 0] * x.ndim
    if len(fills) != x.ndim:
        raise ArgumentError(
            f"nonzero: got {len(fills)} fill values for {x.ndim} axes.",
            "Pass one, or one for each axis.",
        )
    flat, there = _first(x, size)
    positions: list[Tensor] = []
    for n in reversed(lengths(x)[1:]):
        least = maximum(n, 1)  # an empty array divides by no zero
        positions, flat = [flat % least, *positions], flat // least
    pairs = zip((flat, *positions), fills, strict=True)
    return tuple(where(there, i, cast(n, "int64")) for i, n in pairs)


def _first(x: Tensor, size: Any) -> tuple[Tensor, Tensor]:
    """Return the flat positions of the first nonzero elements, and which of them exist.

    The k-th is where the running count first is k.
    """
    (static,), symbolic = entries("nonzero", size)
    is_nonzero = cast(ravel(not_equal(x, 0)), "int64")
    order = arange(symbolic[0] if static is None else static)
    return searchsorted(cumsum(is_nonzero), order + 1), order < sum(is_nonzero)


@function
def flatnonzero(x: TensorLike, *, size: Any = None, fill_value: TensorLike | None = None) -> Tensor:
    """Return the flat positions of the nonzero elements in row-major order, an int64 vector.

    Arguments and errors as for ``nonzero``; x may be a scalar.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.flatnonzero([[0, 1], [1, 0]]).eval(mode="NUMPY").tolist()
        [1, 2]
    """
    return nonzero(ravel(x), size=size, fill_value=fill_value)[0]


@function
def nonzero_values(x: TensorLike) -> Tensor:
    """Return the nonzero elements as a vector.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.nonzero_values([0.0, 2.0, 0.0, 3.0]).eval(mode="NUMPY").tolist()
        [2.0, 3.0]
    """
    x = ravel(x)
    return x[nonzero_indices(x)]


@function
def argwhere(x: TensorLike, *, size: Any = None, fill_value: TensorLike | None = None) -> Tensor:
    """Return the positions of the nonzero elements, a row of int64 for each.

    Arguments and errors as for ``nonzero``; x may be a scalar, whose positions are empty rows.

    Example:
        >>> import graphc.tensor as gt
        >>> gt.argwhere([[0, 1], [1, 0]]).eval(mode="NUMPY").tolist()
        [[0, 1], [1, 0]]
    """
    x = as_tensor(x)
    if not x.ndim:
        return nonzero(x[None], size=size)[0][:, None][:, :0]
    return stack(nonzero(x, size=size, fill_value=fill_value), axis=1)
