"""Convolutions, padding and Fourier transforms.

MLX convolves narrow floats; the rest are products of windows. Transforms are in 32 bits: complex128
is a gap, and so is the transform of float64.
"""

from __future__ import annotations

from math import prod
from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.link.mlx.lower.linalg import product
from graphc.tensor.fft import Fourier, HermitianFourier, RealFourier, needs_elements
from graphc.tensor.signal.convolve import Convolution, FourierConvolution
from graphc.tensor.signal.pad import Pad

MAX_WINDOW_ELEMENTS = 2**24
"""Elements of windows, 128 MB, that are copied at a time."""

MAX_SPATIAL_AXES = 3
"""Spatial axes of MLX's convolutions; with groups, one fewer."""


@backend.lower(Convolution)
def convolve(op: Convolution, a: Any, b: Any) -> Any:
    """Convolve arrays of (groups, rows, channels, ...) and (groups, columns, channels, ...)."""
    a, b, shape = op.merge_axes(a, b)
    if not prod(shape) or not a.shape[2]:
        return mx.zeros(shape, a.dtype)
    y = by_library(op, a, b) if has_convolution(a) else by_windows(op, a, b)
    return mx.reshape(y, shape)


def has_convolution(a: Any) -> bool:
    """Return whether MLX's convolution takes the array; float64 would lose digits."""
    floating = mx.issubdtype(a.dtype, mx.floating) and a.dtype != mx.float64
    return floating and a.ndim - 3 + (a.shape[0] > 1) <= MAX_SPATIAL_AXES


@backend.lower(FourierConvolution)
def by_frequencies(op: FourierConvolution, a: Any, b: Any) -> Any:
    """Convolve by Fourier transforms in 32 bits, or directly in float64."""
    if a.dtype == mx.float64:
        return convolve(op, a, b)
    y = op.by(mx.fft, a.astype(mx.float32), b.astype(mx.float32))
    return y.astype(a.dtype)


def by_library(op: Convolution, a: Any, b: Any) -> Any:
    """Convolve by one of MLX's convolutions, whose channels are the last axis."""
    groups, rows, channels, *sizes = a.shape
    columns, kernel = b.shape[1], b.shape[3:]
    left = mx.reshape(mx.swapaxes(a, 0, 1), (rows, groups * channels, *sizes))
    right = mx.reshape(b, (groups * columns, channels, *kernel))
    y = mx.conv_general(
        mx.moveaxis(left, 1, -1),
        mx.moveaxis(right, 1, -1),
        padding=[k - 1 if op.full else 0 for k in kernel],
        groups=groups,
        flip=True,
    )
    y = mx.unflatten(mx.moveaxis(y, -1, 1), 1, (groups, columns))
    return mx.swapaxes(y, 0, 1)


def by_windows(op: Convolution, a: Any, b: Any) -> Any:
    """Convolve by products of matrices, for a limited number of windows at a time."""
    kernel = b.shape[3:]
    if op.full:
        a = mx.pad(a, [*[(0, 0)] * 3, *((k - 1, k - 1) for k in kernel)])
    first, *others = [n - k + 1 for n, k in zip(a.shape[3:], kernel, strict=True)]
    size = prod(a.shape[:3]) * prod(others) * prod(kernel)
    step = max(MAX_WINDOW_ELEMENTS // size, 1)
    blocks = [
        multiply_windows(a[:, :, :, start : start + step + kernel[0] - 1], b)
        for start in range(0, first, step)
    ]
    return blocks[0] if len(blocks) == 1 else mx.concatenate(blocks, 3)


def multiply_windows(a: Any, b: Any) -> Any:
    """Multiply the windows of elements, as rows of a matrix, with the other operand."""
    groups, rows, channels = a.shape[:3]
    kernel = b.shape[3:]
    spatial = [n - k + 1 for n, k in zip(a.shape[3:], kernel, strict=True)]
    for axis, (m, k) in enumerate(zip(spatial, kernel, strict=True)):
        # From the last element of each window to the first, as convolution reverses one operand.
        indices = mx.arange(m)[:, None] + mx.arange(k - 1, -1, -1)
        a = mx.moveaxis(mx.take(a, indices, 3 + axis), 4 + axis, -1)
    a = mx.moveaxis(a, 2, 2 + len(spatial))
    left = mx.reshape(a, (groups, rows * prod(spatial), channels * prod(kernel)))
    right = mx.reshape(b, (groups, b.shape[1], channels * prod(kernel)))
    y = mx.reshape(product(left, mx.swapaxes(right, 1, 2)), (groups, rows, *spatial, b.shape[1]))
    return mx.moveaxis(y, -1, 2)


@backend.lower(Pad)
def pad(op: Pad, x: Any, value: Any, *symbolic: Any) -> Any:
    sides = op.sides(symbolic)
    if not any(map(any, sides)):
        return x
    return mx.pad(x, sides, constant_values=value)


@backend.lower(Fourier)
def fourier(op: Fourier, x: Any) -> Any:
    """Transform all axes at once."""
    for axis in op.axes:
        needs_elements(op, x.shape[axis])
    if not x.size:
        return x
    transform = mx.fft.ifftn if op.inverse else mx.fft.fftn
    return transform(x, axes=op.axes, norm=op.norm)


@backend.lower(RealFourier)
def real_fourier(op: RealFourier, x: Any) -> Any:
    needs_elements(op, x.shape[op.axis])
    if not x.size:
        return mx.zeros(op.half(x.shape), mx.complex64)
    return mx.fft.rfft(x, axis=op.axis, norm=op.norm)


@backend.lower(HermitianFourier)
def hermitian_fourier(op: HermitianFourier, x: Any, *symbolic: Any) -> Any:
    """Return the inverse of the half spectrum, for a known length."""
    n = op.count(x, symbolic)
    if not x.size:
        return mx.zeros((*x.shape[: op.axis], n, *x.shape[op.axis + 1 :]), mx.float32)
    return mx.fft.irfft(x, n, op.axis, norm=op.norm)
