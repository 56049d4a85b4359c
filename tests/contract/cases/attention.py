"""Cases of graphc.tensor.attention."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.tensor.attention import Attention, LayerNorm, RMSNorm
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
    },
}  # fmt: skip
