"""A Kalman filter of a random walk, its steps written out, and the slope by its variances."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

import graphc
import graphc.tensor as pt

SERIES = np.array([0.3, 0.1, 0.6, 1.1, 0.9, 1.6, 1.4, 2.2])


def program() -> list[Any]:
    y = pt.vector("y")
    q, r = pt.scalars("q", "r")
    mean, variance = pt.constant(0.0), pt.constant(10.0)
    logp, means = 0.0, []
    for t in range(len(SERIES)):
        variance = variance + q
        total = variance + r
        off = y[t] - mean
        logp = logp - 0.5 * (pt.log(2 * np.pi * total) + off**2 / total)
        gain = variance / total
        mean, variance = mean + gain * off, (1 - gain) * variance
        means.append(mean)
    f = graphc.function([y, q, r], [logp, pt.stack(means), *graphc.grad(logp, [q, r])])
    return f(SERIES, 0.2, 0.5)


def expected() -> list[Any]:
    n = len(SERIES)

    def logp(q: float, r: float) -> float:
        covariance = (
            10 + q * np.minimum.outer(np.arange(1, n + 1), np.arange(1, n + 1)) + r * np.eye(n)
        )
        return float(stats.multivariate_normal(np.zeros(n), covariance).logpdf(SERIES))

    walk = 10 + 0.2 * np.minimum.outer(np.arange(1, n + 1), np.arange(1, n + 1))
    means = [
        walk[t, : t + 1]
        @ np.linalg.solve(walk[: t + 1, : t + 1] + 0.5 * np.eye(t + 1), SERIES[: t + 1])
        for t in range(n)
    ]
    h = 1e-5
    slopes = [
        (logp(0.2 + h, 0.5) - logp(0.2 - h, 0.5)) / (2 * h),
        (logp(0.2, 0.5 + h) - logp(0.2, 0.5 - h)) / (2 * h),
    ]
    return [logp(0.2, 0.5), np.array(means), *slopes]
