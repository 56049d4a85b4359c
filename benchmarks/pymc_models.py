"""PyMC models of the usual kinds, on made-up data of the usual sizes.

PyMC takes seconds to import: each model is a function of its module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Build = Callable[[Any, Any, np.random.Generator], None]

MODELS: dict[str, Build] = {}
"""Functions of PyMC, PyTensor's ``tensor`` and random numbers, which make a model's variables."""

SCANS = ("GARCH by scan", "HMM by scan", "Kalman by scan")
"""The models that have a loop of the user's."""


def case(title: str) -> Callable[[Build], Build]:
    """Enter the decorated function."""

    def enter(build: Build) -> Build:
        MODELS[title] = build
        return build

    return enter


def made(title: str) -> Any:
    """A model, its data always the same."""
    import pymc  # noqa: PLC0415
    import pytensor.tensor as pt  # noqa: PLC0415

    with pymc.Model() as model:
        MODELS[title](pymc, pt, np.random.default_rng(0))
    return model


def recurrence(step: Any, sequences: Any, first: Any, others: Any) -> Any:
    """The states of a scan."""
    from pytensor import scan  # noqa: PLC0415

    return scan(
        step,
        sequences=sequences,
        outputs_info=first,
        non_sequences=others,
        return_updates=False,
    )


@case("eight schools")
def eight_schools(pm: Any, pt: Any, random: np.random.Generator) -> None:
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    error = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    theta = pm.Normal("theta", mu, tau, shape=8)
    pm.Normal("y", theta, error, observed=y)


@case("linear regression")
def linear_regression(pm: Any, pt: Any, random: np.random.Generator) -> None:
    x = random.normal(size=(1_000, 5))
    a, b, sigma = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1, shape=5), pm.HalfNormal("sigma", 1)
    pm.Normal("y", a + x @ b, sigma, observed=x.sum(1) + random.normal(size=1_000))


@case("logistic regression")
def logistic_regression(pm: Any, pt: Any, random: np.random.Generator) -> None:
    x = random.normal(size=(1_000, 10))
    a, b = pm.Normal("a", 0, 2), pm.StudentT("b", nu=3, mu=0, sigma=1, shape=10)
    pm.Bernoulli("y", logit_p=a + x @ b, observed=random.integers(0, 2, 1_000))


@case("radon")
def radon(pm: Any, pt: Any, random: np.random.Generator) -> None:
    county, floor = random.integers(0, 85, 919), random.integers(0, 2, 919)
    mu, spread = pm.Normal("mu", 0, 10), pm.HalfNormal("spread", 1)
    a = pm.Normal("a", mu, spread, shape=85)
    b, sigma = pm.Normal("b", 0, 10), pm.Exponential("sigma", 1)
    pm.Normal("y", a[county] + b * floor, sigma, observed=random.normal(size=919))


@case("marginal GP")
def marginal_gp(pm: Any, pt: Any, random: np.random.Generator) -> None:
    x = np.linspace(0, 10, 100)[:, None]
    scale, eta = pm.InverseGamma("scale", 3, 1), pm.HalfNormal("eta", 1)
    gp = pm.gp.Marginal(cov_func=eta**2 * pm.gp.cov.Matern52(1, scale))
    y = np.sin(x[:, 0]) + 0.1 * random.normal(size=100)
    gp.marginal_likelihood("y", X=x, y=y, sigma=pm.HalfNormal("noise", 1))


@case("AR")
def autoregression(pm: Any, pt: Any, random: np.random.Generator) -> None:
    rho, sigma = pm.Normal("rho", 0, 0.3, shape=2), pm.HalfNormal("sigma", 1)
    start = pm.Normal.dist(0, 1)
    pm.AR("y", rho, sigma, init_dist=start, observed=random.normal(size=500))


@case("GARCH")
def garch(pm: Any, pt: Any, random: np.random.Generator) -> None:
    omega, first = pm.HalfNormal("omega", 1), pm.HalfNormal("first", 1)
    a, b = pm.Uniform("a", 0, 0.5), pm.Uniform("b", 0, 0.5)
    pm.GARCH11("y", omega, a, b, first, observed=random.normal(size=500))


@case("GARCH by scan")
def garch_by_scan(pm: Any, pt: Any, random: np.random.Generator) -> None:
    y = random.normal(size=500)
    omega = pm.HalfNormal("omega", 1)
    a, b = pm.Uniform("a", 0, 0.5), pm.Uniform("b", 0, 0.5)
    variances = recurrence(
        lambda square, v, omega, a, b: omega + a * square + b * v,
        pt.as_tensor(y[:-1] ** 2),
        pt.ones(()),
        [omega, a, b],
    )
    pm.Normal("y", 0, pt.sqrt(variances), observed=y[1:])


@case("HMM by scan")
def hidden_markov(pm: Any, pt: Any, random: np.random.Generator) -> None:
    y = random.normal(size=200) + np.repeat([0.0, 2.0, 1.0, 2.0], 50)
    p = pm.Dirichlet("p", np.ones((3, 3)))
    mu, sigma = pm.Normal("mu", np.arange(3.0), 1, shape=3), pm.HalfNormal("sigma", 1)
    emitted = pm.logp(pm.Normal.dist(mu[None, :], sigma), y[:, None])

    def forward(emitted: Any, before: Any, p: Any) -> Any:
        return pt.logsumexp(before[:, None] + pt.log(p), axis=0) + emitted

    last = recurrence(forward, emitted[1:], emitted[0] - np.log(3.0), [p])[-1]
    pm.Potential("likelihood", pt.logsumexp(last))


@case("Kalman by scan")
def kalman(pm: Any, pt: Any, random: np.random.Generator) -> None:
    """A level and its slope, of which the level is observed with noise."""
    y = np.cumsum(random.normal(size=200)) + random.normal(size=200)
    level, slope, noise = (pm.HalfNormal(name, 1) for name in ("level", "slope", "noise"))
    move = pt.as_tensor(np.array([[1.0, 1.0], [0.0, 1.0]]))
    drift = pt.diag(pt.stack([level, slope]) ** 2)

    def filtered(y: Any, mean: Any, covariance: Any, drift: Any, noise: Any) -> Any:
        mean, covariance = move @ mean, move @ covariance @ move.T + drift
        spread = covariance[0, 0] + noise**2
        gain, error = covariance[:, 0] / spread, y - mean[0]
        log = -0.5 * (pt.log(2 * np.pi * spread) + error**2 / spread)
        return mean + gain * error, covariance - pt.outer(gain, covariance[0]), log

    first = [pt.zeros(2), 10.0 * pt.eye(2), None]
    *_, logs = recurrence(filtered, pt.as_tensor(y), first, [drift, noise])
    pm.Potential("likelihood", logs.sum())


@case("mixture")
def mixture(pm: Any, pt: Any, random: np.random.Generator) -> None:
    w = pm.Dirichlet("w", np.ones(3))
    mu, sigma = pm.Normal("mu", 0, 3, shape=3), pm.HalfNormal("sigma", 1, shape=3)
    pm.NormalMixture("y", w, mu, sigma, observed=random.normal(size=500))


@case("LKJ, MvNormal")
def correlated(pm: Any, pt: Any, random: np.random.Generator) -> None:
    scales = pm.HalfNormal.dist(1, shape=4)
    factor, _, _ = pm.LKJCholeskyCov("factor", n=4, eta=2, sd_dist=scales, compute_corr=True)
    mu = pm.Normal("mu", 0, 1, shape=4)
    pm.MvNormal("y", mu, chol=factor, observed=random.normal(size=(200, 4)))


@case("ordered")
def ordered(pm: Any, pt: Any, random: np.random.Generator) -> None:
    x = random.normal(size=500)
    rising = pm.distributions.transforms.ordered
    start = np.arange(3.0)
    cuts = pm.Normal("cuts", start, 1, shape=3, transform=rising, initval=start)
    b = pm.Normal("b", 0, 1)
    pm.OrderedLogistic("y", eta=b * x, cutpoints=cuts, observed=random.integers(0, 4, 500))


@case("zero-inflated")
def zero_inflated(pm: Any, pt: Any, random: np.random.Generator) -> None:
    psi, mu = pm.Beta("psi", 1, 1), pm.Gamma("mu", 2, 1)
    pm.ZeroInflatedPoisson("y", psi, mu, observed=random.poisson(1, 500))


@case("censored")
def censored(pm: Any, pt: Any, random: np.random.Generator) -> None:
    mu, sigma = pm.Normal("mu", 0, 1), pm.HalfNormal("sigma", 1)
    y = np.clip(random.normal(size=500), -1, 1)
    pm.Censored("y", pm.Normal.dist(mu, sigma), lower=-1, upper=1, observed=y)
