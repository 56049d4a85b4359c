"""Operators of linear algebra: products of matrices, determinants, transforms."""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.interop.onnx.operation import Operation, register, register_all
from graphc.interop.onnx.operators.shapes import padded
from graphc.interop.onnx.values import Refusal, axis_of, tensor_of
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length

register_all({"MatMul": gt.matmul, "Det": gt.linalg.det})


@register("Gemm")
def _gemm(op: Operation, a: Tensor, b: Tensor, c: Any = None) -> Tensor:
    a = a.T if op["transA"] else a
    b = b.T if op["transB"] else b
    y = _scaled(gt.matmul(a, b), op["alpha"])
    return y if c is None else y + _scaled(c, op["beta"])


def _scaled(x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else (x * factor).astype(x.dtype)


@register("FusedMatMul", domain="com.microsoft")
def _fused_matmul(op: Operation, a: Tensor, b: Tensor) -> Tensor:
    if op["transBatchA"] or op["transBatchB"]:
        raise Refusal("transBatchA and transBatchB")
    a = a.mT if op.get("transA", 0) else a
    b = b.mT if op.get("transB", 0) else b
    return _scaled(gt.matmul(a, b), op.get("alpha", 1.0))


@register("Einsum")
def _einsum(op: Operation, *operands: Tensor) -> Tensor:
    return gt.einsum(op["equation"].replace(" ", ""), *operands)


@register("DFT")
def _dft(op: Operation, x: Tensor, *_: Any) -> Tensor:
    """A Fourier transform of complex numbers, whose parts are along the last axis."""
    axis = (
        op.numbers(2, "the axis")[0] if op.has(2) else op.get("axis", -2 if op.version > 19 else 1)
    )
    axis, n = axis_of(int(axis), x.ndim), None
    if op.has(1):
        (n,) = op.entries(1)
    z = gt.complex(x[..., 0], x[..., 1]) if x.type.shape[-1] == 2 else x[..., 0]
    if op["inverse"] and op["onesided"]:
        y = gt.fft.irfft(z, n, axis)
        return gt.expand_dims(y.astype(x.dtype), -1)
    if op["onesided"]:
        y = gt.fft.rfft(gt.real(z), n, axis)
    else:
        y = (gt.fft.ifft if op["inverse"] else gt.fft.fft)(z, n, axis)
    return gt.stack([gt.real(y), gt.imag(y)], axis=-1).astype(x.dtype)


@register("STFT")
def _stft(op: Operation, x: Tensor, *_: Any) -> Tensor:
    """Fourier transforms of windows of a signal, of shape (batch, time, 1)."""
    (step,) = op.numbers(1, "frame_step")
    if x.type.shape[-1] == 2:
        raise Refusal("a complex signal")
    x = x[..., 0] if x.ndim == 3 else x
    window = tensor_of(op.value(2)) if op.has(2) else None
    size = op.numbers(3, "frame_length")[0] if window is None or op.has(3) else length(window, 0)
    if not isinstance(size, int):
        raise Refusal("the length of the window is unknown")
    count = (length(x, 1) - size) // step + 1
    places = gt.arange(count)[:, None] * step + gt.arange(size)
    frames = x[:, places]
    if window is not None:
        short = size - length(window, 0)
        frames = frames * padded(window, [0], [short // 2, short - short // 2], "constant", 0)
    y = gt.fft.rfft(frames, size, -1) if op["onesided"] else gt.fft.fft(frames, size, -1)
    return gt.stack([gt.real(y), gt.imag(y)], axis=-1).astype(x.dtype)


@register("MatMulInteger")
def _matmul_integer(_: Operation, a: Tensor, b: Tensor, *points: Any) -> Tensor:
    """A product of integers less their zero points, as int32."""
    a, b = a.astype("int32"), b.astype("int32")
    of_a, of_b = [*points, None, None][:2]
    if of_a is not None:
        of_a = of_a.astype("int32")
        a = a - (gt.expand_dims(of_a, -1) if of_a.ndim == 1 else of_a)
    if of_b is not None:
        b = b - of_b.astype("int32")
    return gt.matmul(a, b)
