"""Operators of quantised arrays; weights of 4 and 8 bits stay packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.implicit.quantized import AffineQuantized
from graphc.interop.onnx.operation import Operation, register
from graphc.interop.onnx.operators.windows import biased, convolution
from graphc.interop.onnx.source import is_narrow
from graphc.interop.onnx.values import Refusal, axis_of, with_axes
from graphc.ir import is_integer
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length

GROUP_SIZES = (32, 64, 128)
"""The sizes of groups whose codes stay packed: those that every backend multiplies fast."""


def _along(op: Operation, x: Tensor, scale: Tensor) -> Callable[[Tensor], Tensor]:
    """How a scale, or a zero point, lies along an array: of all, of an axis, or of blocks."""
    if scale.ndim == 0 or (scale.type.shape == (1,) and not op["block_size"]):
        return lambda v: gt.reshape(v, ())
    axis, size = axis_of(int(op.get("axis", 1)), x.ndim), op["block_size"]
    if not size:
        return lambda v: with_axes(v, x.ndim, axis)
    return lambda v: gt.repeat(v, int(size), axis=axis)[
        (*[slice(None)] * axis, slice(0, length(x, axis)))
    ]


@register("DequantizeLinear")
def _dequantize(op: Operation, x: Tensor, scale: Tensor, zero: Any = None) -> Tensor:
    along = _along(op, x, scale)
    dtype = op.dtype("output_dtype", scale.dtype)
    if zero is None:
        return (x.astype(scale.dtype) * along(scale)).astype(dtype)
    wide = x.astype("int32") - along(zero).astype("int32") if is_integer(x.dtype) else x
    return (wide.astype(scale.dtype) * along(scale)).astype(dtype)


@register("QuantizeLinear")
def _quantize(op: Operation, x: Tensor, scale: Tensor, zero: Any = None) -> Tensor:
    if is_narrow(op["output_dtype"] or 0) or getattr(op.value(2), "is_narrow", False):
        raise Refusal("results of 2 or 4 bits")
    dtype = op.dtype("output_dtype", "uint8" if zero is None else zero.dtype)
    if not is_integer(dtype):
        raise Refusal(f"results of {dtype}")
    along = _along(op, x, scale)
    return _rounded(
        x.astype(scale.dtype) / along(scale), None if zero is None else along(zero), dtype
    )


def _rounded(x: Tensor, zero: Any, dtype: str) -> Tensor:
    """Whole numbers, moved by a zero point and kept within the bounds of a dtype."""
    bounds = np.iinfo(dtype)
    x = gt.rint(x)
    x = x if zero is None else x + zero.astype(x.dtype)
    return gt.clip(x, int(bounds.min), int(bounds.max)).astype(dtype)


def _real(operands: Sequence[Tensor], axis: int) -> Tensor:
    """The numbers that quantised ones stand for; scales are of all, or along an axis."""
    x, scale, zero = operands

    def along(v: Tensor) -> Tensor:
        if v.ndim == 0 or v.type.shape == (1,):
            return gt.reshape(v, ())
        return v if v.ndim > 1 else with_axes(v, x.ndim, axis_of(axis, x.ndim))

    return (x.astype("int32") - along(zero).astype("int32")).astype(scale.dtype) * along(scale)


@register("QLinearMatMul")
def _matmul(_: Operation, *operands: Tensor) -> Tensor:
    a, b = (_real(operands[at : at + 3], axis=-1) for at in (0, 3))
    scale, zero = operands[6:]
    return _rounded(gt.matmul(a, b) / scale, zero, zero.dtype)


@register("QLinearConv")
def _conv(op: Operation, *operands: Tensor) -> Tensor:
    x, w = _real(operands[:3], axis=1), _real(operands[3:6], axis=0)
    scale, zero, *bias = operands[6:]
    y = convolution(op, x, w)
    if bias:
        y = biased(y, bias[0].astype(y.dtype) * operands[1] * operands[4])
    return _rounded(y / scale, zero, zero.dtype)


@register("ConvInteger")
def _conv_integer(op: Operation, x: Tensor, w: Tensor, *points: Any) -> Tensor:
    of_x, of_w = [*points, None, None][:2]
    x, w = x.astype("int32"), w.astype("int32")
    x = x if of_x is None else x - gt.reshape(of_x, ()).astype("int32")
    if of_w is not None:
        of_w = of_w.astype("int32")
        w = w - (with_axes(of_w, w.ndim, 0) if of_w.ndim else of_w)
    return convolution(op, x, w)


@register("MatMulNBits", domain="com.microsoft")
def _matmul_nbits(op: Operation, x: Tensor, *operands: Any) -> Tensor:
    """A product with a matrix of groups of packed codes."""
    n, k, bits = int(op["N"]), int(op["K"]), int(op.get("bits", 4))
    size = int(op["block_size"])
    if bits not in {2, 4, 8} or size < 1 or k < 1 or n < 1:
        raise Refusal(f"codes of {bits} bits in groups of {size}")
    if len(operands) > 3 and operands[3] is not None:
        raise Refusal("g_idx, which orders the columns")
    packed, scales = op.known(1, "the weights"), op.known(2, "the scales")
    groups = -(-k // size)
    codes = packed.reshape(n, groups, -1)
    if codes.shape[2] != size * bits // 8 or scales.size != n * groups:
        raise ValueError(f"weights of shape {packed.shape} for a matrix of {n} and {k}")
    scales = scales.reshape(n, groups)
    zeros = _zero_points(op, n, groups, bits)
    y = gt.matmul(x, _packed_matrix(codes, scales, zeros, bits, (n, k, size)))
    bias = operands[4] if len(operands) > 4 else None
    return y if bias is None else y + bias


def _zero_points(op: Operation, n: int, groups: int, bits: int) -> Any:
    """The code of zero, of each group."""
    if not op.has(3):
        return np.full((n, groups), 2 ** (bits - 1))
    given = op.known(3, "the zero points")
    if given.dtype != np.uint8:
        return given.reshape(n, groups)
    return _unpacked(given.reshape(n, -1), bits)[:, :groups]


def _unpacked(packed: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Codes that lie in bytes, the first in the lowest bits."""
    places = np.arange(0, 8, bits, dtype=np.uint8)
    codes: np.ndarray[Any, Any] = (packed[..., None] >> places) & (2**bits - 1)
    return codes.reshape(*packed.shape[:-1], -1)


def _packed_matrix(
    codes: Any, scales: Any, zeros: Any, bits: int, sizes: tuple[int, int, int]
) -> Any:
    """The matrix (k, n); packed where graphc has such groups."""
    n, k, size = sizes
    biases = (-zeros.astype("float32") * scales.astype("float32")).astype(scales.dtype)
    if size * bits % 32 == 0 and k % size == 0:  # groups of whole words
        words = np.ascontiguousarray(codes.reshape(n, -1)).view("<u4")
        parts = [gt.constant(part) for part in (words, scales, biases)]
        return AffineQuantized(
            parts[0], parts[1], parts[2], bits=bits, group_size=size, transposed=True
        )
    whole = _unpacked(codes, bits).astype("float32") * scales[..., None] + biases[..., None]
    return gt.constant(whole.reshape(n, -1)[:, :k].T.astype(scales.dtype))
