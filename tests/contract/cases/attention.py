"""Cases of graphc.tensor.attention."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.tensor.attention import Attention, LayerNorm, RMSNorm, Rotation
from graphc.tensor.linalg.dot import ProductAndSum
from tests.contract.case import Case

NARROW = ("bfloat16", "float16", "float32")
X, W = (2, 3, 8), (8,)


def made(op: Any) -> Any:
    return lambda *xs: gt.Tensor.make(op, *xs)


def normalized(x: Any) -> Any:
    return x / np.sqrt(np.mean(x**2, -1, keepdims=True) + 0.5)


def centred(x: Any) -> Any:
    return x - np.mean(x, -1, keepdims=True)


def attention(q: Any, k: Any, v: Any, scale: Any, mask: Any) -> Any:
    weights = np.exp(q @ np.swapaxes(k, -1, -2) / scale + mask)
    return weights / weights.sum(-1, keepdims=True) @ v


def kept(q: Any, k: Any, v: Any, mask: Any) -> Any:
    weights = np.exp(q @ np.swapaxes(k, -1, -2)) * (mask > 0)
    return weights / weights.sum(-1, keepdims=True) @ v


def turned(x: Any, speed: Any, pairs: bool) -> Any:
    """Complex numbers, turned by factors."""
    half = x.shape[-1] // 2
    a, b = (x[..., ::2], x[..., 1::2]) if pairs else (x[..., :half], x[..., half:])
    z = (a + 1j * b) * np.exp(1j * np.arange(x.shape[-2])[:, None] * speed)
    if not pairs:
        return np.concatenate([z.real, z.imag], -1).astype(x.dtype)
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)


FAMILIES: dict[str, dict[str, Case]] = {
    "attention": {
        "layer norm": Case(
            made(LayerNorm((2,), 0.5)), (X, W, W), NARROW,
            lambda x, w, b: normalized(centred(x)) * w + b,
        ),
        "rms norm": Case(made(RMSNorm((2,), 0.5)), (X, W), NARROW, lambda x, w: normalized(x) * w),
        "attention": Case(
            made(Attention((3,), "/", masked=True)),
            ((2, 2, 5, 4), (2, 2, 6, 4), (2, 2, 6, 3), (), (5, 6)),
            NARROW,
            attention,
        ),
        "attention where kept": Case(
            lambda q, k, v, m: gt.Tensor.make(
                Attention((3,), "", masked=True, fill=-np.inf), q, k, v, gt.greater(m, 0)
            ),
            ((2, 2, 5, 4), (2, 2, 6, 4), (2, 2, 6, 3), (5, 6)),
            NARROW,
            kept,
        ),
        "halves turned": Case(
            made(Rotation((3,), pairs=False)), ((2, 2, 5, 8), (4,)), ("float32",),
            lambda x, speed: turned(x, speed, pairs=False),
        ),
        "neighbours turned": Case(
            made(Rotation((1,), pairs=True)), ((5, 8), (4,)), ("float32",),
            lambda x, speed: turned(x, speed, pairs=True),
        ),
        "product and sum": Case(
            made(ProductAndSum((2,))), ((2, 5, 4), (4, 3), (3,)), NARROW,
            lambda a, b, c: a @ b + c,
        ),
    },
}  # fmt: skip
