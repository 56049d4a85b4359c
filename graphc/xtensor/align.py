"""Alignment: arrays with named dimensions as arrays that broadcast by position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import graphc.tensor as gt
from graphc.errors import ArgumentError, AxisError, ShapeError, ShardingError
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length
from graphc.tensor.core.specify import specified

if TYPE_CHECKING:
    from graphc.xtensor.type import XTensor

Dims = tuple[str, ...]
"""The names of an array's dimensions, in the order of its axes."""

Dim = str | Iterable[str] | EllipsisType | None
"""One dimension, several, or all of them."""


def checked(title: str, given: Any) -> Dims:
    """Return names of dimensions as a tuple; one string is one name.

    Raises:
        ArgumentError: They are no strings, or one comes twice.
    """
    dims = (given,) if isinstance(given, str) else tuple(given)
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


def chosen(title: str, x: XTensor, dim: Dim) -> Dims:
    """Return the dimensions of an array that an argument ``dim`` names; None and ... are all.

    Raises:
        AxisError: The array lacks one.
    """
    if dim is None or dim is Ellipsis:
        return x.dims
    dims = checked(title, dim)
    missing = [each for each in dims if each not in x.dims]
    if missing:
        raise AxisError(f"{title}({x!r}): there is no dimension {missing[0]!r}.", has(x))
    return dims


def by_position(title: str, dims: Dims, sharding: Any) -> Any:
    """Return a sharding by names of dimensions as a tuple, and anything else as it is.

    Args:
        title: What is sharded, in messages.
        dims: The dimensions.
        sharding: A dict; dimensions that it leaves out have the entry None.

    Raises:
        ShardingError: It names a dimension that is not among them.
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


def has(x: XTensor) -> str:
    """Say which dimensions an array has."""
    return f"Its dimensions are {', '.join(map(repr, x.dims))}." if x.dims else "It is a scalar."


def combined(title: str, xs: Sequence[XTensor], apart: Iterable[str] = ()) -> dict[str, int | None]:
    """Return all dimensions of some arrays in the order in which they come, with their lengths.

    A dimension has the same length wherever it occurs: unlike by position, 1 does not broadcast.

    Args:
        title: What messages are of.
        xs: The arrays.
        apart: Dimensions whose lengths may differ, which are left out.

    Raises:
        ShapeError: A dimension has two lengths.
    """
    found: dict[str, int | None] = {}
    first: dict[str, XTensor] = {}
    for x in xs:
        for dim, n in zip(x.dims, x.values.type.shape, strict=True):
            if dim in apart:
                continue
            known = found.setdefault(dim, n)
            if known is None:
                found[dim] = n
            elif n is not None and n != known:
                raise ShapeError(
                    f"{title}({', '.join(map(repr, xs))}): the dimension {dim!r} has the length "
                    f"{known} in {first[dim]!r}, and {n} in {x!r}.",
                    "Dimensions of one name have one length. Select equal parts with isel, or "
                    "rename one with x.rename(...).",
                )
            if n is not None:
                first.setdefault(dim, x)
    return found


def length_of(xs: Sequence[XTensor], dim: str) -> int | Tensor:
    """Return the length of a dimension in the first array that has it."""
    x = next(x for x in xs if dim in x.dims)
    return length(x.values, x.dims.index(dim))


def declared(title: str, x: XTensor, lengths: Mapping[str, int | None]) -> Tensor:
    """Return the array with lengths that are known of its dimensions, checked when it runs."""
    known = [lengths.get(dim) for dim in x.dims]
    shape = x.values.type.shape
    if all(n is None or m is not None for n, m in zip(known, shape, strict=True)):
        return x.values
    # No name of the array: that would be another program.
    return specified(x.values, known, f"{title} along {', '.join(x.dims)}")


def placed(x: Tensor, dims: Sequence[str], order: Sequence[str]) -> Tensor:
    """Return an array whose axes are in an order, with axes of length 1 for other dimensions.

    The first axes are left out where the array lacks them, as by position they broadcast.
    """
    pattern: list[Any] = [dims.index(dim) if dim in dims else "x" for dim in order]
    while pattern and pattern[0] == "x":
        del pattern[0]
    return x if pattern == [*range(x.ndim)] else gt.dimshuffle(x, pattern)


def filled(x: Tensor, dims: Sequence[str], order: Sequence[str]) -> Tensor:
    """Return ``placed``, with an axis of length 1 also for each first dimension that is missing."""
    made = placed(x, dims, order)
    missing = len(order) - made.ndim
    return gt.expand_dims(made, tuple(range(missing))) if missing else made


def aligned(title: str, xs: Sequence[Any], named: Sequence[XTensor]) -> tuple[list[Any], Dims]:
    """Return operands as arrays that broadcast by position, and the dimensions of the result.

    Args:
        title: What messages are of.
        xs: Arrays with named dimensions, and anything else, which stays as it is.
        named: Those of them with named dimensions.
    """
    lengths = combined(title, named)
    order = tuple(lengths)
    arrays = {id(x): placed(declared(title, x, lengths), x.dims, order) for x in named}
    return [arrays.get(id(x), x) for x in xs], order
