"""Normalization, attention and rotations by functions of ``mx.fast``."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from graphc.errors import ShapeError
from graphc.link.mlx.backend import backend
from graphc.link.mlx.devices import device_choice
from graphc.tensor.attention import Attention, LayerNorm, RMSNorm, Rotation


def layer_norm(op: LayerNorm, x: Any, weight: Any = None, bias: Any = None) -> Any:
    return mx.fast.layer_norm(x, weight, bias, op.eps)


def rms_norm(op: RMSNorm, x: Any, weight: Any = None) -> Any:
    return mx.fast.rms_norm(x, weight, op.eps)


def rotation(op: Rotation, x: Any, speed: Any) -> Any:
    """Rotate in float32."""
    n, width = x.shape[-2:]
    if 2 * speed.shape[0] != width:
        raise ShapeError(
            f"Rows of {width} elements cannot be rotated with {speed.shape[0]} frequencies.",
            "Give one frequency for each pair of elements.",
        )
    if not x.size:
        return x
    y = mx.fast.rope(
        mx.reshape(x, (-1, n, width)),
        width,
        traditional=op.pairs,
        base=None,
        scale=1.0,
        offset=0,
        freqs=mx.reciprocal(speed),
    )
    return mx.reshape(y, x.shape)


# Lowerings are the process's, so MLX's default device decides.
if device_choice("fast functions"):
    backend.lower(LayerNorm)(layer_norm)
    backend.lower(RMSNorm)(rms_norm)
    backend.lower(Rotation)(rotation)


@backend.lower(Attention)
def attention(op: Attention, q: Any, k: Any, v: Any, *others: Any) -> Any:
    """Return attention; the queries are scaled first, as MLX would compile for each scale."""
    *batch, n, _ = q.shape
    shape = (*batch, n, v.shape[-1])
    if 0 in (*shape, k.shape[-2]):
        return mx.zeros(shape, v.dtype)
    if not q.shape[-1]:
        q, k = (mx.zeros((*x.shape[:-1], 1), x.dtype) for x in (q, k))
    if op.scaled:
        q = q * others[0] if op.scaled == "*" else q / others[0]
    mask: Any = others[-1] if op.masked else None
    heads = None if mask is None else by_heads(mx.broadcast_to(mask, (*batch, n, k.shape[-2])))
    y = mx.fast.scaled_dot_product_attention(*map(by_heads, (q, k, v)), scale=1.0, mask=heads)
    y = mx.reshape(y, shape)
    if op.fill is None:
        return y
    # MLX's result for a query without keys depends on the device.
    has_keys = mx.any(mx.broadcast_to(mask, (*mask.shape[:-1], k.shape[-2])), -1, keepdims=True)
    return mx.where(has_keys, y, fill_value(op.fill, v))


def fill_value(fill: float, v: Any) -> Any:
    """Return the mean value for a finite fill, else NaN: the weights of equal scores."""
    return mx.mean(v, -2, keepdims=True) if math.isfinite(fill) else math.nan


def by_heads(x: Any) -> Any:
    """Merge the batch axes, and add an axis of one head."""
    return mx.reshape(x, (math.prod(x.shape[:-2]), 1, *x.shape[-2:]))
