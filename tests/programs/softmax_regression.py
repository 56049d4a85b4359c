"""Classes by softmax regression: negative log-likelihood, gradient, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

import graphc
import graphc.tensor as pt

random = np.random.default_rng(2)
FEATURES = random.normal(size=(12, 4))
LABELS = random.integers(0, 3, 12)
WEIGHTS, BIAS = random.normal(size=(4, 3)), random.normal(size=3)


def program() -> list[Any]:
    x, y = pt.matrix("x"), pt.lvector("y")
    w, b = graphc.shared(WEIGHTS, name="w"), graphc.shared(BIAS, name="b")
    p = pt.special.softmax(pt.dot(x, w) + b, axis=-1)
    cost = -pt.mean(pt.log(p)[pt.arange(y.shape[0]), y])
    wrong = pt.mean(pt.neq(pt.argmax(p, axis=1), y))
    f = graphc.function([x, y], [cost, wrong, *pt.grad(cost, [w, b])])
    return f(FEATURES, LABELS)


def expected() -> list[Any]:
    logits = FEATURES @ WEIGHTS + BIAS
    log_p = special.log_softmax(logits, axis=1)
    wanted = np.eye(3)[LABELS]
    g = (np.exp(log_p) - wanted) / 12
    return [
        -np.mean(np.sum(wanted * log_p, 1)),
        np.mean(log_p.argmax(1) != LABELS),
        FEATURES.T @ g,
        g.sum(0),
    ]
