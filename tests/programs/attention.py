"""Attention of several heads by einsum, causal, and the gradient by the queries."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

import graphc
import graphc.tensor as pt

random = np.random.default_rng(10)
QUERIES, KEYS, VALUES = (random.normal(size=(2, 4, 3)) for _ in range(3))


def program() -> list[Any]:
    q, k, v = pt.tensor3("q"), pt.tensor3("k"), pt.tensor3("v")
    scores = pt.einsum("hid,hjd->hij", q, k) / pt.sqrt(3.0)
    causal = pt.tril(pt.ones((4, 4), dtype="bool"))
    weights = pt.special.softmax(pt.where(causal, scores, -np.inf), axis=-1)
    y = pt.einsum("hij,hjd->ihd", weights, v)
    slope = graphc.grad((y**2).sum(), q)
    return graphc.function([q, k, v], [weights, y, slope])(QUERIES, KEYS, VALUES)


def expected() -> list[Any]:
    weights, y, slope = np.zeros((2, 4, 4)), np.zeros((4, 2, 3)), np.zeros((2, 4, 3))
    for h in range(2):
        for i in range(4):
            w = special.softmax(KEYS[h, : i + 1] @ QUERIES[h, i] / np.sqrt(3))
            seen = VALUES[h, : i + 1]
            weights[h, i, : i + 1], y[i, h] = w, w @ seen
            g = seen @ (2 * y[i, h])
            slope[h, i] = (w * (g - w @ g)) @ KEYS[h, : i + 1] / np.sqrt(3)
    return [weights, y, slope]
