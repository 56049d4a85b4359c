"""Operators that normalise: batches, layers, instances, neighbouring channels, norms."""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.interop.onnx.operation import Operation, register
from graphc.interop.onnx.operators.reduce import total
from graphc.interop.onnx.operators.windows import of_channels
from graphc.interop.onnx.values import Refusal
from graphc.tensor import Tensor
from graphc.tensor.core.shape import length


@register("BatchNormalization")
def _batch(op: Operation, x: Tensor, scale: Tensor, bias: Tensor, *moments: Tensor) -> Tensor:
    if op["training_mode"] or sum(map(op.wants, range(1, len(op.node.output)))):
        raise Refusal("training_mode: export the model for inference")
    mean, var = (m.astype(x.dtype) for m in moments)
    factor = scale.astype(x.dtype) / gt.sqrt(var + op.number("epsilon"))
    centred = x - of_channels(mean, x)
    return centred * of_channels(factor, x) + of_channels(bias.astype(x.dtype), x)


def _centred(x: Tensor, axes: tuple[int, ...], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """An array of mean 0 and variance 1 along axes; the mean, and the inverse of the deviation."""
    mean = gt.mean(x, axis=axes, keepdims=True)
    moved = x - mean
    inverse = 1 / gt.sqrt(gt.mean(gt.square(moved), axis=axes, keepdims=True) + epsilon)
    return moved * inverse, mean, inverse


@register("LayerNormalization")
def _layer(op: Operation, x: Tensor, scale: Tensor, bias: Any = None) -> tuple[Tensor, ...]:
    axes = tuple(range(op.axis(x.ndim, -1), x.ndim))
    dtype = op.dtype("stash_type", "float32")
    wide = x.astype(dtype) if x.dtype in {"float16", "bfloat16"} else x
    y, mean, inverse = _centred(wide, axes, op.number("epsilon", 1e-5))
    y = y.astype(x.dtype) * scale
    found = (y if bias is None else y + bias), mean.astype(dtype), inverse.astype(dtype)
    return found[: len(op.node.output)]


@register("SkipLayerNormalization", domain="com.microsoft")
def _skip_layer(
    op: Operation, x: Tensor, skip: Tensor, scale: Tensor, bias: Any = None, more: Any = None
) -> tuple[Any, ...]:
    total_ = x + skip if more is None else x + skip + more
    y, mean, inverse = _centred(total_, (x.ndim - 1,), op.number("epsilon", 1e-12))
    y = y * scale if bias is None else y * scale + bias
    return (y, mean, inverse, total_)[: len(op.node.output)]


@register("SimplifiedLayerNormalization")
def _root_mean_square(op: Operation, x: Tensor, scale: Tensor) -> Tensor:
    axes = tuple(range(op.axis(x.ndim, -1), x.ndim))
    size = gt.mean(gt.square(x), axis=axes, keepdims=True) + op.number("epsilon", 1e-5)
    return x / gt.sqrt(size) * scale


@register("InstanceNormalization")
def _instance(op: Operation, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    y, _, _ = _centred(x, tuple(range(2, x.ndim)), op.number("epsilon"))
    return y * of_channels(scale, x) + of_channels(bias, x)


@register("LRN")
def _neighbours(op: Operation, x: Tensor) -> Tensor:
    """Divided by a power of the squares of neighbouring channels."""
    size = int(op["size"])
    n = length(x, 1)
    low = (size - 1) // 2
    high = size - 1 - low
    if not isinstance(n, int) or size < 1:
        raise Refusal("the number of channels is unknown")
    running = gt.cumsum(gt.square(x), axis=1)
    sums = []
    for channel in range(n):
        last, before = min(channel + high, n - 1), channel - low - 1
        part = running[:, last]
        sums.append(part - running[:, before] if before >= 0 else part)
    squares = gt.stack(sums, axis=1)
    return x / (op.number("bias") + op.number("alpha") / size * squares) ** op.number("beta")


@register("LpNormalization")
def _lp(op: Operation, x: Tensor) -> Tensor:
    axis = op.axis(x.ndim, -1)
    if int(op["p"]) == 1:
        norm = total(gt.abs(x), axis, keepdims=True)
    else:
        norm = gt.sqrt(total(gt.square(x), axis, keepdims=True))
    return gt.where(gt.equal(norm, 0), gt.zeros_like(x), x / gt.where(gt.equal(norm, 0), 1, norm))
