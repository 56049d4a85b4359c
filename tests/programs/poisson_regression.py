"""Counts by Poisson regression: likelihood, score and information."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

import graphc
import graphc.tensor as pt

random = np.random.default_rng(13)
FEATURES, COUNTS, WEIGHTS = (
    random.normal(size=(9, 2)),
    random.integers(0, 7, 9),
    np.array([0.4, -0.3]),
)


def program() -> list[Any]:
    x, y, w = pt.matrix("x"), pt.lvector("y"), pt.vector("w")
    eta = pt.dot(x, w)
    rate = pt.exp(eta)
    logp = y * eta - rate - pt.gammaln(y + 1)
    total = logp.sum()
    score = graphc.grad(total, w)
    information = -graphc.gradient.hessian(total, w)
    return graphc.function([x, y, w], [logp, score, information])(FEATURES, COUNTS, WEIGHTS)


def expected() -> list[Any]:
    rate = np.exp(FEATURES @ WEIGHTS)
    return [
        stats.poisson.logpmf(COUNTS, rate),
        FEATURES.T @ (COUNTS - rate),
        FEATURES.T @ (rate[:, None] * FEATURES),
    ]
