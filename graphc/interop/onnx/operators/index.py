"""Operators that read and write at indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import graphc
import graphc.tensor as gt
from graphc.interop.onnx.operation import Operation, register
from graphc.interop.onnx.values import Known, Refusal, axis_of, with_axes
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length, lengths


@register("Gather")
def _gather(op: Operation, x: Tensor, indices: Tensor) -> Tensor:
    axis, value = op.axis(x.ndim), op.value(1)
    if isinstance(value, Known) and not value.is_symbolic and value.array.ndim == 0:
        return x[(*[slice(None)] * axis, int(value.array))]
    return gt.take(x, indices, axis=axis)


@register("GatherElements")
def _gather_elements(op: Operation, x: Tensor, indices: Tensor) -> Tensor:
    axis = op.axis(x.ndim)
    return gt.take_along_axis(_fitted(x, indices, axis), indices, axis=axis)


def _fitted(x: Tensor, like: Tensor, axis: int) -> Tensor:
    """The beginning of an array along all axes but one, as far as another goes."""
    cuts = [
        slice(None) if i == axis or n is None or n == m else slice(0, length(like, i))
        for i, (n, m) in enumerate(zip(like.type.shape, x.type.shape, strict=True))
    ]
    return x[tuple(cuts)]


@register("GatherND")
def _gather_nd(op: Operation, x: Tensor, indices: Tensor) -> Tensor:
    return x[_places(x, indices, int(op.get("batch_dims", 0)))]


def _places(x: Tensor, indices: Tensor, batches: int = 0) -> tuple[Tensor, ...]:
    """Indices along the first axes, whose last axis are the coordinates."""
    count = indices.type.shape[-1]
    if count is None:
        raise Refusal("how many coordinates an index has is unknown")
    ndim = indices.ndim - 1
    counted = [with_axes(gt.arange(length(x, i)), ndim, i) for i in range(batches)]
    return (*counted, *(indices[..., i] for i in range(count)))


# Writing.

WRITES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "none": gt.set_subtensor,
    "add": gt.inc_subtensor,
}
"""How elements are written of which several may go to one place."""

COMBINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mul": gt.multiply,
    "max": gt.maximum,
    "min": gt.minimum,
}
"""How elements are combined with those that are there, one after the other."""


def _reduction(op: Operation) -> str:
    found = op.get("reduction", "none")
    if found not in WRITES and found not in COMBINED:
        raise Refusal(f"reduction {found!r}")
    return str(found)


def _written(
    x: Tensor, parts: tuple[Any, ...], values: Tensor, by: str, steps: Sequence[Tensor]
) -> Tensor:
    """An array with values written at places.

    Args:
        x: The array.
        parts: The indices.
        values: The values.
        by: How they are combined.
        steps: Indices and values with an axis 0, each of whose elements goes to other places.
    """
    if by in WRITES:
        return WRITES[by](x[parts], values.astype(x.dtype))

    def step(carry: Tensor, row: Any) -> tuple[Tensor, None]:
        *places, value = row
        part = carry[tuple(places)]
        return gt.set_subtensor(part, COMBINED[by](part, value.astype(x.dtype))), None

    final, _ = graphc.loop(step, x, tuple(steps))
    return final


@register("ScatterElements", "Scatter")
def _scatter_elements(op: Operation, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis, by = op.axis(x.ndim), _reduction(op)
    n = length(x, axis)
    indices = gt.where(indices < 0, indices + n, indices)
    shape = lengths(indices)
    places = [with_axes(gt.arange(shape[i]), x.ndim, i) for i in range(x.ndim)]
    places[axis] = indices
    rows = [gt.moveaxis(gt.broadcast_to(p, tuple(shape)), axis, 0) for p in places]
    steps = [*rows, gt.moveaxis(updates, axis, 0)] if by in COMBINED else []
    return _written(x, tuple(places), updates, by, steps)


@register("ScatterND")
def _scatter_nd(op: Operation, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    by = _reduction(op)
    places = _places(x, indices)
    kept = lengths(updates)[indices.ndim - 1 :]
    steps = []
    if by in COMBINED:
        steps = [gt.reshape(p, (-1,)) for p in places]
        steps.append(gt.reshape(updates, (length(steps[0], 0), *kept)))
    return _written(x, places, updates, by, steps)


@register("TensorScatter")
def _tensor_scatter(op: Operation, x: Tensor, update: Tensor, *starts: Any) -> Tensor:
    """Write elements along an axis, from a start of each batch on."""
    axis, n = axis_of(int(op.get("axis", -2)), x.ndim), length(update, -2)
    n = length(update, axis)
    at = gt.reshape(with_axes(gt.arange(n), x.ndim, axis), tuple(_ones(x.ndim, axis, n)))
    if starts and starts[0] is not None:
        at = at + with_axes(starts[0].astype("int64"), x.ndim, 0)
    if op.get("mode", "linear") == "circular":
        at = gt.remainder(at, length(x, axis))
    places = [with_axes(gt.arange(m), x.ndim, i) for i, m in enumerate(lengths(update))]
    places[axis] = at
    return gt.set_subtensor(x[tuple(places)], update)


def _ones(ndim: int, axis: int, n: Any) -> list[Any]:
    return [n if i == axis else 1 for i in range(ndim)]


# Selecting.


@register("OneHot")
def _one_hot(op: Operation, indices: Tensor, _: Tensor, values: Tensor) -> Tensor:
    (depth,) = op.entries(1)
    axis = axis_of(int(op["axis"]), indices.ndim + 1)
    counted = with_axes(gt.arange(depth), indices.ndim + 1, axis)
    places = indices.astype("int64")
    places = gt.expand_dims(gt.where(places < 0, places + depth, places), axis)
    return gt.where(gt.equal(counted, places), values[1], values[0])


@register("NonZero")
def _nonzero(_: Operation, x: Tensor) -> Tensor:
    if x.ndim == 0:
        x = gt.reshape(x, (1,))
    return gt.stack([places.astype("int64") for places in gt.nonzero(x)])


@register("Compress")
def _compress(op: Operation, x: Tensor, condition: Tensor) -> Tensor:
    axis = op["axis"]
    return gt.compress(condition, x, None if axis is None else axis_of(int(axis), x.ndim))


@register("ArrayFeatureExtractor", domain="ai.onnx.ml")
def _features(_: Operation, x: Tensor, indices: Tensor) -> Tensor:
    found = gt.take(x, gt.reshape(indices, (-1,)), axis=-1)
    return gt.reshape(found, (1, -1)) if x.ndim == 1 else found
