"""Graphs for whole batches: parts replaced by arrays that have more dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import graphc.tensor as gt
from graphc.errors import ArgumentError, AxisError
from graphc.ir import toposort, unwrapped, wrapped
from graphc.tensor import Tensor
from graphc.tensor.arrays import vectorize
from graphc.xtensor.align import Dims, checked, combined, declared, filled
from graphc.xtensor.type import XTensor, as_xtensor

__all__ = ["vectorize_graph"]


def vectorize_graph(
    outputs: Any, replace: Mapping[Any, Any], *, new_tensor_dims: Sequence[str] = ()
) -> Any:
    """Return outputs for whole batches that replace parts of their graph.

    No loop is built: each operation is applied once, to the whole batch.

    Args:
        outputs: An array with named dimensions or without, or a list or tuple of them.
        replace: For arrays of the outputs' graph, arrays that have their dimensions and new ones
            anywhere; for arrays without names, arrays with new axes in front.
        new_tensor_dims: The names of the new axes of arrays without names, from left to right.

    Returns:
        As many arrays. One with names has the new dimensions that it depends on in front: first
        those that only arrays with names have, then ``new_tensor_dims``. One without names has an
        axis in front for each new dimension, of length 1 where it does not depend on it. One that
        depends on no replacement is returned as it is.

    Raises:
        AxisError: A replacement lacks a dimension of what it replaces, or has axes without names.
        ShapeError: A dimension has two lengths.
        ArgumentError: What is replaced or replaces is no symbolic array; an output has a dimension
            of the name of a new one.

    Example:
        >>> import graphc.xtensor as gx
        >>> x, y = gx.xtensor("x", dims=("a",)), gx.xtensor("y", dims=("a",))
        >>> xs, ys = gx.xtensor("xs", dims=("c", "a")), gx.xtensor("ys", dims=("a", "b"))
        >>> vectorize_graph((x * y).sum("a"), {x: xs, y: ys}).dims
        ('c', 'b')
    """
    several = isinstance(outputs, list | tuple)
    ys = list(outputs) if several else [outputs]
    tensor_dims = checked(TITLE, new_tensor_dims)
    batches = [_Batch.of(old, new, tensor_dims) for old, new in replace.items()]
    seen = dict.fromkeys(dim for each in batches for dim in each.new)
    order = (*[dim for dim in seen if dim not in tensor_dims], *tensor_dims)
    own = [dim for each in batches for dim in each.own if dim not in order]
    sizes = combined(TITLE, [each.array for each in batches], own)
    swaps = {unwrapped(each.old): each.leading(order, sizes) for each in batches}
    made = vectorize.vectorize_graph([unwrapped(y) for y in ys], swaps)
    found = [_result(y, new, batches, order) for y, new in zip(ys, made, strict=True)]
    return type(outputs)(found) if several else found[0]


TITLE = "vectorize_graph"


@dataclass(frozen=True, slots=True)
class _Batch:
    """A replacement.

    Attributes:
        old: The array that is replaced.
        array: What replaces it, with names of all axes.
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
        """The array with all new dimensions in front, of length 1 where it lacks them."""
        values = declared(TITLE, self.array, sizes)
        return filled(values, self.array.dims, (*order, *self.own))


def _with_names(old: Tensor, new: Tensor, tensor_dims: Dims) -> XTensor:
    """A replacement of an array without names, whose new axes get theirs; those of length 1 go."""
    n = new.ndim - old.ndim
    if not 0 <= n <= len(tensor_dims):
        raise AxisError(
            f"{TITLE}: {new!r} for {old!r} has {n} new axes, new_tensor_dims={tensor_dims}.",
            "Name the axes in front: new_tensor_dims=(...).",
        )
    ones = tuple(i for i in range(n) if new.type.shape[i] == 1)
    names = [dim for i, dim in enumerate(tensor_dims[len(tensor_dims) - n :]) if i not in ones]
    values = gt.squeeze(new, ones) if ones else new
    return XTensor(values, [*names, *[f"axis {i} of {old!r}" for i in range(old.ndim)]])


def _result(y: Any, made: Tensor, batches: Sequence[_Batch], order: Dims) -> Any:
    """An output with the new dimensions that it depends on."""
    needed = {*toposort([unwrapped(y)])}
    read = [each for each in batches if unwrapped(each.old) in needed]
    if not isinstance(y, XTensor) or not read:
        return wrapped(y, made)
    present = {dim for each in read for dim in each.new}
    absent = tuple(i for i, dim in enumerate(order) if dim not in present)
    values = gt.squeeze(made, absent) if absent else made
    return XTensor(values, [*[dim for dim in order if dim in present], *y.dims])
