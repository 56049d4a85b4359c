"""Softmax and related functions, Fourier transforms and convolutions."""

from __future__ import annotations

from collections.abc import Callable

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, constant_integer, length, lengths
from graphc.interop.pytensor.elementwise import Converter, in_dtype, in_result, of_all
from graphc.ir import Constant
from graphc.loop.choices import ifelse
from graphc.tensor import fft, signal
from graphc.tensor.core.tensor import Tensor


def softmax_gradient(at: Application, g: Tensor, y: Tensor) -> Tensor:
    """Return the gradient of softmax, from its result y."""
    return (g - gt.sum(g * y, at.op.axis, keepdims=True)) * y


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


def _by_mode(full: Tensor, convolve: Callable[[str], Tensor]) -> Tensor:
    """Convolve in the mode "full" or "valid", which a gradient may compute."""
    if isinstance(full.op, Constant):
        return convolve("full" if full.op.value else "valid")
    return ifelse(full, convolve("full"), convolve("valid"))


SPECIAL: dict[str, Converter] = {
    "Softmax": lambda at, x: gt.softmax(in_dtype(x, at.dtype), axis=at.op.axis),
    "LogSoftmax": lambda at, x: gt.log_softmax(in_dtype(x, at.dtype), axis=at.op.axis),
    "SoftmaxGrad": softmax_gradient,
    "LogSumExp": lambda at, x: gt.logsumexp(in_dtype(x, at.dtype), axis=at.op.axis),
    "LogAddExp": in_result(of_all(gt.logaddexp)),
    "XLogY": in_result(gt.xlogy),
    "XLog1PY": in_result(gt.xlog1py),
    "RFFTOp": rfft,
    "IRFFTOp": irfft,
    "Fourier": fourier,
    "Convolve1d": lambda at, a, b, full: _by_mode(
        full, lambda mode: signal.convolve(a, b, mode=mode)
    ),
    "Convolve2d": lambda at, a, b, full: _by_mode(
        full, lambda mode: signal.convolve2d(a, b, mode=mode, method=at.op.method)
    ),
}
"""The converters of special functions and transforms, by the names of their classes."""
