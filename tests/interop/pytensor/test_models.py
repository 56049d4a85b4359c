"""PyMC models' log-densities and gradients on every backend."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.interop.pytensor import from_pytensor, mode as graphc_mode
from tests.interop.pytensor.oracle import PYTHON, REWRITTEN, check, computed
from tests.interop.pytensor.seeds import MODES
from tests.interop.pytensor.zoo import ZOO

pytestmark = pytest.mark.filterwarnings("ignore")  # PyMC uses what PyTensor and NumPy deprecate

FEW = {"kalman_filter", "hilbert_space_process", "missing_with_dims"}
"""What ``make test`` runs; importing PyMC takes longer than each of them."""

RUNS = [
    pytest.param(name, mode, marks=[] if name in FEW and at == i % 3 else [pytest.mark.exhaustive])
    for i, name in enumerate(ZOO)
    for at, mode in enumerate(MODES)
    if name in FEW or mode == "JAX" or at == i % 3
]
"""All models on JAX, a few on every backend, and each other one in three on another one."""

CURVED = (
    "eight_schools",
    "varying_slopes",
    "negative_binomial_regression",
    "garch",
    "item_response",
)
"""Models whose second derivatives are compared; on MLX, which takes minutes, the first alone."""

UNREWRITTEN_FAILS = {"neighbours"}
"""Models that PyTensor's Python code runs only after PyTensor has rewritten them."""


@functools.cache
def compared(name: str) -> tuple[Any, list[Any], list[Any]]:
    """A model, values of its variables, and its density and gradient as PyTensor computes them."""
    model = ZOO[name]()
    start = model.initial_point(random_seed=0)
    values = [np.asarray(start[x.name]) for x in model.value_vars]
    values = [x + 0.1 if x.dtype.kind == "f" else x for x in values]
    python = REWRITTEN if name in UNREWRITTEN_FAILS else PYTHON
    outputs = outputs_of(model, name in CURVED)
    expected = computed(model.value_vars, outputs, values, python)
    assert all(np.isfinite(x).all() for x in expected)
    return model, values, expected


def outputs_of(model: Any, curved: bool) -> list[Any]:
    """The log-density, its gradient, and on request its second derivative."""
    return [model.logp(), model.dlogp(), *([model.d2logp()] if curved else [])]


@pytest.mark.whole
@pytest.mark.parametrize(("name", "mode"), RUNS)
def test_a_models_log_density_and_gradient_are_pytensors(name: str, mode: str) -> None:
    model, values, expected = compared(name)
    outputs = outputs_of(model, name in (CURVED[:1] if mode == "MLX" else CURVED))
    check(model.value_vars, outputs, values, mode, expected[: len(outputs)])


@pytest.mark.exhaustive
@pytest.mark.whole
@pytest.mark.parametrize("name", [*ZOO][::3])
def test_graphcs_gradient_of_a_models_log_density_is_pytensors(name: str) -> None:
    model, values, (_, expected, *_) = compared(name)
    ins, logp = from_pytensor([list(model.value_vars), model.logp()])
    wrt = [x for x in ins if x.dtype == "float64"]
    own = gt.concatenate([g.ravel() for g in graphc.grad(logp, wrt)])
    found = graphc.function(ins, own, mode="NUMPY", returns="numpy")(*values)
    np.testing.assert_allclose(found, expected, 1e-10, 1e-10)


@pytest.mark.exhaustive
def test_pymc_samples_and_predicts_in_a_mode_of_graphc() -> None:
    import pymc as pm  # noqa: PLC0415

    jax = {"mode": graphc_mode("JAX")}
    options = {"progressbar": False, "random_seed": 1, "compile_kwargs": jax}
    with warnings.catch_warnings(action="ignore"), ZOO["eight_schools"]():
        prior = pm.sample_prior_predictive(500, random_seed=1, compile_kwargs=jax)
        trace = pm.sample(200, tune=200, chains=1, cores=1, **options)
        again = pm.sample(200, tune=200, chains=1, cores=1, **options)
        predicted = pm.sample_posterior_predictive(trace, **options)
    assert abs(float(prior.prior["mu"].std()) - 5) < 0.7
    assert abs(float(trace.posterior["mu"].mean()) - 4.4) < 2
    np.testing.assert_array_equal(trace.posterior["theta"], again.posterior["theta"])
    assert predicted.posterior_predictive["y"].shape == (1, 200, 8)
