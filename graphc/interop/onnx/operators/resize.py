"""Operators that resample images: along each axis, sums of weighted neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.interop.onnx.operation import Operation, register
from graphc.interop.onnx.values import Refusal, axis_of, with_axes
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length

Weights = np.ndarray[Any, Any]


@register("Resize")
def _resize(op: Operation, x: Tensor, *_: Any) -> Tensor:
    axes = [axis_of(int(i), x.ndim) for i in op["axes"] or range(x.ndim)]
    places = (1, 3) if op.version < 11 else (2, 3)
    if op.version < 11:
        places = (1, -1)
    roi = None
    if op.get("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        roi = op.known(1, "roi").astype(float).reshape(2, -1)
    scales, sizes = _wanted(op, x, axes, *places)
    for i, axis in enumerate(axes):
        part = None if roi is None else roi[:, i]
        x = _along(op, x, axis, scales[i], sizes[i], part)
    return x


@register("Upsample")
def _upsample(op: Operation, x: Tensor, *_: Any) -> Tensor:
    scales = op["scales"] if op["scales"] is not None else op.known(1, "the scales").reshape(-1)
    scales = [float(s) for s in scales]
    for axis, size in enumerate(_scaled(x, range(x.ndim), scales)):
        x = _along(op, x, axis, scales[axis], size, None)
    return x


def _scaled(x: Tensor, axes: Sequence[int], scales: Sequence[float]) -> list[Any]:
    """The new lengths of axes."""
    return [
        length(x, axis) if scale == 1 else math.floor(_static(x, axis) * scale)
        for axis, scale in zip(axes, scales, strict=True)
    ]


def _static(x: Tensor, axis: int) -> int:
    n = length(x, axis)
    if not isinstance(n, int):
        raise Refusal(
            f"the length of axis {axis} is unknown: give the input's type, givens={{...}}"
        )
    return n


def _wanted(
    op: Operation, x: Tensor, axes: Sequence[int], of_scales: int, of_sizes: int
) -> tuple[list[float], list[Any]]:
    """The scale and the new length of each axis."""
    if of_sizes < 0 or not op.has(of_sizes):
        scales = [float(s) for s in op.known(of_scales, "the scales").reshape(-1)]
        return scales, _scaled(x, axes, scales)
    sizes = op.entries(of_sizes)
    scales = []
    for axis, n in zip(axes, sizes, strict=True):
        is_same = n is length(x, axis)
        if not is_same and not isinstance(n, int):
            raise Refusal("the new lengths are computed")
        scales.append(1.0 if is_same else n / _static(x, axis))
    policy = op.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        scale = (min if policy == "not_larger" else max)(scales)
        scales = [scale] * len(axes)
        sizes = [math.floor(scale * _static(x, axis) + 0.5) for axis in axes]
    return scales, sizes


LONGEST = 2**20
"""The most elements that an axis is resampled to."""

MOST = 16
"""Up to so many old elements, a new one is their sum; of more, one of a product of matrices."""


def _along(op: Operation, x: Tensor, axis: int, scale: float, size: Any, roi: Any) -> Tensor:
    """Resample one axis."""
    if scale == 1 and (size is length(x, axis) or size == length(x, axis)) and roi is None:
        return x
    n = _static(x, axis)
    if not 0 <= size <= LONGEST or not 0 < scale < math.inf:
        raise Refusal(f"{n} elements resampled to {size}")
    outside: Weights = np.zeros(size, bool)
    at = _coordinates(op, n, size, scale, roi)
    if roi is not None:
        outside = (at < 0) | (at > n - 1)
    mode = op.get("mode", "nearest")
    if mode == "nearest":
        places = _nearest(op, at).clip(0, n - 1).astype(int)
        y = gt.take(x, places, axis=axis)
    else:
        y = _sums(x, axis, *_weights(op, mode, at, n, scale))
    if not outside.any():
        return y
    shape = [1] * x.ndim
    shape[axis] = size
    value = gt.as_tensor(op["extrapolation_value"]).astype(x.dtype)
    return gt.where(outside.reshape(shape), value, y)


def _coordinates(op: Operation, n: int, size: int, scale: float, roi: Any) -> Weights:
    """Where new elements are among the old ones."""
    i = np.arange(size, dtype=float)
    mode = op.get("coordinate_transformation_mode", "asymmetric")
    if mode == "tf_crop_and_resize":
        begin, end = (float(edge) * (n - 1) for edge in roi)
        return begin + i * (end - begin) / (size - 1) if size > 1 else i + (begin + end) / 2
    if mode == "align_corners":
        whole = scale * n - 1
        return i * ((n - 1) / whole) if whole else 0 * i
    half = (i + 0.5) / scale - 0.5
    found = {
        "asymmetric": i / scale,
        "half_pixel": half,
        # What rounding cuts off is cut off at both sides.
        "half_pixel_symmetric": n / 2 * (1 - size / (scale * n)) + half,
        "pytorch_half_pixel": half if size > 1 else 0 * i,
        "tf_half_pixel_for_nn": half + 0.5,
    }
    if mode not in found:
        raise Refusal(f"coordinate_transformation_mode {mode!r}")
    return np.asarray(found[mode])


def _nearest(op: Operation, at: Weights) -> Weights:
    mode = op.get("nearest_mode", "floor")
    functions: dict[str, Any] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    }
    if mode not in functions:
        raise Refusal(f"nearest_mode {mode!r}")
    return np.asarray(functions[mode](at))


def _sums(x: Tensor, axis: int, places: Weights, values: Weights) -> Tensor:
    """Sums of old elements at places, (new elements, neighbours), with weights."""
    n, (size, count) = _static(x, axis), places.shape
    places = places.clip(0, n - 1)
    if count <= MOST:
        terms = [
            gt.take(x, at, axis=axis) * with_axes(gt.constant(v.astype(x.dtype)), x.ndim, axis)
            for at, v in zip(places.T, values.T, strict=True)
        ]
        return reduce(gt.add, terms)
    if n * size > 2**24:
        raise Refusal(f"{n} elements resampled to {size}, each of {count}")
    matrix = np.zeros((n, size))
    np.add.at(matrix, (places.T, np.arange(size)), values.T)
    found = gt.matmul(gt.moveaxis(x, axis, -1), gt.constant(matrix.astype(x.dtype)))
    return gt.moveaxis(found, -1, axis)


def _weights(
    op: Operation, mode: str, at: Weights, n: int, scale: float
) -> tuple[Weights, Weights]:
    """For each new element, the places of its neighbours and their weights."""
    if mode not in {"linear", "cubic"}:
        raise Refusal(f"mode {mode!r}")
    reach = 1 if mode == "linear" else 2
    shrunk = min(scale, 1.0) if op["antialias"] else 1.0
    near = math.ceil(reach / shrunk) if len(at) else 1
    first = np.floor(at).astype(int) - near + 1
    places = first[:, None] + np.arange(2 * near)
    distance = np.abs(places - at[:, None]) * shrunk
    if mode == "linear":
        values = np.maximum(1 - distance, 0)
    else:
        values = _cubic(distance, float(op.get("cubic_coeff_a", -0.75)))
    if op["exclude_outside"] or op["antialias"]:
        if op["exclude_outside"]:
            values = np.where((places < 0) | (places >= n), 0, values)
        values = values / values.sum(1, keepdims=True)
    return places, values


def _cubic(x: Weights, a: float) -> Weights:
    """The kernel of cubic convolution (Keys, 1981) at distances x."""
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, inner, np.where(x < 2, outer, 0))
