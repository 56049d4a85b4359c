"""PyMC models' log-densities and gradients on every backend."""

from __future__ import annotations

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
