"""Primitives that make arrays, and that move elements without looking at them."""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.link.jax.from_jaxpr.equation import Converter, Equation
from graphc.tensor import Tensor
from graphc.tensor.signal.patches import dilate, pad_or_crop


def _broadcast(eqn: Equation, x: Tensor, *_: Tensor) -> Tensor:
    places = eqn["broadcast_dimensions"]
    shape = tuple(map(eqn.lengths, eqn["shape"]))
    order: list[Any] = ["x"] * len(shape)
    for axis, place in enumerate(places):
        order[place] = axis
    return gt.broadcast_to(gt.dimshuffle(x, order), shape)


def _reshape(eqn: Equation, x: Tensor, *_: Tensor) -> Tensor:
    if eqn["dimensions"] is not None:
        x = gt.transpose(x, eqn["dimensions"])
    return gt.reshape(x, tuple(map(eqn.lengths, eqn["new_sizes"])))


def _squeeze(eqn: Equation, x: Tensor) -> Tensor:
    return gt.squeeze(x, tuple(eqn["dimensions"]))


def _transpose(eqn: Equation, x: Tensor) -> Tensor:
    return gt.transpose(x, tuple(eqn["permutation"]))


def _reverse(eqn: Equation, x: Tensor) -> Tensor:
    return gt.flip(x, tuple(eqn["dimensions"]))


def _concatenate(eqn: Equation, *parts: Tensor) -> Tensor:
    return gt.concatenate(list(parts), axis=eqn["dimension"])


def _stack(eqn: Equation, *parts: Tensor) -> Tensor:
    return gt.stack(list(parts), axis=eqn["axis"])


def _unstack(eqn: Equation, x: Tensor) -> list[Tensor]:
    before = (slice(None),) * eqn["axis"]
    return [x[(*before, i)] for i in range(len(eqn.eqn.outvars))]


def _tile(eqn: Equation, x: Tensor) -> Tensor:
    return gt.tile(x, tuple(map(eqn.lengths, eqn["reps"])))


def _split(eqn: Equation, x: Tensor) -> list[Tensor]:
    axis = eqn["axis"]
    parts, start = [], 0
    for size in map(eqn.lengths, eqn["sizes"]):
        parts.append(x[(*[slice(None)] * axis, slice(start, start + size))])
        start = start + size
    return parts


def _iota(eqn: Equation, *_: Tensor) -> Tensor:
    shape, axis = tuple(map(eqn.lengths, eqn["shape"])), eqn["dimension"]
    counted = gt.arange(shape[axis], dtype="int64").astype(eqn.dtype)
    order = [0 if i == axis else "x" for i in range(len(shape))]
    return gt.broadcast_to(gt.dimshuffle(counted, order), shape)


def _slice(eqn: Equation, x: Tensor) -> Tensor:
    starts = map(eqn.lengths, eqn["start_indices"])
    ends = map(eqn.lengths, eqn["limit_indices"])
    steps = eqn["strides"] or [1] * x.ndim
    bounds = zip(starts, ends, steps, strict=True)
    return x[tuple(slice(start, end, int(step)) for start, end, step in bounds)]


def _pad(eqn: Equation, x: Tensor, value: Tensor) -> Tensor:
    for axis, (low, high, interior) in enumerate(eqn["padding_config"]):
        if interior:
            x = dilate(x, axis, int(interior), value)
        x = pad_or_crop(x, axis, (eqn.lengths(low), eqn.lengths(high)), value)
    return x


def _same(_: Equation, *operands: Tensor) -> list[Tensor]:
    return list(operands)


def _dim(eqn: Equation) -> Tensor:
    return gt.as_tensor(eqn.lengths(eqn["dim"])).astype(eqn.dtype)


SHAPES: dict[str, Converter] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "transpose": _transpose,
    "rev": _reverse,
    "concatenate": _concatenate,
    "split": _split,
    "tile": _tile,
    "stack": _stack,
    "unstack": _unstack,
    "iota": _iota,
    "slice": _slice,
    "pad": _pad,
    "dim_as_value": _dim,
    **dict.fromkeys(
        (
            *("copy", "copy_p", "device_put", "optimization_barrier", "name", "mesh_cast"),
            *("sharding_constraint", "pvary", "random_clone"),
        ),
        _same,
    ),
}
"""Converters of primitives that make arrays, or move elements."""
