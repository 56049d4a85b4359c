"""Operations on dimensions: permute, merge, split, add, remove, join, fill and shard."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.errors import ArgumentError, AxisError, DTypeError, ShapeError
from graphc.ir import is_integer, unwrap
from graphc.site import frames_up
from graphc.tensor.core.shape import length
from graphc.xtensor import align
from graphc.xtensor.methods import Missing, method
from graphc.xtensor.type import XTensor, as_xtensor

__all__ = [
    "broadcast",
    "broadcast_like",
    "concat",
    "expand_dims",
    "full_like",
    "ones_like",
    "squeeze",
    "stack",
    "transpose",
    "unstack",
    "zeros_like",
]


def missing_dim(title: str, x: XTensor, dim: Any, missing_dims: Missing) -> None:
    """Raise, warn or do nothing about a dimension that an array lacks."""
    if missing_dims not in {"raise", "warn", "ignore"}:
        raise ArgumentError(
            f"{title}: missing_dims={missing_dims!r}.", "Use 'raise', 'warn' or 'ignore'."
        )
    problem = f"{title}({x!r}): there is no dimension {dim!r}."
    if missing_dims == "raise":
        raise AxisError(problem, align.dims_text(x))
    if missing_dims == "warn":
        warnings.warn(f"{problem} {align.dims_text(x)}", stacklevel=frames_up())


def reorder(x: XTensor, order: Sequence[str]) -> XTensor:
    """Return the array with its dimensions in an order that names all of them."""
    return XTensor(align.permute(x.values, x.dims, order), order)


@method
def transpose(x: Any, *dim: str | EllipsisType, missing_dims: Missing = "raise") -> XTensor:
    """Return the array with its dimensions in an order.

    Args:
        x: Any dimensions.
        dim: The dimensions; ``...`` once, for all that are not named. Reversed by default.
        missing_dims: The reaction to a dimension that the array lacks: ``"raise"``, ``"warn"`` or
            ``"ignore"``.

    Raises:
        AxisError: The array lacks a dimension.
        ArgumentError: A dimension of the array is not named, or comes twice.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.xtensor("x", dims=("a", "b", "c"))
        >>> transpose(x, "c", ...).dims, transpose(x).dims
        (('c', 'a', 'b'), ('c', 'b', 'a'))
    """
    x = as_xtensor(x)
    for each in dim:
        if each is not Ellipsis and each not in x.dims:
            missing_dim("transpose", x, each, missing_dims)
    present = [each for each in dim if each is Ellipsis or each in x.dims]
    if not present:
        return reorder(x, x.dims[::-1])
    named = align.check_dims("transpose", [each for each in present if each is not Ellipsis])
    others = [each for each in x.dims if each not in named]
    if present.count(...) > 1 or (others and ... not in present):
        raise ArgumentError(
            f"transpose({x!r}): the order {tuple(present)} is not one of all dimensions.",
            "Name each dimension once, or write ... once for those that are left.",
        )
    position = present.index(...) if ... in present else len(present)
    return reorder(x, [*named[:position], *others, *named[position:]])


def _one_way(title: str, dim: Any, dims: Mapping[str, Any]) -> dict[str, Any]:
    if dim is not None and dims:
        raise ArgumentError(f"{title}: dimensions in a dict and as keywords.", "Give one of them.")
    return dict(dims if dim is None else dim)


def _new(title: str, x: XTensor, dim: str, apart: Sequence[str] = ()) -> None:
    if dim in x.dims and dim not in apart:
        raise ArgumentError(
            f"{title}({x!r}): there is a dimension {dim!r} already.", "Choose another name."
        )


@method
def stack(x: Any, /, dim: Any = None, **dims: Any) -> XTensor:
    """Return the array with dimensions merged to a new one, which is the last.

    Args:
        x: Any dimensions.
        dim: A dict of new dimensions, each with the names to merge, in the order of the array's
            axes. The last one varies fastest.
        dims: The same as keywords.

    Raises:
        ArgumentError: One name instead of several, a new name that the array has, or another order
            than the axes have.
        AxisError: The array lacks a dimension.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.xtensor("x", dims=("a", "b", "c"), shape=(2, 3, 4))
        >>> stack(x, ac=("a", "c"))
        reshape(x.transpose(1, 0, 2), shape=(3, 8)): float64[b=3, ac=8]
    """
    y = as_xtensor(x)
    for new, names in _one_way("stack", dim, dims).items():
        if isinstance(names, str) or not names:
            raise ArgumentError(
                f"stack: {new}={names!r}.", f"Give the names of several: {new}=('a', 'b')."
            )
        merged = align.select_dims("stack", y, names)
        _new("stack", y, new)
        if merged != tuple(each for each in y.dims if each in merged):
            raise ArgumentError(
                f"stack({y!r}): {new}={merged} is not in the order of the axes.",
                f"xarray merges in the order of the names, and PyTensor in that of the axes. Write "
                f"x.transpose(..., {', '.join(map(repr, merged))}) first, or name them in order.",
            )
        remaining = [each for each in y.dims if each not in merged]
        whole = reorder(y, [*remaining, *merged])
        sizes = [length(whole.values, i) for i in range(whole.ndim)]
        head, tail = sizes[: len(remaining)], sizes[len(remaining) :]
        y = XTensor(gt.reshape(whole.values, [*head, math.prod(tail)]), [*remaining, new])
    return y


@method
def unstack(x: Any, /, dim: Any = None, **dims: Any) -> XTensor:
    """Return the array with a dimension split into several, which are the last.

    Args:
        x: Any dimensions.
        dim: A dict of dimensions, each with a dict of the new ones and their lengths, in the order
            in which they vary, the last one fastest.
        dims: The same as keywords.

    Raises:
        ArgumentError: A new name that the array has, or fewer than two of them.
        AxisError: The array lacks a dimension.
        ShapeError: The product of the lengths is not the dimension's length.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.xtensor("x", dims=("cell",), shape=(6,))
        >>> unstack(x, cell={"row": 2, "column": 3})
        reshape(x, shape=(2, 3)): float64[row=2, column=3]
    """
    y = as_xtensor(x)
    for old, sizes in _one_way("unstack", dim, dims).items():
        align.select_dims("unstack", y, old)
        if not isinstance(sizes, Mapping) or len(sizes) < 2:
            raise ArgumentError(
                f"unstack: {old}={sizes!r}.",
                f"Give two lengths or more: {old}={{'row': 2, 'column': 3}}; rename gives another "
                "name.",
            )
        for new in sizes:
            _new("unstack", y, new)
        remaining = [each for each in y.dims if each != old]
        whole = reorder(y, [*remaining, old])
        head = [length(whole.values, i) for i in range(len(remaining))]
        tail = [_length("unstack", new, n) for new, n in sizes.items()]
        y = XTensor(gt.reshape(whole.values, [*head, *tail]), [*remaining, *sizes])
    return y


def _length(title: str, dim: str, n: Any) -> Any:
    """Return a user's length if it is an integer, Python's or symbolic."""
    n = unwrap(n)
    array = gt.as_tensor(n)
    if array.ndim or not is_integer(array.dtype):
        raise DTypeError(f"{title}: the length {n!r} of {dim!r} is no integer.")
    return n


@method
def expand_dims(x: Any, /, dim: Any = None, axis: Any = None, **dim_kwargs: Any) -> XTensor:
    """Return the array with new dimensions in front, along which it is repeated.

    Args:
        x: Any dimensions.
        dim: A name or several, of length 1; or a dict of names and lengths.
        axis: Positions of the new dimensions in the result: an integer for each.
        dim_kwargs: Names and lengths.

    Raises:
        ArgumentError: A name that the array has; another number of positions than names.
        ShapeError: A negative length.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.xtensor("x", dims=("a",), shape=(2,))
        >>> expand_dims(x, draw=5).type, expand_dims(x, "b", axis=-1).type
        (float64[draw=5, a=2], float64[a=2, b=1])
    """
    x = as_xtensor(x)
    if dim is not None and not isinstance(dim, Mapping):
        dim = dict.fromkeys(align.check_dims("expand_dims", dim), 1)
    sizes = _one_way("expand_dims", dim, dim_kwargs)
    for new in align.check_dims("expand_dims", sizes):
        _new("expand_dims", x, new)
    lengths = [_new_length(new, n) for new, n in sizes.items()]
    old_shape = [length(x.values, i) for i in range(x.ndim)]
    shape = [*lengths, *old_shape]
    values = gt.expand_dims(x.values, tuple(range(len(lengths)))) if lengths else x.values
    if any(n != 1 for n in lengths):
        values = gt.broadcast_to(x.values, shape)
    expanded = XTensor(values, [*sizes, *x.dims])
    if axis is None:
        return expanded
    positions = [axis] if isinstance(axis, int) else list(axis)
    if len(positions) != len(sizes):
        raise ArgumentError(
            f"expand_dims: axis={axis!r} for the dimensions {tuple(sizes)}.",
            "Give a place for each.",
        )
    order = list(x.dims)
    for new, position in zip(sizes, positions, strict=True):
        order.insert(position if position >= 0 else len(order) + position + 1, new)
    return reorder(expanded, order)


def _new_length(dim: str, n: Any) -> Any:
    if isinstance(n, list | tuple | np.ndarray):
        warnings.warn(
            f"expand_dims: of the coordinates of {dim!r} only the number is used, {len(n)}.",
            stacklevel=frames_up(),
        )
        return len(n)
    if isinstance(n, int) and n < 0:
        raise ShapeError(f"expand_dims: the length of {dim!r} is {n}.", "Use one from 0 on.")
    return _length("expand_dims", dim, n)


@method
def squeeze(x: Any, dim: align.Dim = None, *, axis: Any = None) -> XTensor:
    """Return the array without dimensions of length 1.

    Args:
        x: Any dimensions.
        dim: The dimensions; by default all of static length 1.
        axis: The positions of the dimensions, instead of ``dim``.

    Raises:
        AxisError: The array lacks a dimension.
        ShapeError: A dimension has another static length.
    """
    x = as_xtensor(x)
    if axis is not None:
        if dim is not None:
            raise ArgumentError("squeeze: both dim and axis.", "Give one of them.")
        dim = [x.dims[i] for i in ([axis] if isinstance(axis, int) else axis)]
    lengths = dict(zip(x.dims, x.values.type.shape, strict=True))
    dims = (
        [d for d, n in lengths.items() if n == 1]
        if dim is None
        else align.select_dims("squeeze", x, dim)
    )
    for each in dims:
        if lengths[each] not in {1, None}:
            raise ShapeError(
                f"squeeze({x!r}): the dimension {each!r} has the length {lengths[each]}, not 1.",
                "Select an element: x.isel(dim=0).",
            )
    values = gt.squeeze(x.values, tuple(x.dims.index(d) for d in dims)) if dims else x.values
    return XTensor(values, [each for each in x.dims if each not in dims])


def broadcast(*args: Any, exclude: str | Sequence[str] | None = None) -> tuple[XTensor, ...]:
    """Return arrays that all have the dimensions of all, in one order, with their lengths.

    Args:
        args: The arrays.
        exclude: Dimensions that are not broadcast; they become the last ones of their arrays.

    Raises:
        ShapeError: A dimension has two lengths.

    Example:
        >>> import graphc.xtensor as gx
        >>> x, y = gx.xtensor("x", dims=("a",)), gx.xtensor("y", dims=("b",))
        >>> [each.dims for each in broadcast(x, y)]
        [('a', 'b'), ('a', 'b')]
    """
    apart = () if exclude is None else align.check_dims("broadcast", exclude)
    xs = [as_xtensor(x) for x in args]
    lengths = align.dim_lengths("broadcast", xs, apart)
    sizes = {dim: n if n is not None else align.length_of(xs, dim) for dim, n in lengths.items()}
    results = []
    for x in xs:
        excluded = [dim for dim in apart if dim in x.dims]
        order = [*lengths, *excluded]
        shape = [sizes[d] if d in sizes else length(x.values, x.dims.index(d)) for d in order]
        values = align.permute(align.with_lengths("broadcast", x, lengths), x.dims, order)
        full = {*x.dims} == {*order}
        results.append(XTensor(values if full else gt.broadcast_to(values, shape), order))
    return tuple(results)


@method
def broadcast_like(x: Any, other: Any, exclude: Any = None) -> XTensor:
    """Return the array with the dimensions of another too, and its lengths.

    Args:
        x: Any dimensions.
        other: The other array.
        exclude: Dimensions that are not broadcast.
    """
    return broadcast(other, x, exclude=exclude)[1]


def concat(xtensors: Sequence[Any], dim: str) -> XTensor:
    """Return arrays joined along a dimension; one that lacks it is a single element of it.

    Args:
        xtensors: The arrays, which broadcast along their other dimensions.
        dim: The dimension; a new one is the first of the result.

    Raises:
        ArgumentError: No arrays.
        ShapeError: Another dimension has two lengths.

    Example:
        >>> import graphc.xtensor as gx
        >>> x, zero = gx.xtensor("x", dims=("a", "b"), shape=(2, 3)), gx.as_xtensor(0.0)
        >>> concat([zero, x], dim="a").type
        float64[a=3, b=3]
    """
    xs = [as_xtensor(x) for x in xtensors]
    (name,) = align.check_dims("concat", [dim])
    if not xs:
        raise ArgumentError("concat: there are no arrays.")
    seen = dict.fromkeys(each for x in xs for each in x.dims)
    order = list(seen) if name in seen else [name, *seen]
    whole = broadcast(*xs, exclude=(name,))
    operands = [align.permute_all(x.values, x.dims, order) for x in whole]
    return XTensor(gt.concatenate(operands, axis=order.index(name)), order)


def full_like(x: Any, fill_value: Any, dtype: Any = None) -> XTensor:
    """Return an array of the same dimensions and lengths, filled with a value.

    Args:
        x: Any dimensions.
        fill_value: A scalar.
        dtype: The dtype; by default the dtype of ``x``.

    Raises:
        ShapeError: The value is no scalar.

    Example:
        >>> import graphc.xtensor as gx
        >>> full_like(gx.xtensor("x", dims=("a", "b"), shape=(2, 3)), 5).type
        float64[a=2, b=3]
    """
    x = as_xtensor(x)
    value = as_xtensor(fill_value)
    if value.ndim:
        raise ShapeError(f"full_like: the value {value!r} is no scalar.", "Use broadcast_like.")
    return XTensor(gt.full_like(x.values, value.values, dtype=dtype or x.dtype), x.dims)


def ones_like(x: Any, dtype: Any = None) -> XTensor:
    """Return an array of ones; arguments as for ``full_like``."""
    return full_like(x, 1, dtype)


def zeros_like(x: Any, dtype: Any = None) -> XTensor:
    """Return an array of zeros; arguments as for ``full_like``."""
    return full_like(x, 0, dtype)


def shard(x: Any, sharding: Any) -> XTensor:
    """Return the array with a declared sharding, for a mode with a mesh of devices.

    Without a mesh it is the array itself: see ``graphc.tensor.shard``.

    Args:
        x: An array with named dimensions.
        sharding: A dict of dimensions and the axes of the mesh that shard them: each a name, a
            tuple of names, None, or ``"*"`` where the compiler may choose. Other dimensions are
            replicated. A tuple goes by position.

    Raises:
        ShardingError: There is no such dimension, or an axis of the mesh occurs twice; when a
            function is compiled: the mesh has no such axis, or a length cannot be sharded.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.xtensor("x", dims=("city", "year"))
        >>> shard(x, {"year": "data"})
        shard(x, sharding=(None, 'data')): float64[city=?, year=?]
    """
    named = as_xtensor(x)
    return named.alike(gt.shard(named.values, named.positional(sharding)))
