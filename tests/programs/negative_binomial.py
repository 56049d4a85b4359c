"""The negative binomial's log-probability and its slopes, by gammaln and psi."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special, stats

import graphc
import graphc.tensor as pt

COUNTS = np.array([0, 1, 3, 10, 50])


def program() -> list[Any]:
    y = pt.lvector("y")
    mu, alpha = pt.dscalars("mu", "alpha")
    logp = (
        pt.gammaln(y + alpha)
        - pt.gammaln(y + 1)
        - pt.gammaln(alpha)
        + y * pt.log(mu / (mu + alpha))
        + alpha * pt.log(alpha / (mu + alpha))
    )
    by_mu, by_alpha = graphc.grad(logp.sum(), [mu, alpha])
    return graphc.function([y, mu, alpha], [logp, by_mu, by_alpha])(COUNTS, 4.0, 1.7)


def expected() -> list[Any]:
    mu, alpha = 4.0, 1.7
    by_alpha = (
        special.digamma(COUNTS + alpha)
        - special.digamma(alpha)
        + np.log(alpha / (mu + alpha))
        + 1
        - (COUNTS + alpha) / (mu + alpha)
    )
    return [
        stats.nbinom.logpmf(COUNTS, alpha, alpha / (mu + alpha)),
        np.sum(COUNTS / mu - (COUNTS + alpha) / (mu + alpha)),
        by_alpha.sum(),
    ]
