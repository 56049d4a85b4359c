"""PyMC models of the kinds that people write, on made-up data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor import scan

from tests.interop.pytensor.graphs import recurrence

random = np.random.default_rng(0)
MODELS: dict[str, Callable[[], Any]] = {}


def case(
    build: Callable[[Any], None], into: dict[str, Callable[[], Any]] = MODELS
) -> Callable[[], Any]:
    """A model, as a function of PyMC's module, which takes seconds to import."""

    def made() -> Any:
        import pymc as pm  # noqa: PLC0415

        with pm.Model() as found:
            build(pm)
        return found

    into[build.__name__] = made
    return made


def scan_of_states(step: Any, xs: Any, first: list[Any], constants: list[Any]) -> list[Any]:
    """The outputs of a scan with several states."""
    return scan(
        step,
        sequences=pt.as_tensor(xs),
        outputs_info=first,
        non_sequences=constants,
        return_updates=False,
    )


@case
def eight_schools(pm: Any) -> None:
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    theta = pm.Normal("theta", mu, tau, shape=8)
    pm.Normal("y", theta, sigma, observed=y)


@case
def radon(pm: Any) -> None:
    county, floor = random.integers(0, 6, 40), random.integers(0, 2, 40)
    mu_a, sigma_a = pm.Normal("mu_a", 0, 1), pm.HalfNormal("sigma_a", 1)
    a = pm.Normal("a", mu_a, sigma_a, shape=6)
    b, sigma = pm.Normal("b", 0, 1), pm.Exponential("sigma", 1)
    pm.Normal("y", a[county] + b * floor, sigma, observed=random.normal(size=40))


@case
def logistic_regression(pm: Any) -> None:
    x = random.normal(size=(30, 3))
    w, b = pm.StudentT("w", nu=3, mu=0, sigma=1, shape=3), pm.Cauchy("b", 0, 1)
    pm.Bernoulli("y", logit_p=x @ w + b, observed=random.integers(0, 2, 30))


@case
def garch(pm: Any) -> None:
    r = random.normal(size=30)
    w, a, b = pm.HalfNormal("w", 1), pm.Uniform("a", 0, 0.5), pm.Uniform("b", 0, 0.5)
    squares = pt.as_tensor(r[:-1] ** 2)
    s = recurrence(
        lambda r2, s, w, a, b: w + a * r2 + b * s, squares, pt.ones(()), non_sequences=[w, a, b]
    )
    pm.Normal("r", 0, pt.sqrt(s), observed=r[1:])


@case
def hidden_markov(pm: Any) -> None:
    y = random.normal(size=20)
    p = pm.Dirichlet("p", np.ones((3, 3)))
    mu = pm.Normal("mu", np.arange(3.0), 1, shape=3)
    emitted = pm.logp(pm.Normal.dist(mu[None, :], 1.0), y[:, None])

    def forward(step: Any, before: Any, p: Any) -> Any:
        return pt.logsumexp(before[:, None] + pt.log(p), axis=0) + step

    last = recurrence(forward, emitted[1:], emitted[0] - np.log(3.0), non_sequences=[p])[-1]
    pm.Potential("likelihood", pt.logsumexp(last))


@case
def local_level(pm: Any) -> None:
    y = random.normal(size=15)
    q, r = pm.HalfNormal("q", 1), pm.HalfNormal("r", 1)

    def filtered(y_t: Any, state: Any, q: Any, r: Any) -> Any:
        m, v = state[0], state[1] + q**2
        f = v + r**2
        gain = v / f
        log = -0.5 * (pt.log(2 * np.pi * f) + (y_t - m) ** 2 / f)
        return pt.stack([m + gain * (y_t - m), v * (1 - gain), log])

    first = pt.as_tensor(np.array([0.0, 10.0, 0.0]))
    states = recurrence(filtered, pt.as_tensor(y), first, non_sequences=[q, r])
    pm.Potential("likelihood", states[:, 2].sum())


@case
def correlated(pm: Any) -> None:
    chol, _, _ = pm.LKJCholeskyCov(
        "chol", n=3, eta=2, sd_dist=pm.HalfNormal.dist(1, shape=3), compute_corr=True
    )
    mu = pm.Normal("mu", 0, 1, shape=3)
    pm.MvNormal("y", mu, chol=chol, observed=random.normal(size=(12, 3)))


@case
def ordered(pm: Any) -> None:
    cuts = pm.Normal(
        "cuts",
        np.arange(3.0),
        1,
        shape=3,
        transform=pm.distributions.transforms.ordered,
        initval=np.arange(3.0),
    )
    eta = pm.Normal("eta", 0, 1, shape=10)
    pm.OrderedLogistic("y", eta=eta, cutpoints=cuts, observed=random.integers(0, 4, 10))


@case
def censored(pm: Any) -> None:
    mu, sigma = pm.Normal("mu", 0, 1), pm.HalfNormal("sigma", 1)
    y = np.clip(random.normal(size=20), -1, 1)
    pm.Censored("y", pm.Normal.dist(mu, sigma), lower=-1, upper=1, observed=y)


@case
def mixture(pm: Any) -> None:
    w = pm.Dirichlet("w", np.ones(3))
    mu, sigma = pm.Normal("mu", 0, 3, shape=3), pm.HalfNormal("sigma", 1, shape=3)
    pm.NormalMixture("y", w, mu, sigma, observed=random.normal(size=25))


@case
def zero_inflated(pm: Any) -> None:
    psi, mu = pm.Beta("psi", 1, 1), pm.Gamma("mu", 2, 1)
    pm.ZeroInflatedPoisson("y", psi, mu, observed=random.poisson(1, 20))


@case
def gaussian_process(pm: Any) -> None:
    x = np.linspace(0, 1, 12)[:, None]
    scale, eta = pm.InverseGamma("scale", 3, 1), pm.HalfNormal("eta", 1)
    gp = pm.gp.Marginal(cov_func=eta**2 * pm.gp.cov.Matern52(1, scale))
    gp.marginal_likelihood("y", X=x, y=random.normal(size=12), sigma=pm.HalfNormal("noise", 1))


@case
def autoregression(pm: Any) -> None:
    rho, sigma = pm.Normal("rho", 0, 0.3, shape=2), pm.HalfNormal("sigma", 1)
    start = pm.Normal.dist(0, 1)
    pm.AR("y", rho, sigma, init_dist=start, observed=random.normal(size=20))


@case
def random_walk(pm: Any) -> None:
    sigma = pm.Exponential("sigma", 1)
    walk = pm.GaussianRandomWalk("walk", sigma=sigma, init_dist=pm.Normal.dist(0, 1), steps=14)
    pm.StudentT("y", nu=4, mu=0, sigma=pt.exp(walk), observed=random.normal(size=15))


@case
def missing(pm: Any) -> None:
    y = np.ma.masked_array(random.normal(size=8), mask=[0, 1, 0, 0, 1, 0, 0, 0])
    with warnings.catch_warnings(action="ignore"):
        pm.Normal("y", pm.Normal("mu", 0, 1), pm.HalfNormal("sigma", 1), observed=y)


@case
def truncated(pm: Any) -> None:
    mu = pm.Normal("mu", 0, 1)
    pm.TruncatedNormal("y", mu, 1.0, lower=-1, upper=2, observed=random.uniform(-1, 2, 15))
    pm.Weibull("t", pm.HalfNormal("alpha", 1), 2.0, observed=random.uniform(0.5, 2, 9))
    pm.NegativeBinomial("n", mu=pt.exp(mu), alpha=2.0, observed=random.poisson(2, 9))
    pm.BetaBinomial("k", pm.HalfNormal("a", 1), 2.0, n=9, observed=random.integers(0, 9, 7))
