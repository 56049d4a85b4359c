"""PyMC models' log-densities and gradients on every backend."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.interop.pytensor import from_pytensor
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
