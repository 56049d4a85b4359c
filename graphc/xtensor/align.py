"""Alignment: arrays with named dimensions as arrays that broadcast by position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import graphc.tensor as gt
from graphc.errors import ArgumentError, AxisError, ShapeError, ShardingError
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length
from graphc.tensor.core.specify import specify

if TYPE_CHECKING:
    from graphc.xtensor.type import XTensor

Dims = tuple[str, ...]
"""The names of an array's dimensions, in the order of its axes."""

Dim = str | Iterable[str] | EllipsisType | None
"""One dimension, several, or all of them."""


def check_dims(title: str, names: Any) -> Dims:
    """Return names of dimensions as a tuple; one string is one name."""
    is_one = isinstance(names, str) or not isinstance(names, Iterable)
    dims = (names,) if is_one else tuple(names)
    wrong = [dim for dim in dims if not isinstance(dim, str)]
    if wrong:
        raise ArgumentError(f"{title}: the dimension {wrong[0]!r} is no name.", "Give strings.")
    twice = [dim for dim in dims if dims.count(dim) > 1]
    if twice:
        raise ArgumentError(
            f"{title}: the dimension {twice[0]!r} comes twice in {dims}.",
            "Each dimension of an array has a name of its own; x.rename(...) gives it another.",
        )
    return dims


def select_dims(title: str, x: XTensor, dim: Dim) -> Dims:
    """Return the dimensions that an argument ``dim`` names; all for None and ``...``."""
    if dim is None or dim is Ellipsis:
        return x.dims
    dims = check_dims(title, dim)
    missing = [each for each in dims if each not in x.dims]
    if missing:
        raise AxisError(f"{title}({x!r}): there is no dimension {missing[0]!r}.", dims_text(x))
    return dims


def by_position(title: str, dims: Dims, sharding: Any) -> Any:
    """Return a sharding by names of dimensions as a tuple, and any other object itself.

    Args:
        title: The array, in messages.
        dims: The dimensions.
        sharding: A dict; dimensions that it lacks have the entry None.
    """
    if not isinstance(sharding, Mapping):
        return sharding
    missing = [dim for dim in sharding if dim not in dims]
    if missing:
        raise ShardingError(
            f"{title}: sharding={dict(sharding)!r}, and there is no dimension {missing[0]!r}.",
            f"The dimensions are {', '.join(map(repr, dims)) or 'none'}: name them, and for each "
            "the axis of the mesh that divides it.",
        )
    return tuple([sharding.get(dim) for dim in dims])


def dims_text(x: XTensor) -> str:
    return f"Its dimensions are {', '.join(map(repr, x.dims))}." if x.dims else "It is a scalar."


def dim_lengths(
    title: str, xs: Sequence[XTensor], apart: Iterable[str] = ()
) -> dict[str, int | None]:
    """Return the dimensions of all arrays in order of occurrence, with their lengths.

    A dimension has one length in all arrays: unlike axes by position, length 1 does not broadcast.

    Args:
        title: The function, in messages.
        xs: The arrays.
        apart: Dimensions whose lengths may differ, which are excluded.
    """
    lengths: dict[str, int | None] = {}
    first: dict[str, XTensor] = {}
    for x in xs:
        for dim, n in zip(x.dims, x.values.type.shape, strict=True):
            if dim in apart:
                continue
            first_length = lengths.setdefault(dim, n)
            if first_length is None:
                lengths[dim] = n
            elif n is not None and n != first_length:
                raise ShapeError(
                    f"{title}({', '.join(map(repr, xs))}): the dimension {dim!r} has the length "
                    f"{first_length} in {first[dim]!r}, and {n} in {x!r}.",
                    "Dimensions of one name have one length. Select equal parts with isel, or "
                    "rename one with x.rename(...).",
                )
            if n is not None:
                first.setdefault(dim, x)
    return lengths


def length_of(xs: Sequence[XTensor], dim: str) -> int | Tensor:
    """Return the length of a dimension in the first array that has it."""
    x = next(x for x in xs if dim in x.dims)
    return length(x.values, x.dims.index(dim))


def with_lengths(title: str, x: XTensor, lengths: Mapping[str, int | None]) -> Tensor:
    """Return the array with static lengths of its dimensions, checked at run time."""
    static = [lengths.get(dim) for dim in x.dims]
    shape = x.values.type.shape
    if all(n is None or m is not None for n, m in zip(static, shape, strict=True)):
        return x.values
    # The array's name is left out, as it would change the program's key.
    return specify(x.values, static, f"{title} along {', '.join(x.dims)}")


def permute(x: Tensor, dims: Sequence[str], order: Sequence[str]) -> Tensor:
    """Return an array with its axes in an order, and axes of length 1 for other dimensions.

    Leading axes of length 1 are left out, since broadcasting adds them.
    """
    pattern: list[Any] = [dims.index(dim) if dim in dims else "x" for dim in order]
    while pattern and pattern[0] == "x":
        del pattern[0]
    return x if pattern == [*range(x.ndim)] else gt.dimshuffle(x, pattern)


def permute_all(x: Tensor, dims: Sequence[str], order: Sequence[str]) -> Tensor:
    """Return the same as ``permute``, with leading axes of length 1."""
    permuted = permute(x, dims, order)
    missing = len(order) - permuted.ndim
    return gt.expand_dims(permuted, tuple(range(missing))) if missing else permuted


def align(title: str, xs: Sequence[Any], named: Sequence[XTensor]) -> tuple[list[Any], Dims]:
    """Return operands as arrays that broadcast by position, and the dimensions of the result.

    Args:
        title: The function, in messages.
        xs: Arrays with named dimensions, and other operands, which are returned unchanged.
        named: The arrays of ``xs`` with named dimensions.
    """
    lengths = dim_lengths(title, named)
    order = tuple(lengths)
    arrays = {id(x): permute(with_lengths(title, x, lengths), x.dims, order) for x in named}
    return [arrays.get(id(x), x) for x in xs], order
