"""graphc's graphs in models of PyMC: a volatility that a scan computes, and samplers of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
import pytest
from scipy import stats

import graphc
import graphc.tensor as gt
from graphc.interop.pytensor import mode as graphc_mode, to_pytensor
from tests.interop.pytensor.graphs import recurrence
from tests.interop.pytensor.test_open_failures import Shifted

pytestmark = [
    pytest.mark.exhaustive,  # importing PyMC and sampling take longer than the rest of the folder
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

RETURNS = np.random.default_rng(0).normal(size=30)


def by_pytensor(r: Any, a: Any, b: Any, w: Any) -> Any:
    variance = recurrence(
        lambda square, s, a, b, w: w + a * square + b * s,
        r[:-1] ** 2,
        pt.ones(()),
        non_sequences=[a, b, w],
    )
    return -0.5 * (r[1:] ** 2 / variance + pt.log(2 * np.pi * variance)).sum()


def by_graphc(mode: str) -> Callable[..., Any]:
    r, a, b, w = gt.vector("r"), *gt.scalars("a", "b", "w")
    variance = graphc.scan(lambda r, s: w + a * r**2 + b * s, r[:-1], gt.ones(()))
    density = -0.5 * (r[1:] ** 2 / variance + gt.log(2 * np.pi * variance)).sum()

    def likelihood(*given: Any) -> Any:
        return to_pytensor(density, dict(zip([r, a, b, w], given, strict=True)), mode=mode)

    return likelihood


def garch(likelihood: Callable[..., Any]) -> Any:
    import pymc as pm  # noqa: PLC0415

    with pm.Model() as model:
        r = pm.Data("r", RETURNS)
        a, b = pm.Uniform("a", 0, 0.5), pm.Uniform("b", 0, 0.5)
        pm.Potential("likelihood", likelihood(r, a, b, pm.HalfNormal("w", 1)))
    return model


def density(model: Any, mode: Any = None) -> Any:
    f = model.logp_dlogp_function(ravel_inputs=True, mode=mode)
    f.set_extra_values({})
    return f


def test_the_log_density_and_its_gradient_are_those_of_pytensors_scan(mode: str) -> None:
    model = garch(by_graphc(mode))
    wanted = density(garch(by_pytensor))
    linkers = [None, "JAX", graphc_mode("JAX")] if mode == "JAX" else [None]
    functions = [density(model, linker) for linker in linkers]
    for point in np.random.default_rng(1).normal(size=(3, 3)):
        for f in functions:
            for one, other in zip(f(point), wanted(point), strict=True):
                np.testing.assert_allclose(one, other, 1e-9, 1e-9)


def test_other_data_of_a_model_are_followed() -> None:
    import pymc as pm  # noqa: PLC0415

    models = garch(by_graphc("NUMPY")), garch(by_pytensor)
    functions = [density(model) for model in models]
    for model in models:
        with model:
            pm.set_data({"r": RETURNS[:12] * 2})
    found, wanted = (f(np.zeros(3)) for f in functions)
    np.testing.assert_allclose(found[1], wanted[1], 1e-9)


def test_a_distribution_of_ones_own_has_its_density() -> None:
    import pymc as pm  # noqa: PLC0415

    value, rate = gt.vector("value"), gt.tensor("rate", shape=(1,))
    own = gt.log(rate) - rate * value  # PyMC gives parameters the rank of values

    def logp(x: Any, given: Any) -> Any:
        return to_pytensor(own, {value: x, rate: given}, mode="NUMPY")

    with pm.Model() as model:
        found = pm.CustomDist("x", pm.HalfNormal("rate"), logp=logp, observed=[0.5, 1.5])
    density = model.compile_logp(vars=found)({"rate_log__": np.log(2.0)})
    np.testing.assert_allclose(density, 2 * np.log(2) - 4, 1e-12)


@pytest.mark.parametrize("sampler", ["pymc", "numpyro", "nutpie"])
def test_pymc_samples_it(sampler: str) -> None:
    import pymc as pm  # noqa: PLC0415

    options: dict[str, Any] = {
        "pymc": {"cores": 2, "mp_ctx": "forkserver"},
        "numpyro": {"nuts_sampler_kwargs": {"chain_method": "vectorized"}},
        "nutpie": {"cores": 1},
    }[sampler]
    with garch(by_graphc("JAX")), warnings.catch_warnings(action="ignore"):
        found = pm.sample(
            draws=100,
            tune=100,
            chains=2,
            nuts_sampler=sampler,
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
            **options,
        )
    draws = found.posterior["a"].values
    assert draws.shape == (2, 100)
    assert 0.1 < draws.mean() < 0.4
    assert draws.std() > 0.02


@pytest.mark.filterwarnings("ignore:.* has no converter")
def test_a_truncated_random_variable_of_another_package_is_drawn_in_a_loop(mode: str) -> None:
    import pymc as pm  # noqa: PLC0415

    y = pm.Truncated.dist(Shifted()(0.0, 2.0), lower=6.5, upper=8.0, size=(501,))
    draws = pm.draw(y, mode=graphc_mode(mode), random_seed=1)
    assert stats.kstest(draws, stats.uniform(6.5, 1.5).cdf).pvalue > 1e-3
