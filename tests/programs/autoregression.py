"""The conditional likelihood of an autoregressive series, by slices, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

import graphc
import graphc.tensor as pt

SERIES = np.array([0.1, 0.4, -0.2, 0.3, 0.8, 0.5, -0.1, 0.2, 0.6])


def program() -> list[Any]:
    y = pt.vector("y")
    phi = pt.vector("phi", shape=(2,))
    log_sigma = pt.scalar("log_sigma")
    off = y[2:] - phi[0] * y[1:-1] - phi[1] * y[:-2]
    sigma = pt.exp(log_sigma)
    logp = (-0.5 * (off / sigma) ** 2 - log_sigma - 0.5 * pt.log(2 * pt.pi)).sum()
    f = graphc.function([y, phi, log_sigma], [logp, off, *graphc.grad(logp, [phi, log_sigma])])
    return f(SERIES, [0.5, -0.2], -0.7)


def expected() -> list[Any]:
    lags = np.column_stack([SERIES[1:-1], SERIES[:-2]])
    off = SERIES[2:] - lags @ [0.5, -0.2]
    variance = np.exp(-1.4)
    return [
        stats.norm.logpdf(off, 0, np.exp(-0.7)).sum(),
        off,
        lags.T @ off / variance,
        np.sum(off**2) / variance - len(off),
    ]
