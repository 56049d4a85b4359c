"""PyMC's distributions: parameters, values, and what is known of their draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

__all__ = ["LEFT_OUT", "TABLE", "Row"]

HALF, WHOLE = np.array([0.2, 0.9, 1.3, 2.5, 4.1]), np.array([-2.3, -0.4, 0.1, 1.2, 3.4])
"""Values of distributions on positive numbers, and on all."""

SHARE, COUNTS = np.array([0.05, 0.3, 0.5, 0.8, 0.97]), np.array([0, 1, 2, 3, 5])
"""Values between 0 and 1, and values of distributions of counts."""

SIMPLEX = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
COV = np.array([[2.0, 0.4, 0.1], [0.4, 1.0, -0.2], [0.1, -0.2, 1.5]])
SMALL = np.array([[1.5, 0.3], [0.3, 0.8]])
RING = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
"""An adjacency matrix."""

GRID = np.linspace(-3, 3, 40)


@dataclass(frozen=True)
class Row:
    """A distribution of PyMC.

    Attributes:
        name: Its name in PyMC.
        params: Its parameters, of which those in floats are inputs.
        values: Where its densities are compared; or a function of the rank of a draw that says it.
        draws: SciPy's distribution, the mean and the variance, or a function of a NumPy generator
            and a number of draws; None: PyMC's own draws.
        build: Makes the variable of PyMC's module and parameters, where it is not
            ``pm.<name>.dist(**params)``.
        lacks: What is not compared, of "draws" and "values".
    """

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    values: Any = None
    draws: Any = None
    build: Callable[..., Any] | None = None
    lacks: tuple[str, ...] = ()

    def dist(self, pm: Any, params: dict[str, Any], **options: Any) -> Any:
        """PyMC's variable, with these parameters."""
        make = self.build or (lambda pm, **given: getattr(pm, self.name).dist(**given))
        return make(pm, **params, **options)

    def __str__(self) -> str:
        return self.name


def _inflated(psi: float, mean: float, variance: float) -> tuple[float, float]:
    """The moments of a distribution that is 0 with probability ``1 - psi``."""
    return psi * mean, psi * (variance + mean**2) - (psi * mean) ** 2


def _hurdle(psi: float, known: Any) -> tuple[float, float]:
    """The same where the distribution is one without its zeros."""
    share = 1 - float(known.pmf(0))
    mean, square = known.mean() / share, (known.var() + known.mean() ** 2) / share
    return psi * mean, psi * square - (psi * mean) ** 2


def _interpolated(pm: Any, **options: Any) -> Any:
    return pm.Interpolated.dist(GRID, stats.norm.pdf(GRID, 0.3, 0.8), **options)


def _censored(pm: Any, mu: Any, sigma: Any, **options: Any) -> Any:
    return pm.Censored.dist(pm.Normal.dist(mu, sigma), lower=-1.0, upper=1.5, **options)


def _truncated(pm: Any, mu: Any, sigma: Any, **options: Any) -> Any:
    return pm.Truncated.dist(pm.Logistic.dist(mu, sigma), lower=-2.5, upper=4.0, **options)


def _truncated_logistic() -> tuple[float, float]:
    x = np.linspace(-2.5, 4, 200_001)
    p = stats.logistic.pdf(x, 0.3, 1.2)
    p /= p.sum()
    mean = (p * x).sum()
    return mean, (p * (x - mean) ** 2).sum()


def _censored_normal(random: Any, n: int) -> Any:
    return np.clip(random.normal(0.3, 1.2, n), -1, 1.5)


def _mixture(pm: Any, w: Any, mu: Any, nu: Any, **options: Any) -> Any:
    parts = [pm.Normal.dist(mu, 1.0), pm.StudentT.dist(nu=nu, mu=0, sigma=2)]
    return pm.Mixture.dist(w=w, comp_dists=parts, **options)


def _custom_logp(pm: Any, mu: Any, **options: Any) -> Any:
    def logp(value: Any, mu: Any) -> Any:
        return -((value - mu) ** 2) - np.log(np.pi) / 2

    def random(mu: Any, rng: Any = None, size: Any = None) -> Any:
        return rng.normal(mu, np.sqrt(0.5), size)

    return pm.CustomDist.dist(mu, logp=logp, random=random, **options)


def _custom_graph(pm: Any, mu: Any, **options: Any) -> Any:
    def dist(mu: Any, size: Any) -> Any:
        return mu + 2 * pm.Laplace.dist(0, 1, size=size)

    return pm.CustomDist.dist(mu, dist=dist, **options)


def _simulator(pm: Any, mu: Any, **options: Any) -> Any:
    def simulate(rng: Any, mu: Any, size: Any = None) -> Any:
        return rng.normal(mu, 1.5, size)

    # Simulators are made in models, of the values that they are compared with.
    with pm.Model():
        return pm.Simulator("s", simulate, mu, observed=np.zeros(options.pop("shape", ())))


def _walk(pm: Any, mu: Any, sigma: Any, **options: Any) -> Any:
    start = pm.Normal.dist(0, 0.5)
    return pm.GaussianRandomWalk.dist(mu=mu, sigma=sigma, init_dist=start, steps=4, **options)


def _random_walk(pm: Any, b: Any, **options: Any) -> Any:
    start, step = pm.Normal.dist(0, 0.5), pm.Laplace.dist(0.1, b)
    return pm.RandomWalk.dist(init_dist=start, innovation_dist=step, steps=4, **options)


def _mv_walk(pm: Any, mu: Any, cov: Any, **options: Any) -> Any:
    start = pm.MvNormal.dist(np.zeros(2), np.eye(2))
    return pm.MvGaussianRandomWalk.dist(mu=mu, cov=cov, init_dist=start, steps=3, **options)


def _mv_student_walk(pm: Any, nu: Any, mu: Any, scale: Any, **options: Any) -> Any:
    start = pm.MvNormal.dist(np.zeros(2), np.eye(2))
    return pm.MvStudentTRandomWalk.dist(
        nu=nu, mu=mu, scale=scale, init_dist=start, steps=3, **options
    )


def _autoregression(pm: Any, rho: Any, sigma: Any, **options: Any) -> Any:
    start = pm.Normal.dist(0, 0.5)
    return pm.AR.dist(rho, sigma, init_dist=start, steps=4, **options)


def _simulated_autoregression(random: Any, n: int) -> Any:
    x = list(random.normal(0, 0.5, (2, n)))
    for _ in range(4):
        x.append(0.5 * x[-1] - 0.2 * x[-2] + random.normal(0, 1.2, n))
    return np.stack(x, 1)


def _garch(pm: Any, **given: Any) -> Any:
    return pm.GARCH11.dist(**given, steps=4)


def _simulated_garch(random: Any, n: int) -> Any:
    volatility, x = np.full(n, 0.8), [random.normal(0, 0.8, n)]
    for _ in range(4):
        volatility = np.sqrt(0.5 + 0.2 * x[-1] ** 2 + 0.3 * volatility**2)
        x.append(random.normal(0, volatility))
    return np.stack(x, 1)


def _euler_maruyama(pm: Any, rate: Any, **options: Any) -> Any:
    def step(x: Any, rate: Any) -> Any:
        return -rate * x, 0.6

    start = pm.Normal.dist(1, 0.5)
    return pm.EulerMaruyama.dist(0.1, step, (rate,), init_dist=start, steps=4, **options)


def _simulated_diffusion(random: Any, n: int) -> Any:
    x = [random.normal(1, 0.5, n)]
    for _ in range(4):
        x.append(x[-1] - 0.1 * 0.7 * x[-1] + np.sqrt(0.1) * 0.6 * random.normal(size=n))
    return np.stack(x, 1)


def _lkj(pm: Any, **options: Any) -> Any:
    return pm.LKJCorr.dist(n=3, eta=2.0, **options)  # its density needs a constant


CORRELATION = np.array([[1.0, 0.3, -0.2], [0.3, 1.0, 0.1], [-0.2, 0.1, 1.0]])


def _correlations(ndim: int) -> np.ndarray[Any, Any]:
    """Its Cholesky factor, as in newer versions of PyMC, or what is above its diagonal."""
    above = CORRELATION[np.triu_indices(3, 1)]
    return np.linalg.cholesky(CORRELATION) if ndim == 2 else above


def _lkj_cholesky(pm: Any, **options: Any) -> Any:
    sd = pm.HalfNormal.dist(1.0, shape=3)
    return pm.LKJCholeskyCov.dist(eta=2.0, n=3, sd_dist=sd, compute_corr=False, **options)


def _weights(alpha: float, k: int) -> Callable[[Any, int], Any]:
    def draw(random: Any, n: int) -> Any:
        left, found = np.ones(n), []
        for _ in range(k):
            share = random.beta(1, alpha, n)
            found.append(left * share)
            left = left * (1 - share)
        return np.stack([*found, left], 1)

    return draw


def _ordered_probabilities(cdf: Callable[[Any], Any]) -> tuple[Any, Any]:
    p = np.diff([0.0, *cdf(np.array([-1.0, 0.4, 1.5]) - 0.3), 1.0])
    mean = (p * np.arange(4)).sum()
    return mean, (p * (np.arange(4) - mean) ** 2).sum()


def _discrete_weibull() -> tuple[float, float]:
    k = np.arange(200)
    p = 0.8 ** (k**1.3) - 0.8 ** ((k + 1) ** 1.3)
    return (p * k).sum(), (p * k**2).sum() - (p * k).sum() ** 2


def _car_covariance() -> np.ndarray[Any, Any]:
    return np.linalg.inv(1.5 * (np.diag(RING.sum(0)) - 0.4 * RING))


ROWS = [
    # Continuous.
    Row("AsymmetricLaplace", {"b": 1.2, "kappa": 1.5, "mu": 0.3}, WHOLE,
        stats.laplace_asymmetric(1.5, 0.3, 1 / 1.2)),
    Row("Beta", {"alpha": 2.0, "beta": 3.5}, SHARE, stats.beta(2, 3.5)),
    Row("Cauchy", {"alpha": 0.3, "beta": 1.2}, WHOLE, stats.cauchy(0.3, 1.2)),
    Row("ChiSquared", {"nu": 3.5}, HALF, stats.chi2(3.5)),
    Row("ExGaussian", {"mu": 0.3, "sigma": 1.2, "nu": 0.8}, WHOLE,
        stats.exponnorm(0.8 / 1.2, 0.3, 1.2)),
    Row("Exponential", {"lam": 1.7}, HALF, stats.expon(0, 1 / 1.7)),
    Row("Flat", {}, WHOLE, lacks=("draws",)),
    Row("Gamma", {"alpha": 2.5, "beta": 1.7}, HALF, stats.gamma(2.5, 0, 1 / 1.7)),
    Row("Gumbel", {"mu": 0.3, "beta": 1.2}, WHOLE, stats.gumbel_r(0.3, 1.2)),
    Row("HalfCauchy", {"beta": 1.2}, HALF, stats.halfcauchy(0, 1.2)),
    Row("HalfFlat", {}, HALF, lacks=("draws",)),
    Row("HalfNormal", {"sigma": 1.2}, HALF, stats.halfnorm(0, 1.2)),
    Row("HalfStudentT", {"nu": 7.0, "sigma": 1.2}, HALF,
        lambda random, n: np.abs(1.2 * random.standard_t(7, n))),
    Row("Interpolated", {}, GRID[5:35:6] + 0.05, stats.norm(0.3, 0.8), _interpolated),
    Row("InverseGamma", {"alpha": 5.5, "beta": 1.7}, HALF, stats.invgamma(5.5, 0, 1.7)),
    Row("Kumaraswamy", {"a": 2.0, "b": 3.5}, SHARE,
        lambda random, n: (1 - random.random(n) ** (1 / 3.5)) ** 0.5),
    Row("Laplace", {"mu": 0.3, "b": 1.2}, WHOLE, stats.laplace(0.3, 1.2)),
    Row("LogNormal", {"mu": 0.3, "sigma": 0.6}, HALF, stats.lognorm(0.6, 0, np.exp(0.3))),
    Row("Logistic", {"mu": 0.3, "s": 1.2}, WHOLE, stats.logistic(0.3, 1.2)),
    Row("LogitNormal", {"mu": 0.3, "sigma": 1.2}, SHARE,
        lambda random, n: 1 / (1 + np.exp(-random.normal(0.3, 1.2, n)))),
    Row("Moyal", {"mu": 0.3, "sigma": 1.2}, WHOLE, stats.moyal(0.3, 1.2)),
    Row("Normal", {"mu": 0.3, "sigma": 1.2}, WHOLE, stats.norm(0.3, 1.2)),
    Row("Pareto", {"alpha": 6.5, "m": 0.1}, HALF, stats.pareto(6.5, 0, 0.1)),
    Row("Rice", {"nu": 1.0, "sigma": 1.2}, HALF, stats.rice(1 / 1.2, 0, 1.2)),
    Row("SkewNormal", {"mu": 0.5, "sigma": 1.5, "alpha": 2.0}, WHOLE,
        stats.skewnorm(2.0, 0.5, 1.5)),
    Row("SkewStudentT", {"a": 6.0, "b": 4.0, "mu": 0.3, "sigma": 1.2}, WHOLE,
        stats.jf_skew_t(6, 4, 0.3, 1.2)),
    Row("StudentT", {"nu": 7.0, "mu": 0.3, "sigma": 1.2}, WHOLE, stats.t(7, 0.3, 1.2)),
    Row("Triangular", {"lower": -3.0, "c": 0.5, "upper": 4.0}, WHOLE,
        stats.triang(3.5 / 7, -3, 7)),
    Row("TruncatedNormal", {"mu": 0.3, "sigma": 1.2, "lower": -2.5, "upper": 4.0}, WHOLE,
        stats.truncnorm(-2.8 / 1.2, 3.7 / 1.2, 0.3, 1.2)),
    Row("Uniform", {"lower": -3.0, "upper": 4.0}, WHOLE, stats.uniform(-3, 7)),
    Row("VonMises", {"mu": 0.3, "kappa": 1.7}, WHOLE * 0.8, stats.vonmises(1.7, 0.3)),
    Row("Wald", {"mu": 1.2, "lam": 2.0, "alpha": 0.1}, HALF,
        stats.invgauss(1.2 / 2, 0.1, 2)),
    Row("Weibull", {"alpha": 1.7, "beta": 1.2}, HALF, stats.weibull_min(1.7, 0, 1.2)),
    # Discrete.
    Row("Bernoulli", {"p": 0.3}, np.array([0, 1]), stats.bernoulli(0.3)),
    Row("BetaBinomial", {"alpha": 2.0, "beta": 3.5, "n": 9}, COUNTS,
        stats.betabinom(9, 2, 3.5)),
    Row("Binomial", {"n": 9, "p": 0.3}, COUNTS, stats.binom(9, 0.3)),
    Row("Categorical", {"p": SIMPLEX[0]}, np.array([0, 1, 2]), (1.3, 0.61)),
    Row("DiracDelta", {"c": 2}, COUNTS, (2.0, 0.0)),
    Row("DiscreteUniform", {"lower": 1, "upper": 6}, COUNTS, stats.randint(1, 7)),
    Row("DiscreteWeibull", {"q": 0.8, "beta": 1.3}, COUNTS, _discrete_weibull()),
    Row("Geometric", {"p": 0.3}, COUNTS, stats.geom(0.3)),
    Row("HyperGeometric", {"N": 20, "k": 7, "n": 9}, COUNTS, stats.hypergeom(20, 7, 9)),
    Row("NegativeBinomial", {"mu": 2.5, "alpha": 1.7}, COUNTS,
        stats.nbinom(1.7, 1.7 / (1.7 + 2.5))),
    Row("OrderedLogistic", {"eta": 0.3, "cutpoints": np.array([-1.0, 0.4, 1.5])},
        np.array([0, 1, 2]), _ordered_probabilities(stats.logistic.cdf)),
    Row("OrderedProbit", {"eta": 0.3, "sigma": 1.0, "cutpoints": np.array([-1.0, 0.4, 1.5])},
        np.array([0, 1, 2]), _ordered_probabilities(stats.norm.cdf)),
    Row("Poisson", {"mu": 2.5}, COUNTS, stats.poisson(2.5)),
    # Mixtures and changed distributions.
    Row("Censored", {"mu": 0.3, "sigma": 1.2}, np.array([-1.0, 0.2, 1.5]), _censored_normal,
        _censored),
    Row("HurdleGamma", {"psi": 0.6, "alpha": 2.5, "beta": 1.7}, np.array([0.0, 0.5, 2.0]),
        _inflated(0.6, 2.5 / 1.7, 2.5 / 1.7**2)),
    Row("HurdleLogNormal", {"psi": 0.6, "mu": 0.3, "sigma": 0.6}, np.array([0.0, 0.5, 2.0]),
        _inflated(0.6, *map(float, stats.lognorm(0.6, 0, np.exp(0.3)).stats("mv")))),
    Row("HurdleNegativeBinomial", {"psi": 0.6, "mu": 2.5, "alpha": 1.7}, COUNTS,
        _hurdle(0.6, stats.nbinom(1.7, 1.7 / 4.2))),
    Row("HurdlePoisson", {"psi": 0.6, "mu": 2.5}, COUNTS, _hurdle(0.6, stats.poisson(2.5))),
    Row("Mixture", {"w": np.array([0.3, 0.7]), "mu": 0.3, "nu": 7.0}, WHOLE,
        (0.09, 0.3 * 1.09 + 0.7 * 4 * 7 / 5 - 0.09**2), _mixture),
    Row("NormalMixture", {"w": SIMPLEX[0], "mu": np.array([-1.0, 0.0, 2.0]),
        "sigma": np.array([0.5, 1.0, 0.7])}, WHOLE,
        (0.8, 0.2 * 1.25 + 0.3 * 1.0 + 0.5 * 4.49 - 0.64)),
    Row("Truncated", {"mu": 0.3, "sigma": 1.2}, WHOLE, _truncated_logistic(), _truncated),
    Row("ZeroInflatedBinomial", {"psi": 0.6, "n": 9, "p": 0.3}, COUNTS,
        _inflated(0.6, 2.7, 2.7 * 0.7)),
    Row("ZeroInflatedNegativeBinomial", {"psi": 0.6, "mu": 2.5, "alpha": 1.7}, COUNTS,
        _inflated(0.6, 2.5, 2.5 + 2.5**2 / 1.7)),
    Row("ZeroInflatedPoisson", {"psi": 0.6, "mu": 2.5}, COUNTS, _inflated(0.6, 2.5, 2.5)),
    # Of vectors and matrices.
    Row("CAR", {"mu": np.array([0.1, 0.2, -0.3, 0.4]), "W": RING, "alpha": 0.4, "tau": 1.5},
        np.array([0.3, -0.2, 1.1, 0.5]),
        (np.array([0.1, 0.2, -0.3, 0.4]), np.diag(_car_covariance()))),
    Row("Dirichlet", {"a": np.array([2.0, 1.5, 0.7])}, SIMPLEX,
        (stats.dirichlet([2, 1.5, 0.7]).mean(), stats.dirichlet([2, 1.5, 0.7]).var())),
    Row("DirichletMultinomial", {"n": 7, "a": np.array([2.0, 1.5, 0.7])},
        np.array([[2, 4, 1], [7, 0, 0]]),
        (stats.dirichlet_multinomial([2, 1.5, 0.7], 7).mean(),
         stats.dirichlet_multinomial([2, 1.5, 0.7], 7).var())),
    Row("ICAR", {"W": RING, "sigma": 1.2}, np.array([0.3, -0.2, 1.1, 0.5]), lacks=("draws",)),
    Row("KroneckerNormal", {"mu": np.arange(6.0) / 6, "covs": [SMALL, COV]},
        np.arange(6.0)[::-1] / 6, (np.arange(6.0) / 6, np.diag(np.kron(SMALL, COV)))),
    Row("LKJCholeskyCov", {}, np.array([0.8, 0.3, 1.1, -0.2, 0.4, 0.7]), None, _lkj_cholesky),
    Row("LKJCorr", {}, _correlations, None, _lkj),
    Row("MatrixNormal", {"mu": np.arange(6.0).reshape(2, 3) / 6, "rowcov": SMALL, "colcov": COV},
        np.arange(6.0)[::-1].reshape(2, 3) / 6,
        (np.arange(6.0).reshape(2, 3) / 6, np.outer(np.diag(SMALL), np.diag(COV)))),
    Row("Multinomial", {"n": 7, "p": SIMPLEX[0]}, np.array([[2, 4, 1], [7, 0, 0]]),
        (7 * SIMPLEX[0], 7 * SIMPLEX[0] * (1 - SIMPLEX[0]))),
    Row("MvNormal", {"mu": np.array([0.1, 0.2, -0.3]), "cov": COV},
        np.array([[0.3, -0.2, 1.1], [0.0, 1.0, -1.0]]),
        (np.array([0.1, 0.2, -0.3]), np.diag(COV))),
    Row("MvStudentT", {"nu": 9.0, "mu": np.array([0.1, 0.2, -0.3]), "scale": COV},
        np.array([[0.3, -0.2, 1.1], [0.0, 1.0, -1.0]]),
        (np.array([0.1, 0.2, -0.3]), np.diag(COV) * 9 / 7)),
    Row("OrderedMultinomial", {"eta": 0.3, "cutpoints": np.array([-1.0, 0.4, 1.5]), "n": 7},
        np.array([[2, 3, 1, 1]]), None),
    Row("StickBreakingWeights", {"alpha": 1.7, "K": 3}, np.array([0.2, 0.3, 0.4, 0.1]),
        _weights(1.7, 3)),
    Row("Wishart", {"nu": 7, "V": SMALL}, np.array([[8.0, 1.0], [1.0, 5.0]]),
        (7 * SMALL, 7 * (SMALL**2 + np.outer(np.diag(SMALL), np.diag(SMALL))))),
    Row("ZeroSumNormal", {"sigma": 1.2}, np.array([0.5, -0.7, 0.2]),
        (np.zeros(3), np.full(3, 1.2**2 * 2 / 3)),
        lambda pm, sigma, **options: pm.ZeroSumNormal.dist(sigma, support_shape=(3,), **options)),
    # Time series.
    Row("AR", {"rho": np.array([0.5, -0.2]), "sigma": 1.2},
        np.array([0.3, -0.2, 1.1, 0.5, 0.1, -0.4]), _simulated_autoregression,
        _autoregression),
    Row("EulerMaruyama", {"rate": 0.7}, np.array([0.8, 0.9, 0.7, 0.6, 0.7]),
        _simulated_diffusion, _euler_maruyama),
    Row("GARCH11", {"omega": 0.5, "alpha_1": 0.2, "beta_1": 0.3, "initial_vol": 0.8},
        np.array([0.8, -0.9, 0.7, 0.6, -0.7]), _simulated_garch, _garch),
    Row("GaussianRandomWalk", {"mu": 0.2, "sigma": 1.2}, np.array([0.1, 0.9, 0.7, 1.6, 2.7]),
        (0.2 * np.arange(5), 0.25 + 1.44 * np.arange(5)), _walk),
    Row("MvGaussianRandomWalk", {"mu": np.array([0.1, -0.2]), "cov": SMALL},
        np.arange(8.0).reshape(4, 2) / 8,
        (np.arange(4)[:, None] * [0.1, -0.2], 1 + np.arange(4)[:, None] * np.diag(SMALL)),
        _mv_walk),
    Row("MvStudentTRandomWalk", {"nu": 9.0, "mu": np.array([0.1, -0.2]), "scale": SMALL},
        np.arange(8.0).reshape(4, 2) / 8,
        (np.arange(4)[:, None] * [0.1, -0.2], 1 + np.arange(4)[:, None] * np.diag(SMALL) * 9 / 7),
        _mv_student_walk),
    Row("RandomWalk", {"b": 1.2}, np.array([0.1, 0.9, 0.7, 1.6, 2.7]),
        (0.1 * np.arange(5), 0.25 + 2 * 1.44 * np.arange(5)), _random_walk),
    # A user's own.
    Row("CustomDist", {"mu": 0.3}, WHOLE, stats.norm(0.3, np.sqrt(0.5)), _custom_logp),
    Row("CustomDist of a graph", {"mu": 0.3}, WHOLE, stats.laplace(0.3, 2), _custom_graph),
    Row("Simulator", {"mu": 0.3}, None, stats.norm(0.3, 1.5), _simulator, ("values",)),
]  # fmt: skip

TABLE = {row.name: row for row in ROWS}

LEFT_OUT = {
    **dict.fromkeys(("Continuous", "Discrete", "Distribution"), "a class to inherit from"),
    "SymbolicRandomVariable": "a class to inherit from, of operations",
    "DensityDist": "another name of CustomDist",
    "Lognormal": "another name of LogNormal",
    "PolyaGamma": "PyMC calls a package for it that is optional, as it calls CustomDist's random=",
    "WishartBartlett": "a function that adds normal and chi-squared variables to a model",
}
"""What is public beside the table's distributions, and why."""
