"""Parts of arrays by indices along named dimensions, and arrays with changed parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.errors import ArgumentError, AxisError, BoundsError, DTypeError, ShapeError
from graphc.ir import Constant, is_integer, unwrap
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length
from graphc.xtensor.align import Dims, check_dims, dim_lengths, dims_text, permute, with_lengths
from graphc.xtensor.methods import Missing, method
from graphc.xtensor.shape import missing_dim
from graphc.xtensor.type import Part, XTensor, as_xtensor, is_named

__all__ = ["head", "inc", "index", "isel", "set", "tail", "thin"]

Indices = slice | int | Tensor | XTensor
"""Indices along one dimension: a slice, an integer (a scalar), or an array of integers."""

ALL = slice(None)


@method
def index(x: Any, *indices: Any) -> XTensor:
    """Return a part of an array by indices along its dimensions, in their order.

    Args:
        x: Any dimensions.
        indices: Indices as for ``isel``; ``...`` once, for the dimensions in between.

    Raises:
        AxisError: More indices than dimensions, or several dimensions of an array without names.
        BoundsError: An integer is outside a static length.
        DTypeError: A value is no index.
        ShapeError: Arrays of indices share a dimension and differ in its length.
    """
    x = as_xtensor(x)
    entries = _entry_per_dim(x, indices)
    indices_by_dim = [_as_indices(x, dim, each) for dim, each in zip(x.dims, entries, strict=True)]
    return _part(x, indices_by_dim)


@method
def isel(
    x: Any,
    /,
    indexers: Mapping[str, Any] | None = None,
    drop: bool = False,
    missing_dims: Missing = "raise",
    **indexers_kwargs: Any,
) -> XTensor:
    """Return a part of an array by indices along dimensions.

    Args:
        x: Any dimensions.
        indexers: A dict of dimensions and indices: an integer, a slice, an integer or bool array,
            or a pair of names and an array. An array without names is along the dimension that it
            selects from.
        drop: Accepted for PyTensor compatibility: there are no coordinates.
        missing_dims: The reaction to a dimension that the array lacks: ``"raise"``, ``"warn"`` or
            ``"ignore"``.
        indexers_kwargs: Dimensions and indices.

    Raises:
        AxisError: The array lacks a dimension.
        BoundsError: An integer is outside a static length.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.xtensor("x", dims=("city", "year"), shape=(3, 20))
        >>> isel(x, city=0, year=slice(0, 5)).type, isel(x, city=[0, 2]).type
        (float64[year=5], float64[city=2, year=20])
        >>> observed = gx.as_xtensor([0, 0, 2, 1], dims=("row",))
        >>> isel(x, city=observed).type
        float64[row=4, year=20]
    """
    x = as_xtensor(x)
    if indexers is not None and indexers_kwargs:
        raise ArgumentError("isel: places in a dict and as keywords.", "Give one of them.")
    requested = indexers_kwargs if indexers is None else indexers
    if not isinstance(requested, Mapping):
        raise ArgumentError(
            f"isel: indexers={requested!r} is no dict of dimensions and indices.",
            f"Write x.isel({{{(x.dims or ('dim',))[0]!r}: 0}}), or x[0] for the first dimension.",
        )
    chosen: dict[str, Any] = {}
    for dim, indices in requested.items():
        if indices is Ellipsis:
            raise ArgumentError(f"isel: {dim}=... is no place.", "Leave the dimension out.")
        if dim in x.dims:
            chosen[dim] = indices
        else:
            missing_dim("isel", x, dim, missing_dims)
    return index(x, *[chosen.get(dim, ALL) for dim in x.dims])


def _entry_per_dim(x: XTensor, indices: Sequence[Any]) -> list[Any]:
    dots = [i for i, each in enumerate(indices) if each is Ellipsis]
    missing = x.ndim - len(indices) + len(dots)
    if len(dots) > 1 or missing < 0:
        raise AxisError(
            f"{x!r} with an index of {len(indices)} entries.",
            f"{dims_text(x)} Write ... once for those that are left.",
        )
    position = dots[0] if dots else len(indices)
    return [*indices[:position], *[ALL] * missing, *indices[position + len(dots) :]]


# Indices.


def _as_indices(x: XTensor, dim: str, value: Any) -> Indices:
    if isinstance(value, slice):
        return slice(*map(unwrap, (value.start, value.stop, value.step)))
    if value is None or isinstance(value, bool | np.bool_ | str | float | np.floating):
        raise DTypeError(
            f"{x!r}: {dim}={value!r} is no place.",
            "Use an integer, a slice, an integer or bool array; expand_dims adds a dimension.",
        )
    if isinstance(value, int | np.integer):
        return _in_bounds(x, dim, int(value))
    array = _array(x, dim, value)
    if array.dtype == "bool":
        return _true_indices(x, dim, array)
    if not is_integer(array.dtype):
        raise DTypeError(
            f"{x!r}: the places {dim}={array!r} are no integers.", "Give integers or bools."
        )
    return array if array.ndim else array.values


def _in_bounds(x: XTensor, dim: str, i: int) -> int:
    n = x.values.type.shape[x.dims.index(dim)]
    if n is not None and not -n <= i < n:
        raise BoundsError(f"{x!r}: {dim}={i} is outside its length {n}.")
    return i


def _array(x: XTensor, dim: str, value: Any) -> XTensor:
    """Return an array of indices, named after the dimension if it has no names."""
    if isinstance(value, tuple) and len(value) == 2 and _are_names(value[0]):
        names, values = value
        if isinstance(values, XTensor) or is_named(values):
            raise ArgumentError(
                f"{x!r}: names {names!r} for places that have names, {values!r}.",
                "Use values.rename(...).",
            )
        return XTensor(_integers(values), check_dims("isel", names))
    if isinstance(value, XTensor) or is_named(value):
        return as_xtensor(value)
    values = _integers(value)
    if values.ndim > 1:
        raise AxisError(
            f"{x!r}: the places {dim}={values!r} have {values.ndim} axes and no names.",
            'Name them: (("a", "b"), array), or graphc.xtensor.as_xtensor(array, dims=...).',
        )
    return XTensor(values, (dim,)[: values.ndim])


def _are_names(value: Any) -> bool:
    several = isinstance(value, tuple | list) and all(isinstance(each, str) for each in value)
    return isinstance(value, str) or several


def _integers(value: Any) -> Tensor:
    values: Tensor = gt.as_tensor(value)
    # NumPy makes an empty list float64.
    return values.astype("int64") if isinstance(value, list | tuple) and not value else values


def _true_indices(x: XTensor, dim: str, mask: XTensor) -> XTensor:
    if mask.dims != (dim,):
        raise AxisError(
            f"{x!r}: the mask {mask!r} for {dim!r} has the dimensions {mask.dims}.",
            "A mask has the dimension that it selects from, or no name; for others use where.",
        )
    dim_lengths("isel", [x, mask])
    values = mask.values
    if isinstance(values.op, Constant):
        return XTensor(gt.as_tensor(np.flatnonzero(values.op.value)), (dim,))
    return XTensor(gt.flatnonzero(values), (dim,))


# Parts.


def _part(x: XTensor, keys: list[Indices]) -> XTensor:
    shared = {d for each in keys if isinstance(each, XTensor) for d in each.dims}
    for axis, (dim, each) in enumerate(zip(x.dims, keys, strict=True)):
        if isinstance(each, slice) and dim in shared:
            # Another dimension is indexed along this one: element by element.
            along = gt.arange(length(x.values, axis))[each]
            keys[axis] = XTensor(along, (dim,))
    arrays = [each for each in keys if isinstance(each, XTensor)]
    lengths = dim_lengths("isel", arrays)
    core = tuple(lengths)
    entries = [
        permute(with_lengths("isel", each, lengths), each.dims, core)
        if isinstance(each, XTensor)
        else each
        for each in keys
    ]
    values = x.values[tuple(entries)]
    dims = _dims_by_position(x, keys, core)
    order = list(dict.fromkeys(d for pair in zip(x.dims, keys, strict=True) for d in _dims(*pair)))
    part = Part(x, values, dims)
    return XTensor(permute(values, dims, order), order, part)


def _dims(dim: str, indices: Indices) -> Dims:
    if isinstance(indices, slice):
        return (dim,)
    return indices.dims if isinstance(indices, XTensor) else ()


def _dims_by_position(x: XTensor, indices: Sequence[Indices], core: Dims) -> Dims:
    """Return the dimensions in NumPy's order: arrays' are in front unless they are adjacent."""
    indexed = [i for i, each in enumerate(indices) if not isinstance(each, slice)]
    if not any(isinstance(each, XTensor) for each in indices):
        return tuple(dim for i, dim in enumerate(x.dims) if i not in indexed)
    first = indexed[0] if indexed[-1] - indexed[0] == len(indexed) - 1 else 0
    before = [dim for i, dim in enumerate(x.dims) if i not in indexed and i < first]
    after = [dim for i, dim in enumerate(x.dims) if i not in indexed and i >= first]
    return (*before, *core, *after)


# Arrays with changed parts.


def _change_part(title: str, f: Callable[..., Any], x: XTensor, value: Any) -> XTensor:
    part = x.part
    if part is None:
        raise ArgumentError(
            f".{title}(...): {x!r} is not a part of an array.",
            f"Write x[index].{title}(value), or x.isel(dim=...).{title}(value).",
        )
    if not isinstance(value, XTensor) and not is_named(value):
        array = gt.as_tensor(value)
        value = XTensor(array, x.dims if array.ndim == x.ndim and array.ndim else ())
    new = as_xtensor(value)
    target = XTensor(part.values, part.dims)
    if not {*new.dims} <= {*part.dims}:
        raise ShapeError(
            f".{title}(...): the value {new!r} has a dimension that {x!r} lacks.",
            f"{dims_text(x)} The value may have those, or fewer.",
        )
    lengths = dim_lengths(title, [target, new])
    values = permute(with_lengths(title, new, lengths), new.dims, part.dims)
    return part.array.alike(f(part.values, values))


@method
def set(x: XTensor, value: Any) -> XTensor:
    """Return the array with a part of it, ``x``, replaced.

    Args:
        x: The part: the result of ``isel`` or ``index``.
        value: The new part, with dimensions of ``x`` or fewer; an array without names has those.

    Raises:
        ArgumentError: ``x`` is no part of an array.
        ShapeError: The value has another dimension or another length.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.as_xtensor([[1, 2], [3, 4]], dims=("a", "b"))
        >>> x.isel(b=0).set(gx.as_xtensor([10, 30], dims="a")).eval(mode="NUMPY").tolist()
        [[10, 2], [30, 4]]
    """
    return _change_part("set", gt.set_subtensor, x, value)


@method
def inc(x: XTensor, value: Any) -> XTensor:
    """Return the array with a value added to a part of it, ``x``.

    Repeated indices add up. Arguments, result and errors as for ``set``.
    """
    return _change_part("inc", gt.inc_subtensor, x, value)


# The ends of dimensions.


def _along(
    title: str, x: Any, indexers: Any, keywords: Mapping[str, Any], default: int | None
) -> dict[str, Any]:
    if indexers is not None and keywords:
        raise ArgumentError(f"{title}: numbers both ways.", "Give a dict or keywords.")
    numbers = keywords or indexers
    if isinstance(numbers, Mapping) and (numbers or indexers is not None):
        return {dim: unwrap(n) for dim, n in numbers.items()}
    n = default if indexers is None else indexers
    if n is None:
        raise ArgumentError(
            f"{title}: no number of elements.", f"Give one: x.{title}(2), x.{title}(dim=2)."
        )
    return dict.fromkeys(x.dims, unwrap(n))


@method
def head(x: Any, /, indexers: Any = None, **indexers_kwargs: Any) -> XTensor:
    """Return the first elements along dimensions.

    Args:
        x: Any dimensions.
        indexers: A dict of dimensions and numbers, or a number for all; 5 by default.
        indexers_kwargs: Dimensions and numbers.
    """
    numbers = _along("head", x, indexers, indexers_kwargs, 5)
    return isel(x, {dim: slice(None, n) for dim, n in numbers.items()})


@method
def tail(x: Any, /, indexers: Any = None, **indexers_kwargs: Any) -> XTensor:
    """Return the last elements along dimensions; arguments as for ``head``."""
    numbers = _along("tail", x, indexers, indexers_kwargs, 5)
    sizes = {dim: length(x.values, i) for i, dim in enumerate(x.dims)}
    slices = {dim: slice(_from(sizes.get(dim, 0), n), None) for dim, n in numbers.items()}
    return isel(x, slices)


def _from(size: Any, n: Any) -> Any:
    """Return the index of the first of the last n elements: 0 if there are fewer."""
    if isinstance(size, int) and isinstance(n, int):
        return max(size - n, 0)
    return gt.maximum(gt.as_tensor(size) - n, 0)


@method
def thin(x: Any, /, indexers: Any = None, **indexers_kwargs: Any) -> XTensor:
    """Return every n-th element along dimensions; arguments as for ``head``.

    Raises:
        ArgumentError: No number; there is no default.
    """
    numbers = _along("thin", x, indexers, indexers_kwargs, None)
    return isel(x, {dim: slice(None, None, n) for dim, n in numbers.items()})
