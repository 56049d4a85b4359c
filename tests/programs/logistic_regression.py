"""Logistic regression trained by updates of shared variables."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

import graphc
import graphc.tensor as pt

random = np.random.default_rng(1)
FEATURES = random.normal(size=(40, 3))
LABELS = (FEATURES @ [1.0, -2.0, 0.5] + 0.3 * random.normal(size=40) > 0).astype("float64")
STEPS, RATE, DECAY = 30, 0.3, 0.01


def program() -> list[Any]:
    x, y = pt.matrix("x"), pt.vector("y")
    w = graphc.shared(np.zeros(3), name="w")
    b = graphc.shared(0.0, name="b")
    p = 1 / (1 + pt.exp(-pt.dot(x, w) - b))
    loss = -y * pt.log(p) - (1 - y) * pt.log(1 - p)
    cost = loss.mean() + DECAY * (w**2).sum()
    gw, gb = pt.grad(cost, [w, b])
    train = graphc.function(
        inputs=[x, y],
        outputs=[p > 0.5, cost],
        updates=((w, w - RATE * gw), (b, b - RATE * gb)),
    )
    predict = graphc.function(inputs=[x], outputs=p)
    costs = [train(FEATURES, LABELS)[1] for _ in range(STEPS)]
    return [np.array([float(c) for c in costs]), w.get_value(), b.get_value(), predict(FEATURES)]


def expected() -> list[Any]:
    w, b, costs = np.zeros(3), 0.0, []
    for _ in range(STEPS):
        p = special.expit(FEATURES @ w + b)
        loss = -special.xlogy(LABELS, p) - special.xlogy(1 - LABELS, 1 - p)
        costs.append(loss.mean() + DECAY * (w @ w))
        w, b = (
            w - RATE * (FEATURES.T @ (p - LABELS) / 40 + 2 * DECAY * w),
            b - RATE * (p - LABELS).mean(),
        )
    return [np.array(costs), w, b, special.expit(FEATURES @ w + b)]
