"""Parts of arrays by places along named dimensions, and arrays with such parts changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.errors import ArgumentError, AxisError, BoundsError, DTypeError, ShapeError
from graphc.ir import Constant, is_integer, unwrapped
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length
from graphc.xtensor.align import Dims, checked, combined, declared, has, placed
from graphc.xtensor.methods import Missing
from graphc.xtensor.shape import missing_dim
from graphc.xtensor.table import method
from graphc.xtensor.type import Part, XTensor, as_xtensor, is_named

__all__ = ["head", "inc", "index", "isel", "set", "tail", "thin"]

Place = slice | int | Tensor | XTensor
"""Places along one dimension: a slice, an integer (a scalar), or an array of integers."""

WHOLE = slice(None)


@method
def index(x: Any, *indices: Any) -> XTensor:
    """Return a part of an array by places along its dimensions, in their order.

    Args:
        x: Any dimensions.
        indices: As the values for ``isel``; ``...`` once, for dimensions in between.

    Raises:
        AxisError: More of them than dimensions, or several dimensions of an array without names.
        BoundsError: An integer outside a length that is known.
        DTypeError: A value that is no place.
        ShapeError: Arrays of places share a dimension and differ in its length.
    """
    x = as_xtensor(x)
    given = _expanded(x, indices)
    places = [_place(x, dim, each) for dim, each in zip(x.dims, given, strict=True)]
    return _part(x, places)


@method
def isel(
    x: Any,
    indexers: Mapping[str, Any] | None = None,
    drop: bool = False,
    missing_dims: Missing = "raise",
    **indexers_kwargs: Any,
) -> XTensor:
    """Return a part of an array by places along dimensions.

    Args:
        x: Any dimensions.
        indexers: A dict of dimensions and places: an integer, a slice, an integer or bool array, or
            a pair of names and an array. An array has names of its own, or stands along the
            dimension that it selects from.
        drop: Accepted for PyTensor compatibility: there are no coordinates.
        missing_dims: What is done about a dimension that the array lacks: ``"raise"``, ``"warn"``
            or ``"ignore"``.
        indexers_kwargs: Dimensions and places.

    Raises:
        AxisError: The array lacks a dimension.
        BoundsError: An integer outside a length that is known.

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
    chosen: dict[str, Any] = {}
    for dim, given in (indexers_kwargs if indexers is None else indexers).items():
        if given is Ellipsis:
            raise ArgumentError(f"isel: {dim}=... is no place.", "Leave the dimension out.")
        if dim in x.dims:
            chosen[dim] = given
        else:
            missing_dim("isel", x, dim, missing_dims)
    return index(x, *[chosen.get(dim, WHOLE) for dim in x.dims])


def _expanded(x: XTensor, indices: Sequence[Any]) -> list[Any]:
    """An entry for each dimension."""
    dots = [i for i, each in enumerate(indices) if each is Ellipsis]
    left = x.ndim - len(indices) + len(dots)
    if len(dots) > 1 or left < 0:
        raise AxisError(
            f"{x!r} with an index of {len(indices)} entries.",
            f"{has(x)} Write ... once for those that are left.",
        )
    place = dots[0] if dots else len(indices)
    return [*indices[:place], *[WHOLE] * left, *indices[place + len(dots) :]]


# Places.


def _place(x: XTensor, dim: str, given: Any) -> Place:
    if isinstance(given, slice):
        return slice(*map(unwrapped, (given.start, given.stop, given.step)))
    if given is None or isinstance(given, bool | np.bool_ | str | float | np.floating):
        raise DTypeError(
            f"{x!r}: {dim}={given!r} is no place.",
            "Use an integer, a slice, an integer or bool array; expand_dims adds a dimension.",
        )
    if isinstance(given, int | np.integer):
        return _in_bounds(x, dim, int(given))
    places = _array(x, dim, given)
    if places.dtype == "bool":
        return _true_places(x, dim, places)
    if not is_integer(places.dtype):
        raise DTypeError(
            f"{x!r}: the places {dim}={places!r} are no integers.", "Give integers or bools."
        )
    return places if places.ndim else places.values


def _in_bounds(x: XTensor, dim: str, i: int) -> int:
    n = x.values.type.shape[x.dims.index(dim)]
    if n is not None and not -n <= i < n:
        raise BoundsError(f"{x!r}: {dim}={i} is outside its length {n}.")
    return i


def _array(x: XTensor, dim: str, given: Any) -> XTensor:
    """An array of places, which is named after the dimension where it has no names."""
    if isinstance(given, tuple) and len(given) == 2 and _are_names(given[0]):
        names, values = given
        if isinstance(values, XTensor) or is_named(values):
            raise ArgumentError(
                f"{x!r}: names {names!r} for places that have names, {values!r}.",
                "Use values.rename(...).",
            )
        return XTensor(_integers(values), checked("isel", names))
    if isinstance(given, XTensor) or is_named(given):
        return as_xtensor(given)
    values = _integers(given)
    if values.ndim > 1:
        raise AxisError(
            f"{x!r}: the places {dim}={values!r} have {values.ndim} axes and no names.",
            'Name them: (("a", "b"), array), or graphc.xtensor.as_xtensor(array, dims=...).',
        )
    return XTensor(values, (dim,)[: values.ndim])


def _are_names(given: Any) -> bool:
    several = isinstance(given, tuple | list) and all(isinstance(each, str) for each in given)
    return isinstance(given, str) or several


def _integers(given: Any) -> Tensor:
    values: Tensor = gt.as_tensor(given)
    # An empty list has no dtype of its own.
    return values.astype("int64") if isinstance(given, list | tuple) and not given else values


def _true_places(x: XTensor, dim: str, mask: XTensor) -> XTensor:
    if mask.dims != (dim,):
        raise AxisError(
            f"{x!r}: the mask {mask!r} for {dim!r} has the dimensions {mask.dims}.",
            "A mask has the dimension that it selects from, or no name; for others use where.",
        )
    combined("isel", [x, mask])
    values = mask.values
    if isinstance(values.op, Constant):
        return XTensor(gt.as_tensor(np.flatnonzero(values.op.value)), (dim,))
    return XTensor(gt.flatnonzero(values), (dim,))


# Parts.


def _part(x: XTensor, places: list[Place]) -> XTensor:
    shared = {d for each in places if isinstance(each, XTensor) for d in each.dims}
    for axis, (dim, each) in enumerate(zip(x.dims, places, strict=True)):
        if isinstance(each, slice) and dim in shared:
            # Another dimension is indexed along this one: element by element.
            along = gt.arange(length(x.values, axis))[each]
            places[axis] = XTensor(along, (dim,))
    arrays = [each for each in places if isinstance(each, XTensor)]
    lengths = combined("isel", arrays)
    core = tuple(lengths)
    entries = [
        placed(declared("isel", each, lengths), each.dims, core)
        if isinstance(each, XTensor)
        else each
        for each in places
    ]
    values = x.values[tuple(entries)]
    dims = _dims_by_place(x, places, core)
    order = list(dict.fromkeys(d for pair in zip(x.dims, places, strict=True) for d in _of(*pair)))
    part = Part(x, values, dims)
    return XTensor(placed(values, dims, order), order, part)


def _of(dim: str, place: Place) -> Dims:
    """The dimensions of the result that an entry gives."""
    if isinstance(place, slice):
        return (dim,)
    return place.dims if isinstance(place, XTensor) else ()


def _dims_by_place(x: XTensor, places: Sequence[Place], core: Dims) -> Dims:
    """The dimensions in NumPy's order: arrays' own in their place, in front if they are apart."""
    taken = [i for i, each in enumerate(places) if not isinstance(each, slice)]
    if not any(isinstance(each, XTensor) for each in places):
        return tuple(dim for i, dim in enumerate(x.dims) if i not in taken)
    first = taken[0] if taken[-1] - taken[0] == len(taken) - 1 else 0
    before = [dim for i, dim in enumerate(x.dims) if i not in taken and i < first]
    after = [dim for i, dim in enumerate(x.dims) if i not in taken and i >= first]
    return (*before, *core, *after)


# Arrays with changed parts.


def _changed(title: str, f: Callable[..., Any], x: XTensor, value: Any) -> XTensor:
    part = x.part
    if part is None:
        raise ArgumentError(
            f".{title}(...): {x!r} is not a part of an array.",
            f"Write x[index].{title}(value), or x.isel(dim=...).{title}(value).",
        )
    if not isinstance(value, XTensor) and not is_named(value):
        given = gt.as_tensor(value)
        value = XTensor(given, x.dims if given.ndim == x.ndim and given.ndim else ())
    new = as_xtensor(value)
    target = XTensor(part.values, part.dims)
    if not {*new.dims} <= {*part.dims}:
        raise ShapeError(
            f".{title}(...): the value {new!r} has a dimension that {x!r} lacks.",
            f"{has(x)} The value may have those, or fewer.",
        )
    lengths = combined(title, [target, new])
    values = placed(declared(title, new, lengths), new.dims, part.dims)
    return part.whole.alike(f(part.values, values))


@method
def set(x: XTensor, value: Any) -> XTensor:
    """Return the array whose part is given with the part replaced.

    Args:
        x: The part: the result of ``isel`` or ``index``.
        value: Its dimensions are among those of the part; an array without names has the part's.

    Raises:
        ArgumentError: ``x`` is no part of an array.
        ShapeError: The value has another dimension or another length.

    Example:
        >>> import graphc.xtensor as gx
        >>> x = gx.as_xtensor([[1, 2], [3, 4]], dims=("a", "b"))
        >>> x.isel(b=0).set(gx.as_xtensor([10, 30], dims="a")).eval(mode="NUMPY").tolist()
        [[10, 2], [30, 4]]
    """
    return _changed("set", gt.set_subtensor, x, value)


@method
def inc(x: XTensor, value: Any) -> XTensor:
    """Return the array whose part is given with a value added to the part.

    Repeated places add up. Arguments, result and errors as for ``set``.
    """
    return _changed("inc", gt.inc_subtensor, x, value)


# The ends of dimensions.


def _along(
    title: str, x: Any, indexers: Any, keywords: Mapping[str, Any], default: int | None
) -> dict[str, Any]:
    """A number for each dimension that was named."""
    if indexers is not None and keywords:
        raise ArgumentError(f"{title}: numbers both ways.", "Give a dict or keywords.")
    given = keywords or indexers
    if isinstance(given, Mapping) and (given or indexers is not None):
        return {dim: unwrapped(n) for dim, n in given.items()}
    n = default if indexers is None else indexers
    if n is None:
        raise ArgumentError(
            f"{title}: no number of elements.", f"Give one: x.{title}(2), x.{title}(dim=2)."
        )
    return dict.fromkeys(x.dims, unwrapped(n))


@method
def head(x: Any, indexers: Any = None, **indexers_kwargs: Any) -> XTensor:
    """Return the first elements along dimensions.

    Args:
        x: Any dimensions.
        indexers: How many: a dict of dimensions and numbers, or one for all; 5 by default.
        indexers_kwargs: Dimensions and numbers.
    """
    numbers = _along("head", x, indexers, indexers_kwargs, 5)
    return isel(x, {dim: slice(None, n) for dim, n in numbers.items()})


@method
def tail(x: Any, indexers: Any = None, **indexers_kwargs: Any) -> XTensor:
    """Return the last elements along dimensions; arguments as for ``head``."""
    numbers = _along("tail", x, indexers, indexers_kwargs, 5)
    sizes = {dim: length(x.values, i) for i, dim in enumerate(x.dims)}
    places = {dim: slice(_from(sizes.get(dim, 0), n), None) for dim, n in numbers.items()}
    return isel(x, places)


def _from(size: Any, n: Any) -> Any:
    """Where the last n elements begin: at 0 where there are fewer."""
    if isinstance(size, int) and isinstance(n, int):
        return max(size - n, 0)
    return gt.maximum(gt.as_tensor(size) - n, 0)


@method
def thin(x: Any, indexers: Any = None, **indexers_kwargs: Any) -> XTensor:
    """Return every so many elements along dimensions; arguments as for ``head``.

    Raises:
        ArgumentError: No number; there is no default.
    """
    numbers = _along("thin", x, indexers, indexers_kwargs, None)
    return isel(x, {dim: slice(None, None, n) for dim, n in numbers.items()})
