"""PyMC models of regression: of counts, shares, ranks, times and several outputs."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from scipy.interpolate import BSpline

from tests.interop.pytensor import models

random = np.random.default_rng(1)
REGRESSION: dict[str, Callable[[], Any]] = {}
case = functools.partial(models.case, into=REGRESSION)


@case
def poisson_regression(pm: Any) -> None:
    x, exposure = random.normal(size=(25, 2)), random.uniform(1, 3, 25)
    beta = pm.Normal("beta", 0, 1, shape=2)
    rate = pt.exp(pm.Normal("a", 0, 1) + x @ beta + np.log(exposure))
    pm.Poisson("y", rate, observed=random.poisson(2, 25))


@case
def negative_binomial_regression(pm: Any) -> None:
    x = random.normal(size=30)
    mu = pt.exp(pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * x)
    alpha = 1 / pm.HalfNormal("phi", 1)
    pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=random.negative_binomial(2, 0.4, 30))


@case
def robust_regression(pm: Any) -> None:
    x = random.normal(size=20)
    nu = pm.Gamma("nu", 2, 0.1)
    mu = pm.Normal("a", 0, 2) + pm.Normal("b", 0, 2) * x
    sigma = pm.HalfStudentT("sigma", nu=3, sigma=1)
    pm.StudentT("y", nu=nu, mu=mu, sigma=sigma, observed=random.standard_t(3, 20))


@case
def quantile_regression(pm: Any) -> None:
    x = random.normal(size=20)
    mu = pm.Normal("a", 0, 2) + pm.Normal("b", 0, 2) * x
    pm.AsymmetricLaplace(
        "y", b=pm.HalfNormal("s", 1), mu=mu, q=0.9, observed=random.normal(size=20)
    )


@case
def horseshoe(pm: Any) -> None:
    x = random.normal(size=(20, 6))
    tau, c2 = pm.HalfCauchy("tau", 0.1), pm.InverseGamma("c2", 2, 2)
    lam = pm.HalfCauchy("lam", 1, shape=6)
    shrunk = lam * pt.sqrt(c2 / (c2 + tau**2 * lam**2))
    beta = pm.Deterministic("beta", pm.Normal("z", 0, 1, shape=6) * tau * shrunk)
    pm.Normal("y", x @ beta, pm.HalfNormal("s", 1), observed=random.normal(size=20))


@case
def varying_slopes(pm: Any) -> None:
    group, x = random.integers(0, 4, 30), random.normal(size=30)
    chol, _, _ = pm.LKJCholeskyCov(
        "chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1, shape=2), compute_corr=True
    )
    z = pm.Normal("z", 0, 1, shape=(2, 4))
    effects = pm.Normal("mu", 0, 1, shape=2) + pt.dot(chol, z).T
    mu = effects[group, 0] + effects[group, 1] * x
    pm.Normal("y", mu, pm.Exponential("s", 1), observed=random.normal(size=30))


@case
def item_response(pm: Any) -> None:
    answers = random.integers(0, 2, (8, 5))
    theta = pm.Normal("theta", 0, 1, shape=8)
    a, b = pm.LogNormal("a", 0, 0.5, shape=5), pm.Normal("b", 0, 1, shape=5)
    pm.Bernoulli("y", logit_p=a * (theta[:, None] - b), observed=answers)


@case
def ordered_probit(pm: Any) -> None:
    cuts = pm.Normal(
        "cuts",
        [-1.0, 1.0],
        1,
        transform=pm.distributions.transforms.ordered,
        initval=[-1.0, 1.0],
    )
    eta = pm.Normal("b", 0, 1) * random.normal(size=12)
    pm.OrderedProbit("y", eta=eta, cutpoints=cuts, observed=random.integers(0, 3, 12))


@case
def softmax_regression(pm: Any) -> None:
    x = random.normal(size=(20, 2))
    w, b = pm.Normal("w", 0, 1, shape=(2, 3)), pm.ZeroSumNormal("b", 1, shape=3)
    p = pt.special.softmax(x @ w + b, axis=-1)
    pm.Categorical("y", p=p, observed=random.integers(0, 3, 20))


@case
def multinomial_counts(pm: Any) -> None:
    y = random.multinomial(9, [0.2, 0.3, 0.5], size=6)
    share = pm.Dirichlet("share", np.ones(3))
    concentration = pm.LogNormal("concentration", 2, 1)
    pm.DirichletMultinomial("y", n=9, a=share * concentration, observed=y)
    pm.Multinomial("z", n=9, p=pm.Dirichlet("p", np.full(3, 2.0)), observed=y[::-1])


@case
def beta_regression(pm: Any) -> None:
    x = random.normal(size=15)
    mu = pm.math.invlogit(pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * x)
    kappa = pm.Gamma("kappa", 2, 0.1)
    pm.Beta("y", mu * kappa, (1 - mu) * kappa, observed=random.beta(2, 2, 15))
    pm.Kumaraswamy("k", 1 + kappa / 10, 2.0, observed=random.beta(2, 2, 5))


@case
def survival(pm: Any) -> None:
    x, t = random.normal(size=20), random.weibull(1.5, 20)
    end = np.where(random.random(20) < 0.3, np.minimum(t, 0.8), np.inf)
    alpha = pm.Gamma("alpha", 2, 1)
    beta = pt.exp(pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * x)
    times = pm.Weibull.dist(alpha, beta)
    pm.Censored("t", times, lower=None, upper=end, observed=np.minimum(t, end))


@case
def hurdle(pm: Any) -> None:
    y = random.poisson(1.5, 20)
    psi, mu = pm.Beta("psi", 2, 2), pm.Exponential("mu", 1)
    pm.HurdleNegativeBinomial("y", psi, mu, alpha=pm.Gamma("alpha", 2, 1), observed=y)
    pm.HurdleGamma("g", psi, 2.0, mu, observed=y * 0.7)


@case
def splines(pm: Any) -> None:
    x = np.sort(random.uniform(0, 1, 25))
    knots = np.r_[[0.0] * 4, 0.3, 0.6, [1.0] * 4]
    design = BSpline.design_matrix(x, knots, 3).toarray()
    tau = pm.HalfCauchy("tau", 1)
    w = pm.Normal("w", 0, tau, shape=design.shape[1])
    pm.Normal("y", pm.math.dot(design, w), pm.HalfNormal("s", 1), observed=random.normal(size=25))


@case
def unequal_variances(pm: Any) -> None:
    x = random.normal(size=20)
    mu = pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * x
    sigma = pt.softplus(pm.Normal("c", 0, 1) + pm.Normal("d", 0, 1) * x)
    pm.Logistic("y", mu, sigma, observed=random.normal(size=20))


@case
def errors_in_variables(pm: Any) -> None:
    x = pm.Normal("x", 0, 1, shape=12)
    pm.Normal("measured", x, 0.3, observed=random.normal(size=12))
    pm.Laplace("y", 1 + pm.Normal("b", 0, 1) * x, 1, observed=random.normal(size=12))


@case
def several_outputs(pm: Any) -> None:
    x = random.normal(size=(10, 2))
    w = pm.MatrixNormal("w", np.zeros((2, 3)), rowcov=np.eye(2), colcov=np.eye(3) * 2, shape=(2, 3))
    chol, _, _ = pm.LKJCholeskyCov(
        "chol", n=3, eta=1, sd_dist=pm.HalfNormal.dist(1, shape=3), compute_corr=True
    )
    pm.MvStudentT("y", nu=5, mu=x @ w, chol=chol, observed=random.normal(size=(10, 3)))


@case
def neural_network(pm: Any) -> None:
    x, y = random.normal(size=(15, 3)), random.integers(0, 2, 15)
    hidden = pt.tanh(x @ pm.Normal("w1", 0, 1, shape=(3, 4)))
    hidden = pt.tanh(hidden @ pm.Normal("w2", 0, 1, shape=(4, 4)))
    p = pm.math.sigmoid(hidden @ pm.Normal("w3", 0, 1, shape=4))
    pm.Bernoulli("y", p, observed=y)


@case
def rat_tumors(pm: Any) -> None:
    n = random.integers(10, 25, 8)
    a, b = pm.HalfFlat("a"), pm.HalfFlat("b")
    pm.Potential("prior", -2.5 * pt.log(a + b))
    theta = pm.Beta("theta", a, b, shape=8)
    pm.Binomial("y", n, theta, observed=random.integers(0, 5, 8))


@case
def circular_regression(pm: Any) -> None:
    x = random.normal(size=15)
    sine, cosine = pm.Normal("sine", 0, 1), pm.Normal("cosine", 1, 1)
    mu = pt.arctan2(sine + x, cosine)
    pm.VonMises("y", mu, pm.Gamma("kappa", 2, 1), observed=random.vonmises(0, 1, 15))
    pm.VonMises("phase", 0, 0.5)


@case
def reaction_times(pm: Any) -> None:
    person = random.integers(0, 3, 20)
    mu = pm.Normal("mu", 0.3, 0.1, shape=3)
    nu, sigma = pm.Exponential("nu", 5), pm.HalfNormal("sigma", 0.1)
    pm.ExGaussian(
        "t", mu=mu[person], sigma=sigma, nu=nu, observed=random.exponential(0.3, 20) + 0.2
    )
    pm.Wald("w", mu=nu + 0.5, lam=2.0, alpha=0.0, observed=random.wald(1, 2, 6))


@case
def transformed_variables(pm: Any) -> None:
    interval = pm.distributions.transforms.Interval(-1, 3)
    a = pm.Normal("a", 0, 1, transform=interval)
    b, c = pm.Uniform("b", -1, 2), pm.Triangular("c", lower=0, c=0.5, upper=2)
    d = pm.TruncatedNormal("d", 0, 1, lower=0.1)
    e = pm.Truncated("e", pm.Gumbel.dist(a, 1), lower=-1, upper=4)
    f, g = pm.Pareto("f", 3, 1), pm.LogitNormal("g", b, 1)
    h = pm.SkewNormal("h", a, 1, 2) + pm.Moyal("m", 0, 1) + pm.Rice("r", 1, 1)
    pm.Cauchy("y", a + b + c + d + e + f + g + h, 1, observed=random.normal(size=7))


@case
def custom_distributions(pm: Any) -> None:
    def logp(value: Any, mu: Any) -> Any:
        return -(pt.abs(value - mu) ** 1.5)

    def dist(mu: Any, size: Any) -> Any:
        return pt.exp(pm.Normal.dist(mu, 1, size=size))

    mu = pm.Normal("mu", 0, 1)
    pm.CustomDist("own", mu, logp=logp, observed=random.normal(size=6))
    pm.CustomDist("graph", mu, dist=dist, observed=random.lognormal(size=6))


@case
def potential_only(pm: Any) -> None:
    x = pm.Flat("x", shape=2)
    pm.Potential("rosenbrock", -((1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2) / 20)


@case
def missing_with_dims(pm: Any) -> None:
    y = np.ma.masked_array(random.normal(size=(4, 3)), mask=random.random((4, 3)) < 0.3)
    model = pm.modelcontext(None)
    model.add_coords({"year": range(4), "place": list("abc")})
    mu = pm.Normal("mu", 0, 1, dims="place")
    with warnings.catch_warnings(action="ignore"):
        pm.Normal("y", mu, pm.HalfNormal("s", 1), observed=y, dims=("year", "place"))


@case
def minibatch(pm: Any) -> None:
    # All rows are the same, so that any batch has the same density.
    x, y = pm.Minibatch(np.full((50, 2), 0.7), np.full(50, 1.2), batch_size=10)
    w = pm.Normal("w", 0, 1, shape=2)
    pm.Normal("y", x @ w, pm.HalfNormal("s", 1), observed=y, total_size=50)


@case
def discrete_changes(pm: Any) -> None:
    change = pm.DiscreteUniform("change", 0, 19)
    early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
    rate = pt.switch(change >= np.arange(20), early, late)
    pm.Poisson("y", rate, observed=random.poisson(2, 20))
    pm.Bernoulli("flip", pm.Beta("p", 2, 2))
    pm.Geometric("wait", 0.3)
