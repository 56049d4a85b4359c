"""The log-likelihood of a mixture, by logsumexp and naively, and responsibilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special, stats

import graphc
import graphc.tensor as pt

POINTS = np.array([-30.0, -1.0, 0.0, 0.3, 2.5, 40.0])
SHARES, MEANS, SPREADS = (
    np.array([0.2, 0.5, 0.3]),
    np.array([-1.0, 0.0, 3.0]),
    np.array([0.5, 1.0, 2.0]),
)


def program() -> list[Any]:
    x, share, mean, spread = pt.vectors("x", "share", "mean", "spread")
    z = (x[:, None] - mean) / spread
    parts = pt.log(share) - 0.5 * z**2 - pt.log(spread) - 0.5 * np.log(2 * np.pi)
    total = pt.logsumexp(parts, axis=1)
    naive = pt.log(pt.sum(pt.exp(parts), axis=1))
    responsibility = pt.exp(parts - total.dimshuffle(0, "x"))
    slope = graphc.grad(total.sum(), mean)
    f = graphc.function([x, share, mean, spread], [total, naive, responsibility, slope])
    return f(POINTS, SHARES, MEANS, SPREADS)


def expected() -> list[Any]:
    parts = np.log(SHARES) + stats.norm.logpdf(POINTS[:, None], MEANS, SPREADS)
    total = special.logsumexp(parts, axis=1)
    r = np.exp(parts - total[:, None])
    return [total, total, r, np.sum(r * (POINTS[:, None] - MEANS) / SPREADS**2, 0)]
