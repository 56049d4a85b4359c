"""PyMC models of series: differential equations, states, volatilities, counts over time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt

from tests.interop.pytensor import models
from tests.interop.pytensor.graphs import recurrence

random = np.random.default_rng(2)
TIME: dict[str, Callable[[], Any]] = {}
case = functools.partial(models.case, into=TIME)


def slope_of_populations(z: Any, theta: Any) -> Any:
    """Lotka and Volterra's equations."""
    hare, lynx = z[0], z[1]
    return pt.stack([(theta[0] - theta[1] * lynx) * hare, (theta[2] * hare - theta[3]) * lynx])


def observed_populations(pm: Any, states: Any) -> None:
    sigma = pm.LogNormal("sigma", -1, 1, shape=2)
    pm.LogNormal("y", pt.log(states[::5]), sigma, observed=random.lognormal(0, 0.3, (4, 2)))


@case
def lotka_volterra_by_euler(pm: Any) -> None:
    theta = pm.LogNormal("theta", np.log([0.5, 0.3, 0.3, 0.8]), 0.2, shape=4)
    start = pm.LogNormal("start", 0, 0.5, shape=2)

    def step(z: Any, theta: Any) -> Any:
        return z + 0.05 * slope_of_populations(z, theta)

    states = recurrence(step, None, start, non_sequences=[theta], n_steps=20)
    observed_populations(pm, states)


@case
def lotka_volterra_by_runge_kutta(pm: Any) -> None:
    theta = pm.LogNormal("theta", np.log([0.5, 0.3, 0.3, 0.8]), 0.2, shape=4)
    start = pm.LogNormal("start", 0, 0.5, shape=2)

    def step(z: Any, theta: Any) -> Any:
        h = 0.1
        k1 = slope_of_populations(z, theta)
        k2 = slope_of_populations(z + h / 2 * k1, theta)
        k3 = slope_of_populations(z + h / 2 * k2, theta)
        k4 = slope_of_populations(z + h * k3, theta)
        return z + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    states = recurrence(step, None, start, non_sequences=[theta], n_steps=20)
    observed_populations(pm, states)


@case
def epidemic(pm: Any) -> None:
    beta, gamma = pm.LogNormal("beta", -0.5, 0.3), pm.LogNormal("gamma", -1.5, 0.3)

    def step(state: Any, beta: Any, gamma: Any) -> Any:
        infected, removed = beta * state[0] * state[1], gamma * state[1]
        return pt.stack([state[0] - infected, state[1] + infected - removed, infected])

    first = pt.as_tensor(np.array([0.99, 0.01, 0.0]))
    states = recurrence(step, None, first, non_sequences=[beta, gamma], n_steps=20)
    alpha = pm.Exponential("alpha", 0.1)
    pm.NegativeBinomial(
        "y", mu=500 * states[:, 2] + 0.1, alpha=alpha, observed=random.poisson(9, 20)
    )


@case
def local_trend(pm: Any) -> None:
    slope_noise, level_noise = pm.HalfNormal("q", 0.1), pm.HalfNormal("r", 0.3)
    z = pm.Normal("z", 0, 1, shape=(2, 15))
    slope = pt.cumsum(slope_noise * z[0])
    level = pm.Normal("start", 0, 1) + pt.cumsum(slope + level_noise * z[1])
    pm.Normal("y", level, pm.HalfNormal("s", 1), observed=random.normal(size=15).cumsum())


@case
def kalman_filter(pm: Any) -> None:
    y = random.normal(size=12).cumsum()
    q, r = pm.HalfNormal("q", 1, shape=2), pm.HalfNormal("r", 1)
    transition = np.array([[1.0, 1.0], [0.0, 1.0]])
    measure = np.array([[1.0, 0.0]])

    def step(y_t: Any, mean: Any, cov: Any, log: Any, q: Any, r: Any) -> Any:
        mean = transition @ mean
        cov = transition @ cov @ transition.T + pt.diag(q**2)
        error, variance = y_t - measure @ mean, measure @ cov @ measure.T + r**2
        gain = pt.linalg.solve(variance, measure @ cov, assume_a="pos").T
        log = log - 0.5 * (pt.linalg.slogdet(variance)[1] + (error**2 / variance[0]).sum())
        return mean + gain @ error, (np.eye(2) - gain @ measure) @ cov, log

    first = [pt.zeros(2), pt.as_tensor(np.eye(2) * 10), pt.zeros(())]
    states = models.scan_of_states(step, y, first, [q, r])
    pm.Potential("likelihood", states[2][-1])


@case
def stochastic_volatility(pm: Any) -> None:
    step, nu = pm.Exponential("step", 10), pm.Exponential("nu", 0.1)
    start = pm.Normal.dist(0, 1)
    h = pm.GaussianRandomWalk("h", sigma=step, init_dist=start, steps=19)
    pm.StudentT("r", nu=nu + 2, lam=pt.exp(-2 * h), observed=random.standard_t(4, 20) / 50)


@case
def latent_autoregression(pm: Any) -> None:
    rho = pm.Uniform("rho", -1, 1)
    x = pm.AR("x", pt.stack([0.1, rho]), sigma=1, constant=True, init_dist=pm.Normal.dist(0, 1),
              steps=14)  # fmt: skip
    pm.Poisson("y", pt.exp(x), observed=random.poisson(1, 15))


@case
def garch_of_pymc(pm: Any) -> None:
    omega, a, b = pm.HalfNormal("omega", 1), pm.Uniform("a", 0, 0.5), pm.Uniform("b", 0, 0.5)
    pm.GARCH11(
        "r", omega=omega, alpha_1=a, beta_1=b, initial_vol=1.0, observed=random.normal(size=20)
    )


@case
def stochastic_differential_equation(pm: Any) -> None:
    rate, level = pm.LogNormal("rate", 0, 0.3), pm.Normal("level", 0, 1)

    def drift(x: Any, rate: Any, level: Any) -> Any:
        return rate * (level - x), 0.4

    start = pm.Normal.dist(0, 1)
    x = pm.EulerMaruyama("x", 0.1, drift, (rate, level), init_dist=start, steps=14)
    pm.Normal("y", x, 0.3, observed=random.normal(size=15))


@case
def smooth_change(pm: Any) -> None:
    t = np.arange(20.0)
    when = pm.Uniform("when", 0, 20)
    share = pm.math.sigmoid(2 * (t - when))
    before, after = pm.HalfNormal("before", 3), pm.HalfNormal("after", 3)
    pm.Poisson("y", before * (1 - share) + after * share, observed=random.poisson(2, 20))


@case
def seasons(pm: Any) -> None:
    t = np.arange(24.0)
    waves = np.stack([f(2 * np.pi * k * t / 12) for k in (1, 2) for f in (np.sin, np.cos)], 1)
    effect = waves @ pm.Normal("beta", 0, 1, shape=4)
    growth, changes = pm.Normal("k", 0, 1), pm.Laplace("delta", 0, 0.1, shape=3)
    after = (t[:, None] > np.array([6, 12, 18])) * 1.0
    trend = (growth + after @ changes) * t - after @ (changes * np.array([6, 12, 18]))
    pm.Normal("y", trend / 10 + effect, pm.HalfNormal("s", 1), observed=random.normal(size=24))


@case
def vector_walk(pm: Any) -> None:
    chol, _, _ = pm.LKJCholeskyCov(
        "chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1, shape=2), compute_corr=True
    )
    start = pm.MvNormal.dist(np.zeros(2), np.eye(2))
    walk = pm.MvGaussianRandomWalk("walk", np.zeros(2), chol=chol, init_dist=start, steps=9)
    pm.Normal("y", walk, 0.5, observed=random.normal(size=(10, 2)))


@case
def vector_autoregression(pm: Any) -> None:
    y = random.normal(size=(15, 2))
    a = pm.Normal("a", 0, 0.3, shape=(2, 2, 2))
    mu = y[1:-1] @ a[0] + y[:-2] @ a[1]
    chol = pt.linalg.cholesky(np.array([[1.0, 0.3], [0.3, 1.0]]))
    pm.MvNormal("y", mu, chol=chol, observed=y[2:])


@case
def hidden_markov_counts(pm: Any) -> None:
    y = random.poisson(3, 15)
    p, start = pm.Dirichlet("p", np.ones((2, 2)) + np.eye(2)), pm.Dirichlet("start", np.ones(2))
    rates = pm.Gamma("rates", 2, 1, shape=2, transform=pm.distributions.transforms.ordered,
                     initval=np.array([1.0, 3.0]))  # fmt: skip
    emitted = pm.logp(pm.Poisson.dist(rates), y[:, None])

    def forward(step: Any, before: Any, p: Any) -> Any:
        return pt.logsumexp(before[:, None] + pt.log(p), axis=0) + step

    last = recurrence(forward, emitted[1:], emitted[0] + pt.log(start), non_sequences=[p])[-1]
    pm.Potential("likelihood", pt.logsumexp(last))


@case
def exponential_smoothing(pm: Any) -> None:
    y = random.normal(size=15).cumsum()
    a, b = pm.Beta("a", 2, 2), pm.Beta("b", 2, 2)

    def step(y_t: Any, level: Any, slope: Any, a: Any, b: Any) -> Any:
        new = a * y_t + (1 - a) * (level + slope)
        return new, b * (new - level) + (1 - b) * slope

    start = pm.Normal("start", 0, 1, shape=2)
    level, slope = models.scan_of_states(step, y[:-1], [start[0], start[1]], [a, b])
    pm.Normal("y", level + slope, pm.HalfNormal("s", 1), observed=y[1:])


@case
def moving_average(pm: Any) -> None:
    y = random.normal(size=15)
    theta, mu = pm.Uniform("theta", -0.9, 0.9), pm.Normal("mu", 0, 1)

    def step(y_t: Any, error: Any, theta: Any, mu: Any) -> Any:
        return y_t - mu - theta * error

    errors = recurrence(step, pt.as_tensor(y), pt.zeros(()), non_sequences=[theta, mu])
    pm.Potential("likelihood", pm.logp(pm.Normal.dist(0, pm.HalfNormal("s", 1)), errors).sum())


@case
def renewals(pm: Any) -> None:
    rate, shape = pm.Gamma("rate", 2, 1), pm.Gamma("shape", 2, 1)
    gaps = random.gamma(2, 0.5, 12)
    pm.Gamma("gaps", shape, rate, observed=gaps)
    after = 1.5 - pm.math.exp(pm.logcdf(pm.Gamma.dist(shape, rate), 0.7))
    pm.Potential("open", pt.log(after))
