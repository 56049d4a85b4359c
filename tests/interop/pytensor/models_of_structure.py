"""PyMC models of mixtures, Gaussian processes, space, correlations and latent factors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt

from tests.interop.pytensor import models

random = np.random.default_rng(3)
STRUCTURE: dict[str, Callable[[], Any]] = {}
case = functools.partial(models.case, into=STRUCTURE)

X = np.linspace(0, 1, 10)[:, None]
NEIGHBOURS = np.eye(6, k=1, dtype=int) + np.eye(6, k=-1, dtype=int)
"""Six places in a row."""


@case
def dirichlet_process(pm: Any) -> None:
    alpha = pm.Gamma("alpha", 1, 1)
    w = pm.StickBreakingWeights("w", alpha=alpha, K=4)
    mu, tau = pm.Normal("mu", 0, 2, shape=5), pm.Gamma("tau", 2, 1, shape=5)
    pm.NormalMixture("y", w, mu, tau=tau, observed=random.normal(size=15))


@case
def stick_breaking_by_hand(pm: Any) -> None:
    beta = pm.Beta("beta", 1, pm.Gamma("alpha", 2, 1), shape=5)
    left = pt.concatenate([[1.0], pt.extra_ops.cumprod(1 - beta)[:-1]])
    w = beta * left
    mu = pm.Normal("mu", 0, 2, shape=5)
    parts = pm.Normal.dist(mu, 1.0, shape=(5,))
    pm.Mixture("y", w / w.sum(), parts, observed=random.normal(size=15))


@case
def mixture_of_kinds(pm: Any) -> None:
    w = pm.Dirichlet("w", np.ones(2))
    parts = [pm.Normal.dist(pm.Normal("mu", 0, 1), 1), pm.StudentT.dist(nu=3, mu=0, sigma=5)]
    pm.Mixture("y", w, parts, observed=random.normal(size=12))
    counts = [pm.Poisson.dist(pm.Exponential("rate", 1)), pm.Geometric.dist(0.3)]
    pm.Mixture("n", w, counts, observed=random.integers(1, 6, 12))


@case
def mixture_of_vectors(pm: Any) -> None:
    w = pm.Dirichlet("w", np.ones(2))
    chol = np.linalg.cholesky(np.array([[1.0, 0.3], [0.3, 2.0]]))
    parts = [pm.MvNormal.dist(pm.Normal(f"mu_{i}", i, 1, shape=2), chol=chol) for i in range(2)]
    pm.Mixture("y", w, parts, observed=random.normal(size=(9, 2)))


@case
def inflated_counts(pm: Any) -> None:
    psi, mu = pm.Beta("psi", 2, 2), pm.Exponential("mu", 0.5)
    y = random.poisson(2, 15) * random.integers(0, 2, 15)
    pm.ZeroInflatedNegativeBinomial("y", psi, mu, alpha=2.0, observed=y)
    pm.ZeroInflatedBinomial("detected", psi, 9, pm.Beta("p", 1, 1), observed=np.minimum(y, 9))
    pm.DiscreteWeibull("life", 0.8, 1 + psi, observed=y)


@case
def topics(pm: Any) -> None:
    counts = random.poisson(1, (5, 8))
    theta = pm.Dirichlet("theta", np.full((5, 3), 0.5))
    phi = pm.Dirichlet("phi", np.full((3, 8), 0.5))
    pm.Potential("likelihood", (counts * pt.log(theta @ phi)).sum())


@case
def gaussian_copula(pm: Any) -> None:
    x, y = random.exponential(1, 12), random.normal(size=12)
    rho, rate = pm.Uniform("rho", -0.9, 0.9), pm.Gamma("rate", 2, 2)
    mu, sigma = pm.Normal("mu", 0, 1), pm.HalfNormal("sigma", 1)
    first, second = pm.Exponential.dist(rate), pm.Normal.dist(mu, sigma)
    pm.Potential("margins", pm.logp(first, x).sum() + pm.logp(second, y).sum())
    u, v = (pm.math.clip(pt.exp(pm.logcdf(d, at)), 1e-9, 1 - 1e-9) for d, at in
            ((first, x), (second, y)))  # fmt: skip
    a, b = pm.math.probit(u), pm.math.probit(v)
    square = (rho**2 * (a**2 + b**2) - 2 * rho * a * b) / (1 - rho**2)
    pm.Potential("copula", (-0.5 * pt.log(1 - rho**2) - 0.5 * square).sum())


@case
def correlations(pm: Any) -> None:
    corr = pm.LKJCorr("corr", n=3, eta=2)
    if corr.ndim == 1:
        above = pt.zeros((3, 3))[np.triu_indices(3, 1)].set(corr)
        matrix = above + above.T + pt.eye(3)
    else:  # newer versions have the Cholesky factor
        matrix = corr @ corr.T
    sd = pm.HalfNormal("sd", 1, shape=3)
    cov = sd[:, None] * matrix * sd[None, :]
    pm.MvNormal("y", np.zeros(3), cov=cov, observed=random.normal(size=(8, 3)))


@case
def wishart_prior(pm: Any) -> None:
    mu = pm.Normal("mu", 0, 1, shape=2)
    tau = np.array([[2.0, 0.4], [0.4, 1.0]])
    pm.MvNormal("y", mu, tau=tau * pm.HalfNormal("s", 1), observed=random.normal(size=(7, 2)))
    pm.Wishart("w", nu=5, V=np.eye(2), observed=tau)


@case
def factor_analysis(pm: Any) -> None:
    loadings = pm.Normal("loadings", 0, 1, shape=(4, 2))
    factors = pm.Normal("factors", 0, 1, shape=(2, 9))
    below = pt.tril(loadings)
    noise = pm.HalfNormal("noise", 1, shape=4)
    pm.Normal("y", below @ factors, noise[:, None], observed=random.normal(size=(4, 9)))


@case
def matrix_factorization(pm: Any) -> None:
    i, j = random.integers(0, 5, 15), random.integers(0, 4, 15)
    u, v = pm.Normal("u", 0, 1, shape=(5, 2)), pm.Normal("v", 0, 1, shape=(4, 2))
    pm.Normal("y", (u[i] * v[j]).sum(-1), 1, observed=random.normal(size=15))


@case
def paired_comparisons(pm: Any) -> None:
    home, away = random.integers(0, 4, 15), random.integers(0, 4, 15)
    attack, defence = (
        pm.ZeroSumNormal("attack", 1, shape=4),
        pm.ZeroSumNormal("defence", 1, shape=4),
    )
    edge = pm.Normal("edge", 0, 1)
    pm.Poisson("h", pt.exp(edge + attack[home] - defence[away]), observed=random.poisson(1, 15))
    pm.Poisson("a", pt.exp(attack[away] - defence[home]), observed=random.poisson(1, 15))


@case
def latent_process(pm: Any) -> None:
    scale, eta = pm.InverseGamma("scale", 3, 1), pm.HalfNormal("eta", 1)
    gp = pm.gp.Latent(cov_func=eta**2 * pm.gp.cov.ExpQuad(1, scale))
    f = gp.prior("f", X=X)
    pm.Poisson("y", pt.exp(f), observed=random.poisson(1, 10))


@case
def sum_of_kernels(pm: Any) -> None:
    scale, period = pm.Gamma("scale", 2, 2), pm.LogNormal("period", -1, 0.3)
    smooth = pm.gp.cov.Matern32(1, scale) + pm.gp.cov.Linear(1, c=0.5)
    wave = pm.gp.cov.Periodic(1, period, ls=1) * pm.gp.cov.RatQuad(1, ls=scale, alpha=2)
    gp = pm.gp.Marginal(mean_func=pm.gp.mean.Linear(pm.Normal("b", 0, 1)), cov_func=smooth + wave)
    gp.marginal_likelihood("y", X=X, y=random.normal(size=10), sigma=pm.HalfNormal("s", 1))


@case
def sparse_process(pm: Any) -> None:
    scale = pm.Gamma("scale", 2, 2)
    gp = pm.gp.MarginalApprox(cov_func=pm.gp.cov.ExpQuad(1, scale), approx="FITC")
    noise = pm.HalfNormal("s", 1)
    gp.marginal_likelihood("y", X=X, Xu=X[::3], y=random.normal(size=10), sigma=noise)


@case
def kronecker_process(pm: Any) -> None:
    scales = pm.Gamma("scales", 2, 2, shape=2)
    covs = [pm.gp.cov.ExpQuad(1, scales[0]), pm.gp.cov.Matern52(1, scales[1])]
    gp = pm.gp.MarginalKron(cov_funcs=covs)
    y = random.normal(size=12)
    gp.marginal_likelihood("y", Xs=[X[:3], X[:4]], y=y, sigma=pm.HalfNormal("s", 1))


@case
def student_process(pm: Any) -> None:
    gp = pm.gp.TP(scale_func=pm.gp.cov.ExpQuad(1, pm.Gamma("scale", 2, 2)), nu=4)
    pm.Normal("y", gp.prior("f", X=X), 0.5, observed=random.normal(size=10))


@case
def hilbert_space_process(pm: Any) -> None:
    cov = pm.HalfNormal("eta", 1) ** 2 * pm.gp.cov.Matern52(1, ls=pm.Gamma("scale", 2, 2))
    gp = pm.gp.HSGP(m=[8], c=1.5, cov_func=cov)
    pm.Normal("y", gp.prior("f", X=X), pm.HalfNormal("s", 1), observed=random.normal(size=10))


@case
def hilbert_space_period(pm: Any) -> None:
    cov = pm.gp.cov.Periodic(1, period=0.5, ls=pm.Gamma("scale", 2, 2))
    gp = pm.gp.HSGPPeriodic(m=5, scale=pm.HalfNormal("eta", 1), cov_func=cov)
    pm.Normal("y", gp.prior("f", X=X), pm.HalfNormal("s", 1), observed=random.normal(size=10))


@case
def neighbours(pm: Any) -> None:
    alpha, tau = pm.Beta("alpha", 2, 2), pm.Gamma("tau", 2, 1)
    phi = pm.CAR("phi", mu=np.zeros(6), W=NEIGHBOURS, alpha=alpha, tau=tau)
    pm.Poisson("y", pt.exp(phi), observed=random.poisson(2, 6))


@case
def besag_york_mollie(pm: Any) -> None:
    theta, phi = pm.Normal("theta", 0, 1, shape=6), pm.ICAR("phi", W=NEIGHBOURS)
    rho, sigma = pm.Beta("rho", 0.5, 0.5), pm.HalfNormal("sigma", 1)
    mixed = pt.sqrt(1 - rho) * theta + pt.sqrt(rho) * phi
    pm.Poisson("y", pt.exp(sigma * mixed), observed=random.poisson(2, 6))


@case
def interpolated_prior(pm: Any) -> None:
    grid = np.linspace(-3, 3, 30)
    x = pm.Interpolated("x", grid, np.exp(-(grid**2) / 2))
    pm.SkewStudentT("y", a=3.0, b=2.0, mu=x, sigma=1, observed=random.normal(size=6))


@case
def meta_analysis(pm: Any) -> None:
    n = random.integers(20, 40, 6)
    tau, base = pm.HalfCauchy("tau", 1), pm.Normal("base", 0, 1, shape=6)
    effect = pm.StudentT("effect", nu=4, mu=pm.Normal("mu", 0, 1), sigma=tau, shape=6)
    pm.Binomial("treated", n, logit_p=base + effect, observed=random.integers(0, 9, 6))
    pm.Binomial("control", n, logit_p=base, observed=random.integers(0, 9, 6))
