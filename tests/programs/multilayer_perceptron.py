"""One training step of a network of two layers, its updates in a list."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

random = np.random.default_rng(3)
FEATURES, TARGETS = random.normal(size=(10, 5)), random.normal(size=(10, 2))
SHAPES = [(5, 6), (6,), (6, 2), (2,)]
START = [random.normal(size=shape) / 2 for shape in SHAPES]
RATE = 0.1


def program() -> list[Any]:
    x, t = pt.matrices("x", "t")
    w1, b1, w2, b2 = params = [graphc.shared(value) for value in START]
    hidden = pt.tanh(x @ w1 + b1)
    y = hidden @ w2 + b2
    cost = pt.sum((y - t) ** 2, axis=1).mean() + 1e-3 * sum((p**2).sum() for p in params)
    updates = [(p, p - RATE * g) for p, g in zip(params, pt.grad(cost, params), strict=True)]
    train = graphc.function([x, t], cost, updates=updates)
    first = train(FEATURES, TARGETS)
    second = train(FEATURES, TARGETS)
    return [first, second, *[p.get_value() for p in params]]


def expected() -> list[Any]:
    w1, b1, w2, b2 = START
    costs = []
    for _ in range(2):
        hidden = np.tanh(FEATURES @ w1 + b1)
        off = hidden @ w2 + b2 - TARGETS
        decay = sum((p**2).sum() for p in (w1, b1, w2, b2))
        costs.append(np.mean(np.sum(off**2, 1)) + 1e-3 * decay)
        g = 2 * off / 10
        back = (g @ w2.T) * (1 - hidden**2)
        slopes = [FEATURES.T @ back, back.sum(0), hidden.T @ g, g.sum(0)]
        w1, b1, w2, b2 = [
            p - RATE * (s + 2e-3 * p) for p, s in zip((w1, b1, w2, b2), slopes, strict=True)
        ]
    return [*costs, w1, b1, w2, b2]
