"""Primitives that create arrays, and that move elements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import graphc.tensor as gt
from graphc.link.jax.from_jaxpr.equation import Converter, JaxprEquation, UnsupportedEquationError
from graphc.tensor import Tensor
from graphc.tensor.signal.images import MOST, dilate, pad_or_crop, patches


def _broadcast(eqn: JaxprEquation, x: Tensor, *_: Tensor) -> Tensor:
    shape = tuple(map(eqn.lengths, eqn["shape"]))
    order: list[Any] = ["x"] * len(shape)
    for axis, result_axis in enumerate(eqn["broadcast_dimensions"]):
        order[result_axis] = axis
    return gt.broadcast_to(gt.dimshuffle(x, order), shape)


def _reshape(eqn: JaxprEquation, x: Tensor, *_: Tensor) -> Tensor:
    if eqn["dimensions"] is not None:
        x = gt.transpose(x, eqn["dimensions"])
    return gt.reshape(x, tuple(map(eqn.lengths, eqn["new_sizes"])))


def _unstack(eqn: JaxprEquation, x: Tensor) -> list[Tensor]:
    before = (slice(None),) * eqn["axis"]
    return [x[(*before, i)] for i in range(len(eqn.eqn.outvars))]


def _split(eqn: JaxprEquation, x: Tensor) -> list[Tensor]:
    axis = eqn["axis"]
    sections, start = [], 0
    for size in map(eqn.lengths, eqn["sizes"]):
        sections.append(x[(*[slice(None)] * axis, slice(start, start + size))])
        start = start + size
    return sections


def _iota(eqn: JaxprEquation, *_: Tensor) -> Tensor:
    shape, axis = tuple(map(eqn.lengths, eqn["shape"])), eqn["dimension"]
    indices = gt.arange(shape[axis], dtype="int64").astype(eqn.dtype)
    order = [0 if i == axis else "x" for i in range(len(shape))]
    return gt.broadcast_to(gt.dimshuffle(indices, order), shape)


def _slice(eqn: JaxprEquation, x: Tensor) -> Tensor:
    starts = map(eqn.lengths, eqn["start_indices"])
    ends = map(eqn.lengths, eqn["limit_indices"])
    steps = eqn["strides"] or [1] * x.ndim
    bounds = zip(starts, ends, steps, strict=True)
    return x[tuple(slice(start, end, int(step)) for start, end, step in bounds)]


def _pad(
    eqn: JaxprEquation, x: Tensor, value: Tensor, config: Iterable[Any] | None = None
) -> Tensor:
    """Pad and dilate by ``(low, high, interior)`` for each axis, by default the equation's."""
    config = eqn["padding_config"] if config is None else config
    for axis, (low, high, interior) in enumerate(config):
        if interior:
            x = dilate(x, axis, int(interior), value)
        x = pad_or_crop(x, axis, (eqn.lengths(low), eqn.lengths(high)), value)
    return x


def windows(
    eqn: JaxprEquation, x: Tensor, value: Tensor, sizes: Sequence[Any], names: tuple[str, str]
) -> Tensor:
    """Return the windows of x padded with a value; ``names`` are of dilations: x's, the windows'.

    The windows' elements are along a new axis 0, before the windows' positions.
    """
    dilation, window_dilation = names
    pairs = zip(eqn["padding"], eqn[dilation], strict=True)
    x = _pad(eqn, x, value, [(*padding, n - 1) for padding, n in pairs])
    if not all(isinstance(n, int) for n in sizes) or math.prod(sizes) > MOST:
        raise UnsupportedEquationError
    return patches(x, sizes, eqn["window_strides"], eqn[window_dilation])


SHAPES: dict[str, Converter] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": lambda eqn, x: gt.squeeze(x, tuple(eqn["dimensions"])),
    "transpose": lambda eqn, x: gt.transpose(x, tuple(eqn["permutation"])),
    "rev": lambda eqn, x: gt.flip(x, tuple(eqn["dimensions"])),
    "concatenate": lambda eqn, *xs: gt.concatenate(list(xs), axis=eqn["dimension"]),
    "split": _split,
    "tile": lambda eqn, x: gt.tile(x, tuple(map(eqn.lengths, eqn["reps"]))),
    "stack": lambda eqn, *xs: gt.stack(list(xs), axis=eqn["axis"]),
    "unstack": _unstack,
    "iota": _iota,
    "slice": _slice,
    "pad": _pad,
    "dim_as_value": lambda eqn: gt.as_tensor(eqn.lengths(eqn["dim"])).astype(eqn.dtype),
    **dict.fromkeys(
        (
            *("copy", "copy_p", "device_put", "optimization_barrier", "name", "mesh_cast"),
            *("sharding_constraint", "pvary", "random_clone"),
        ),
        lambda _, *operands: list(operands),
    ),
}
"""Converters of primitives that create arrays, or move elements."""
