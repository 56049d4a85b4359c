"""Graphs for batches: parts replaced by arrays that have more dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import graphc.tensor as gt
from graphc.errors import ArgumentError, AxisError
from graphc.ir import flatten, rebuild, toposort, unwrap, wrap_like
from graphc.tensor import Tensor
from graphc.tensor.arrays import vectorize
from graphc.xtensor.align import Dims, check_dims, dim_lengths, permute_all, with_lengths
from graphc.xtensor.type import XTensor, as_xtensor

__all__ = ["vectorize_graph"]


def vectorize_graph(
    outputs: Any, replace: Mapping[Any, Any], *, new_tensor_dims: Sequence[str] = ()
) -> Any:
    """Return outputs for batches that replace parts of their graph.

    No loop is built: each operation is applied once, to the batch.

    Args:
        outputs: An array with named dimensions or without, or a nested list, tuple
            or dict of them.
        replace: For arrays of the outputs' graph, arrays that have their dimensions and new ones
            anywhere; for arrays without names, arrays with new axes in front.
        new_tensor_dims: The names of the new axes of arrays without names, from left to right.

    Returns:
        An array for each output. An array with names has the new dimensions that it depends on in
        front: first those that only arrays with names have, then ``new_tensor_dims``. An array
        without names has an axis in front for each new dimension, of length 1 if it does not depend
        on it. An output that depends on no replacement is returned itself.

    Raises:
        AxisError: A replacement lacks a dimension of the replaced array, or has axes without names.
        ShapeError: A dimension has two lengths.
        ArgumentError: A replaced or replacing object is no symbolic array; an output has a
            dimension with a new name.

    Example:
        >>> import graphc.xtensor as gx
        >>> x, y = gx.xtensor("x", dims=("a",)), gx.xtensor("y", dims=("a",))
        >>> xs, ys = gx.xtensor("xs", dims=("c", "a")), gx.xtensor("ys", dims=("a", "b"))
        >>> vectorize_graph((x * y).sum("a"), {x: xs, y: ys}).dims
        ('c', 'b')
    """
    ys = flatten(outputs)
    tensor_dims = check_dims(TITLE, new_tensor_dims)
    batches = [_Batch.of(old, new, tensor_dims) for old, new in replace.items()]
    seen = dict.fromkeys(dim for each in batches for dim in each.new)
    order = (*[dim for dim in seen if dim not in tensor_dims], *tensor_dims)
    old_dims = [dim for each in batches for dim in each.own if dim not in order]
    sizes = dim_lengths(TITLE, [each.array for each in batches], old_dims)
    swaps = {unwrap(each.old): each.leading(order, sizes) for each in batches}
    arrays = vectorize.vectorize_graph([unwrap(y) for y in ys], swaps)
    results = [_result(y, new, batches, order) for y, new in zip(ys, arrays, strict=True)]
    return rebuild(outputs, results)


TITLE = "vectorize_graph"


@dataclass(frozen=True, slots=True)
class _Batch:
    """A replacement.

    Attributes:
        old: The array that is replaced.
        array: The replacement, with names of all axes.
        own: The names of the axes that the replaced array has.
        new: The other names.
    """

    old: Any
    array: XTensor
    own: Dims
    new: Dims

    @classmethod
    def of(cls, old: Any, new: Any, tensor_dims: Dims) -> _Batch:
        if not isinstance(old, XTensor | Tensor):
            raise ArgumentError(f"{TITLE}: {old!r} is no array of the graph.")
        array = (
            new if isinstance(old, XTensor) else _with_names(old, gt.as_tensor(new), tensor_dims)
        )
        array = as_xtensor(array)
        own = old.dims if isinstance(old, XTensor) else array.dims[array.ndim - old.ndim :]
        missing = [dim for dim in own if dim not in array.dims]
        if missing:
            raise AxisError(
                f"{TITLE}: {array!r} for {old!r} lacks the dimension {missing[0]!r}.",
                "Give all dimensions of what is replaced, and new ones.",
            )
        return cls(old, array, own, tuple(dim for dim in array.dims if dim not in own))

    def leading(self, order: Dims, sizes: Mapping[str, int | None]) -> Tensor:
        """Return the array with all new dimensions in front, of length 1 where it lacks them."""
        values = with_lengths(TITLE, self.array, sizes)
        return permute_all(values, self.array.dims, (*order, *self.own))


def _with_names(old: Tensor, new: Tensor, tensor_dims: Dims) -> XTensor:
    """Name the axes of the replacement of an array without names; squeeze new axes of length 1."""
    n = new.ndim - old.ndim
    if not 0 <= n <= len(tensor_dims):
        raise AxisError(
            f"{TITLE}: {new!r} for {old!r} has {n} new axes, new_tensor_dims={tensor_dims}.",
            "Name the axes in front: new_tensor_dims=(...).",
        )
    unit_axes = tuple(i for i in range(n) if new.type.shape[i] == 1)
    names = [dim for i, dim in enumerate(tensor_dims[len(tensor_dims) - n :]) if i not in unit_axes]
    values = gt.squeeze(new, unit_axes) if unit_axes else new
    return XTensor(values, [*names, *[f"axis {i} of {old!r}" for i in range(old.ndim)]])


def _result(y: Any, array: Tensor, batches: Sequence[_Batch], order: Dims) -> Any:
    """Return an output with the new dimensions that it depends on."""
    needed = {*toposort([unwrap(y)])}
    read = [each for each in batches if unwrap(each.old) in needed]
    if not isinstance(y, XTensor) or not read:
        return wrap_like(y, array)
    present = {dim for each in read for dim in each.new}
    absent = tuple(i for i, dim in enumerate(order) if dim not in present)
    values = gt.squeeze(array, absent) if absent else array
    return XTensor(values, [*[dim for dim in order if dim in present], *y.dims])
