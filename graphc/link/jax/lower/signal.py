"""Convolutions, padding and Fourier transforms."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from graphc.link.jax.backend import backend
from graphc.link.jax.symbolic import refuse
from graphc.tensor.fft import Fourier, HermitianFourier, RealFourier, needs_elements
from graphc.tensor.signal.convolve import Convolution, FourierConvolution
from graphc.tensor.signal.pad import Pad

MAX_UNROLLED_TAPS = 8
"""The largest number of products with elements of the shorter operand in one step of a loop."""


@backend.lower(Convolution)
def convolve(op: Convolution, a: Any, b: Any) -> Any:
    """Convolve; for bools, count the true products in int32."""
    a, b, shape = op.merge_axes(jnp.asarray(a), jnp.asarray(b))
    dtype = a.dtype
    is_bool = dtype.kind == "b"
    if not prod(shape) or not a.shape[2]:
        return jnp.zeros(shape, dtype)
    wide = _wide(dtype)
    a, b = lax.convert_element_type(a, wide), lax.convert_element_type(b, wide)
    spatial = shape[len(shape) - a.ndim + 3 :]
    by_taps = partial(_by_taps, op, spatial=spatial)
    if a.ndim > 6 or wide.kind != "f":
        y = by_taps(a, b)
    elif a.shape[0] == 1:
        y = _by_library(op, a, b)
    else:
        # On the CPU XLA's convolution in groups takes a hundred times as long.
        y = lax.platform_dependent(a, b, cpu=by_taps, default=partial(_by_library, op))
    return lax.reshape(lax.ne(y, y.dtype.type(0)) if is_bool else y.astype(dtype), shape)


@backend.lower(FourierConvolution)
def fourier_convolve(op: FourierConvolution, a: Any, b: Any) -> Any:
    """Convolve by Fourier transforms; half-width floats in float32."""
    wide = _wide(a.dtype)
    return op.by(jnp.fft, jnp.asarray(a, wide), jnp.asarray(b, wide)).astype(a.dtype)


def _wide(dtype: Any) -> Any:
    """Return the dtype of sums: float32 for half-width floats, an integer for bools."""
    if dtype.kind == "b":
        return np.dtype(np.int32)
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype


def _by_library(op: Convolution, a: Any, b: Any) -> Any:
    """Convolve all groups and channels in one call; JAX's convolution does not flip b."""
    groups, rows, channels, *sizes = a.shape
    columns, kernel = b.shape[1], b.shape[3:]
    lhs = lax.reshape(jnp.swapaxes(a, 0, 1), (rows, groups * channels, *sizes))
    rhs = lax.reshape(lax.rev(b, range(3, b.ndim)), (groups * columns, channels, *kernel))
    padding = [(k - 1, k - 1) if op.full else (0, 0) for k in kernel]
    y = lax.conv_general_dilated(lhs, rhs, (1,) * len(kernel), padding, feature_group_count=groups)
    return jnp.swapaxes(lax.reshape(y, (rows, groups, columns, *y.shape[2:])), 0, 1)


def _by_taps(op: Convolution, a: Any, b: Any, *, spatial: tuple[int, ...]) -> Any:
    """Add the products with each element of the shorter operand."""
    if op.full and prod(a.shape[3:]) < prod(b.shape[3:]):
        return jnp.swapaxes(_by_taps(op, b, a, spatial=spatial), 1, 2)
    kernel = b.shape[3:]
    if op.full:
        a = lax.pad(a, a.dtype.type(0), [*[(0, 0, 0)] * 3, *((k - 1, k - 1, 0) for k in kernel)])
    taps = lax.reshape(b, (*b.shape[:3], prod(kernel)))

    def add(i: Any, y: Any) -> Any:
        offsets = [k - 1 - t for k, t in zip(kernel, jnp.unravel_index(i, kernel), strict=True)]
        zeros = [jnp.zeros_like(i)] * 3
        part = lax.dynamic_slice(a, [*zeros, *offsets], (*a.shape[:3], *spatial))
        return y + _product(part, lax.dynamic_index_in_dim(taps, i, 3, keepdims=False))

    y = jnp.zeros((*a.shape[:2], b.shape[1], *spatial), a.dtype)
    return lax.fori_loop(0, prod(kernel), add, y, unroll=min(prod(kernel), MAX_UNROLLED_TAPS))


def _product(a: Any, tap: Any) -> Any:
    """Multiply one element of b, in all groups and channels, by all of a."""
    if a.shape[2] == 1:
        return a * lax.reshape(tap, (tap.shape[0], 1, tap.shape[1], *(1,) * (a.ndim - 3)))
    return jnp.einsum("grc...,gkc->grk...", a, tap, preferred_element_type=a.dtype)


@backend.lower(Pad)
def pad(op: Pad, x: Any, value: Any, *symbolic: Any) -> Any:
    return lax.pad(x, value, [(before, after, 0) for before, after in op.sides(symbolic)])


MAX_AXES = 3
"""The largest number of axes that one call of JAX transforms."""


@backend.lower(Fourier)
def fourier(op: Fourier, x: Any) -> Any:
    """Transform up to ``MAX_AXES`` axes at a time."""
    transform = jnp.fft.ifftn if op.inverse else jnp.fft.fftn
    refuse(op.name, *(x.shape[axis] for axis in op.axes))
    for axis in op.axes:
        needs_elements(op, x.shape[axis])
    if not x.size:
        return x
    for start in range(0, len(op.axes), MAX_AXES):
        x = transform(x, axes=op.axes[start : start + MAX_AXES], norm=op.norm)
    return _row_major(x)


@backend.lower(RealFourier)
def real_fourier(op: RealFourier, x: Any) -> Any:
    """Transform real input; return the non-negative frequencies."""
    refuse(op.name, x.shape[op.axis])
    needs_elements(op, x.shape[op.axis])
    return _row_major(jnp.fft.rfft(x, axis=op.axis, norm=op.norm))


@backend.lower(HermitianFourier)
def hermitian_fourier(op: HermitianFourier, x: Any, *symbolic: Any) -> Any:
    """Invert the real transform; the length is a Python integer here."""
    count = op.count(x, symbolic)
    refuse(op.name, x.shape[op.axis], count)
    return _row_major(jnp.fft.irfft(x, count, op.axis, op.norm))


def _row_major(y: Any) -> Any:
    """Return the array in row-major layout, whichever operation reads it.

    Matrix factorisations read columns, and XLA fails to compile a transform in that layout.
    """
    if y.ndim < 2:
        return y
    flat = lax.optimization_barrier(y.reshape(-1))  # type: ignore[no-untyped-call]
    return flat.reshape(y.shape)
