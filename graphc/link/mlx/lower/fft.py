"""Fourier transforms in 32 bits; complex128 is a gap, and so is the transform of float64."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.fft import Fourier, HermitianFourier, RealFourier, needs_elements


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
    """Return the half of the spectrum of a real array."""
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
