"""Normalized slices and attention, each one function of ``mx.fast``."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from graphc.link.mlx.backend import backend
from graphc.tensor.attention import Attention, LayerNorm, RMSNorm

__all__ = ["layer_norm", "rms_norm"]


def layer_norm(op: LayerNorm, x: Any, weight: Any = None, bias: Any = None) -> Any:
    """In float32 within."""
    return mx.fast.layer_norm(x, weight, bias, op.eps)


def rms_norm(op: RMSNorm, x: Any, weight: Any = None) -> Any:
    """In float32 within."""
    return mx.fast.rms_norm(x, weight, op.eps)


# On the CPU MLX makes them of what a user would write, and fused by mx.compile that took up to
# twice as long as what graphc compiles of it (5.1 ms against 2.2 ms, of 32 x 128 x 256 float32).
if mx.is_available(mx.Device(mx.gpu)):
    backend.lower(LayerNorm)(layer_norm)
    backend.lower(RMSNorm)(rms_norm)


@backend.lower(Attention)
def attention(op: Attention, q: Any, k: Any, v: Any, *others: Any) -> Any:
    """The queries are scaled, as a scale that is not known before would compile anew."""
    batch = q.shape[:-2]
    if op.scaled:
        q = q * others[0] if op.scaled == "*" else q / others[0]
    mask = None
    if op.masked:
        mask = mx.broadcast_to(others[-1], (*batch, q.shape[-2], k.shape[-2]))
        mask = by_heads(mask)
    y = mx.fast.scaled_dot_product_attention(*map(by_heads, (q, k, v)), scale=1.0, mask=mask)
    return mx.reshape(y, (*batch, *y.shape[-2:]))


def by_heads(x: Any) -> Any:
    """The batch axes as one, and one of heads."""
    return mx.reshape(x, (math.prod(x.shape[:-2]), 1, *x.shape[-2:]))
