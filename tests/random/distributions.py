"""Every distribution with parameters, and SciPy's counterpart for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

__all__ = ["DISCRETE", "FLOATING", "VECTORS", "Row"]


@dataclass(frozen=True)
class Row:
    """A distribution.

    Attributes:
        counterpart: What SciPy has for one set of parameters.
        parameters: Sets of them.
    """

    counterpart: Callable[..., Any]
    parameters: list[tuple[float, ...]]

    def arguments(self, dtype: str) -> list[Any]:
        """All sets at once: a column for each parameter."""
        return list(np.array(self.parameters, dtype).T[:, :, None])

    def counterparts(self) -> list[Any]:
        """SciPy's distribution for each set."""
        return [self.counterpart(*values) for values in self.parameters]


def _scaled(distribution: Any) -> Callable[..., Any]:
    return lambda loc, scale: distribution(loc=loc, scale=scale)


SCALED = [(0.0, 1.0), (-3.0, 2.5)]

FLOATING = {
    "uniform": Row(lambda a, b: stats.uniform(a, b - a), [(0, 1), (-2, 5)]),
    "normal": Row(_scaled(stats.norm), SCALED),
    "standard_normal": Row(stats.norm, [()]),
    "lognormal": Row(lambda m, s: stats.lognorm(s, scale=np.exp(m)), [(0, 1), (2, 0.3)]),
    "halfnormal": Row(_scaled(stats.halfnorm), SCALED),
    "t": Row(stats.t, [(1, 0, 1), (4.5, -1, 2), (200, 0, 1)]),
    "cauchy": Row(_scaled(stats.cauchy), SCALED),
    "halfcauchy": Row(_scaled(stats.halfcauchy), SCALED),
    "laplace": Row(_scaled(stats.laplace), SCALED),
    "logistic": Row(_scaled(stats.logistic), SCALED),
    "gumbel": Row(_scaled(stats.gumbel_r), SCALED),
    "exponential": Row(lambda s: stats.expon(scale=s), [(1,), (7.5,)]),
    "gamma": Row(
        lambda a, b: stats.gamma(a, scale=1 / b), [(0.1, 1), (1, 0.5), (3.5, 2), (100, 1)]
    ),
    "gengamma": Row(
        lambda a, p, s: stats.gengamma(a / p, p, scale=s), [(1, 1, 1), (2, 0.5, 3), (4, 3, 0.5)]
    ),
    "invgamma": Row(lambda a, s: stats.invgamma(a, scale=s), [(0.7, 1), (5, 3)]),
    "beta": Row(stats.beta, [(0.2, 0.3), (1, 1), (2, 5), (50, 30)]),
    "chisquare": Row(stats.chi2, [(1,), (7.5,)]),
    "weibull": Row(stats.weibull_min, [(0.5,), (3,)]),
    "pareto": Row(lambda b, s: stats.pareto(b, scale=s), [(1.5, 1), (4, 3)]),
    "vonmises": Row(lambda m, k: stats.vonmises(k, loc=m), [(0, 0.01), (0, 1), (1, 4), (-2, 300)]),
    "wald": Row(lambda m, s: stats.invgauss(m / s, scale=s), [(1, 1), (3, 0.5), (0.5, 10)]),
    "triangular": Row(
        lambda a, c, b: stats.triang((c - a) / (b - a), a, b - a),
        [(0, 0.5, 1), (-2, 3, 4), (0, 0, 1)],
    ),
    "truncnorm": Row(
        stats.truncnorm, [(-1, 2, 0, 1), (0.5, 0.75, 3, 2), (6, 9, 0, 1), (-np.inf, -2, 1, 0.5)]
    ),
    "truncexpon": Row(stats.truncexpon, [(1, 0, 1), (4, -2, 3)]),
    "rayleigh": Row(lambda s: stats.rayleigh(scale=s), [(1,), (4,)]),
}
"""Those of floating numbers."""

DISCRETE = {
    "bernoulli": Row(stats.bernoulli, [(0.01,), (0.4,), (1,)]),
    "binomial": Row(
        stats.binom, [(5, 0.3), (20, 0.9), (1000, 0.005), (1000, 0.4), (10**6, 0.7), (3, 0), (3, 1)]
    ),
    "nbinom": Row(stats.nbinom, [(0.5, 0.2), (10, 0.5), (100, 0.9)]),
    "betabinom": Row(stats.betabinom, [(10, 2, 3), (100, 0.5, 0.5), (1, 1, 1)]),
    "geometric": Row(stats.geom, [(0.02,), (0.5,), (1,)]),
    "poisson": Row(stats.poisson, [(0,), (0.1,), (4,), (9.99,), (10,), (60,), (10**5,)]),
    "hypergeometric": Row(
        lambda good, bad, n: stats.hypergeom(good + bad, good, n),
        [(5, 3, 2), (50, 450, 100), (450, 50, 400), (3, 100, 90), (10**6, 10**5, 5_000), (0, 4, 2)],
    ),
}  # fmt: skip
"""Those of integers."""

VECTORS = ("dirichlet", "multinomial", "categorical", "multivariate_normal")
"""Those with vectors as parameters or draws."""
