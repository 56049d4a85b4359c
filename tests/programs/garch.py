"""The likelihood of returns whose variance follows those before, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

import graphc
import graphc.tensor as pt

RETURNS = np.array([0.3, -0.5, 1.2, -0.9, 0.1, 0.0, -1.4, 0.8, 0.4, -0.2])
POINT = np.array([0.1, 0.2, 0.6])


def program() -> list[Any]:
    r = pt.dvector("r")
    theta = pt.dvector("theta")
    omega, alpha, beta = theta[0], theta[1], theta[2]

    def variance(r_before: Any, v: Any) -> Any:
        return omega + alpha * r_before**2 + beta * v

    first = omega / (1 - alpha - beta)
    later = graphc.scan(variance, sequences=r[:-1], outputs_info=first)
    v = pt.concatenate([first[None], later])
    logp = (-0.5 * (pt.log(2 * np.pi * v) + r**2 / v)).sum()
    f = graphc.function([r, theta], [logp, v, graphc.grad(logp, theta)])
    return list(f(RETURNS, POINT))


def variances(theta: Any) -> list[Any]:
    """The variance of each return."""
    omega, alpha, beta = theta
    found = [omega / (1 - alpha - beta)]
    for r in RETURNS[:-1]:
        found.append(omega + alpha * r**2 + beta * found[-1])
    return found


def expected() -> list[Any]:
    def logp(theta: Any) -> float:
        return float(stats.norm.logpdf(RETURNS, 0, np.sqrt(variances(theta))).sum())

    h = 1e-5
    slopes = [(logp(POINT + h * d) - logp(POINT - h * d)) / (2 * h) for d in np.eye(3)]
    return [logp(POINT), np.array(variances(POINT)), np.array(slopes)]
