"""PyMC models' log-densities and gradients on every backend."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.interop.pytensor import from_pytensor, mode as graphc_mode
from tests.interop.pytensor.models import MODELS
from tests.interop.pytensor.oracle import check

pytestmark = pytest.mark.exhaustive  # importing PyMC takes longer than the rest of the folder


@pytest.mark.parametrize("name", MODELS)
def test_a_models_log_density_and_gradient_are_pytensors(name: str, mode: str) -> None:
    model = MODELS[name]()
    start = model.initial_point(random_seed=0)
    values = [np.asarray(start[x.name]) + 0.1 for x in model.value_vars]
    check(model.value_vars, [model.logp(), model.dlogp()], values, mode)


@pytest.mark.parametrize("name", MODELS)
def test_graphcs_gradient_of_a_models_log_density_is_pytensors(name: str) -> None:
    model = MODELS[name]()
    start = model.initial_point(random_seed=0)
    values = [np.asarray(start[x.name]) + 0.1 for x in model.value_vars]
    ins, logp, expected = from_pytensor([list(model.value_vars), model.logp(), model.dlogp()])
    own = gt.concatenate([g.ravel() for g in graphc.grad(logp, ins)])
    found, wanted = graphc.function(ins, [own, expected], mode="NUMPY", returns="numpy")(*values)
    np.testing.assert_allclose(found, wanted, 1e-10, 1e-10)


DRAWS: dict[str, dict[str, float]] = {
    "TruncatedNormal": {"mu": 0.5, "sigma": 1.0, "lower": -0.5, "upper": 2.0},
    "Wald": {"mu": 1.0, "lam": 2.0, "alpha": 0.5},
    "DiscreteUniform": {"lower": 2, "upper": 6},
    "Beta": {"alpha": 2.0, "beta": 3.0},
    "SkewNormal": {"mu": 0.5, "sigma": 1.5, "alpha": 2.0},
    "Rice": {"nu": 1.0, "sigma": 1.5},
    "Moyal": {"mu": 0.5, "sigma": 0.5},
    "ExGaussian": {"mu": 0.0, "sigma": 1.0, "nu": 1.0},
    "Kumaraswamy": {"a": 2.0, "b": 3.0},
    "ZeroInflatedPoisson": {"psi": 0.4, "mu": 3.0},
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_of_pymcs_distributions_have_their_moments(name: str) -> None:
    import pymc as pm  # noqa: PLC0415

    x = getattr(pm, name).dist(**DRAWS[name], shape=(40_000,))
    with warnings.catch_warnings(action="ignore"):
        y = from_pytensor(x)
    found = graphc.function([], y, mode="NUMPY", returns="numpy")()
    wanted = pm.draw(x, random_seed=1)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert abs(found.mean() - wanted.mean()) < 0.04 * wanted.std()
    assert abs(found.std() / wanted.std() - 1) < 0.05


def test_pymc_samples_and_predicts_in_a_mode_of_graphc() -> None:
    import pymc as pm  # noqa: PLC0415

    jax = {"mode": graphc_mode("JAX")}
    options = {"progressbar": False, "random_seed": 1, "compile_kwargs": jax}
    with warnings.catch_warnings(action="ignore"), MODELS["eight_schools"]():
        prior = pm.sample_prior_predictive(500, random_seed=1, compile_kwargs=jax)
        trace = pm.sample(200, tune=200, chains=1, cores=1, **options)
        again = pm.sample(200, tune=200, chains=1, cores=1, **options)
        predicted = pm.sample_posterior_predictive(trace, **options)
    assert abs(float(prior.prior["mu"].std()) - 5) < 0.7
    assert abs(float(trace.posterior["mu"].mean()) - 4.4) < 2
    np.testing.assert_array_equal(trace.posterior["theta"], again.posterior["theta"])
    assert predicted.posterior_predictive["y"].shape == (1, 200, 8)
