"""Fourier transforms and convolutions."""

from __future__ import annotations

from collections.abc import Callable

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, constant_integer, length, lengths
from graphc.interop.pytensor.elementwise import in_dtype
from graphc.ir import Constant
from graphc.loop.choices import ifelse
from graphc.tensor import fft, signal
from graphc.tensor.core.tensor import Tensor


def rfft(at: Application, x: Tensor, sizes: Tensor) -> Tensor:
    """Transform all axes but the first; real and imaginary parts are along a last axis."""
    y = fft.rfftn(x, lengths(sizes), axes=tuple(range(1, x.ndim)))
    return in_dtype(gt.stack([gt.real(y), gt.imag(y)], axis=-1), at.dtype)


def irfft(at: Application, x: Tensor, sizes: Tensor) -> Tensor:
    """Invert ``rfft``, without its division by the number of elements."""
    y = gt.complex(x[..., 0], x[..., 1])
    return fft.irfftn(y, lengths(sizes), axes=tuple(range(1, y.ndim)), norm="forward")


def fourier(at: Application, x: Tensor, n: Tensor, axis: Tensor) -> Tensor:
    return fft.fft(in_dtype(x, at.dtype), length(n), axis=constant_integer(axis, "the axis"))


def convolve1d(at: Application, a: Tensor, b: Tensor, full: Tensor) -> Tensor:
    return _by_mode(full, lambda mode: signal.convolve(a, b, mode=mode))


def convolve2d(at: Application, a: Tensor, b: Tensor, full: Tensor) -> Tensor:
    return _by_mode(full, lambda mode: signal.convolve2d(a, b, mode=mode, method=at.op.method))


def _by_mode(full: Tensor, convolve: Callable[[str], Tensor]) -> Tensor:
    """Convolve in the mode "full" or "valid", which a gradient may compute."""
    if isinstance(full.op, Constant):
        return convolve("full" if full.op.value else "valid")
    return ifelse(full, convolve("full"), convolve("valid"))
