"""Samplers of other libraries, with graphc's log-density of PyMC's models."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest

from graphc.errors import ArgumentError, ModeError
from graphc.interop.pymc import sample
from graphc.interop.pytensor import mode as graphc_mode

pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parents[3]


def conjugate() -> Any:
    """A model whose posterior is known: means 0.8 and 1.6, both of variance 0.2."""
    with pm.Model(coords={"group": ["a", "b"]}) as model:
        seen = pm.Data("seen", [1.0, 2.0], dims="group")
        mu = pm.Normal("mu", dims="group")
        pm.HalfNormal("scale", 2.0)
        pm.Deterministic("twice", 2 * mu, dims="group")
        pm.Normal("y", mu, 0.5, observed=seen, dims="group")
    return model


CASES = [
    pytest.param("nutpie", "NUMPY"),
    pytest.param("nutpie", "JAX", marks=pytest.mark.exhaustive),
    *(pytest.param(name, "JAX", marks=pytest.mark.exhaustive) for name in ("numpyro", "blackjax")),
    pytest.param("pymc", "NUMPY", marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize(("sampler", "mode"), CASES)
def test_a_sampler_finds_the_posterior(sampler: str, mode: str) -> None:
    quiet = {"progressbar": False, "cores": 1} if sampler == "pymc" else {}
    counts = {"draws": 500, "tune": 300, "chains": 4, "random_seed": 1}
    trace = sample(conjugate(), sampler, mode=mode, **counts, **quiet)
    posterior = trace.posterior
    mu = posterior["mu"]
    assert mu.dims == ("chain", "draw", "group")
    assert mu.shape == (4, 500, 2)
    assert mu.coords["group"].values.tolist() == ["a", "b"]
    assert {"mu", "scale", "twice"} == set(posterior.data_vars)
    np.testing.assert_allclose(posterior["twice"], 2 * mu, 1e-12)
    # NUTS draws these almost independently: ten standard errors of 2000 draws and more.
    over = ("chain", "draw")
    np.testing.assert_allclose(mu.mean(over), [0.8, 1.6], atol=0.1)
    np.testing.assert_allclose(mu.std(over), [np.sqrt(0.2)] * 2, atol=0.08)
    np.testing.assert_allclose(posterior["scale"].mean(over), 2 * np.sqrt(2 / np.pi), atol=0.3)
    assert bool((posterior["scale"] > 0).all())
    assert "diverging" in trace.sample_stats
    np.testing.assert_array_equal(trace.observed_data["y"], [1.0, 2.0])


ON_MLX = """
from tests.interop.pymc.test_sample import test_a_sampler_finds_the_posterior
test_a_sampler_finds_the_posterior("nutpie", "MLX")
"""


@pytest.mark.exhaustive
def test_threads_of_nutpie_call_mlx_as_users_have_it() -> None:
    subprocess.run([sys.executable, "-c", ON_MLX], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    "sampler",
    [
        "nutpie",
        *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("numpyro", "blackjax")),
    ],
)
def test_a_seed_gives_the_same_draws(sampler: str) -> None:
    mode = "NUMPY" if sampler == "nutpie" else "JAX"
    few = {"draws": 20, "tune": 30, "chains": 2, "mode": mode}
    first, again, other = (
        sample(conjugate(), sampler, random_seed=seed, **few).posterior["mu"].values
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)
    assert not np.any(first[0] == first[1])


@pytest.mark.exhaustive
def test_one_chain_has_an_axis_too() -> None:
    few = {"draws": 20, "tune": 30, "chains": 1, "random_seed": 1, "mode": "JAX"}
    for sampler in ("nutpie", "numpyro", "blackjax"):
        assert sample(conjugate(), sampler, **few).posterior["mu"].shape == (1, 20, 2)


def test_what_cannot_be_sampled_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match="no sampler 'stan'"):
        sample(conjugate(), "stan")
    with pytest.raises(ModeError, match="numpyro runs on JAX"):
        sample(conjugate(), "numpyro", mode="NUMPY")
    with pm.Model() as discrete:
        pm.Poisson("n", 3)
    with pytest.raises(ArgumentError, match="no gradient: n"):
        sample(discrete)
    with pm.Model() as bad:
        pm.Potential("nowhere", -np.inf * (1 + pm.Normal("x") ** 2))
    with pytest.raises(ArgumentError, match="not finite near the initial point"):
        sample(bad, mode="NUMPY", chains=1)
    for name in ("nutpie", "blackjax"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ModuleNotFoundError, match=f"pip install {name}"):
            sample(conjugate(), name, mode="JAX")


# A mode of PyTensor that a sampler ignores.


def sampled_by(sampler: str, mode: Any) -> None:
    with conjugate():
        few = {"draws": 5, "tune": 5, "chains": 1, "cores": 1, "progressbar": False}
        pm.sample(**few, nuts_sampler=sampler, compile_kwargs={"mode": mode})


@pytest.mark.exhaustive
def test_a_mode_that_a_sampler_ignores_warns() -> None:
    with warnings.catch_warnings(record=True, action="always") as found:
        sampled_by("numpyro", graphc_mode("NUMPY"))
        gc.collect()
    (ours,) = [x for x in found if "Nothing was compiled" in str(x.message)]
    assert ours.filename == __file__


@pytest.mark.exhaustive
def test_a_mode_that_a_sampler_uses_does_not_warn() -> None:
    with warnings.catch_warnings(record=True) as found:
        sampled_by("pymc", graphc_mode("NUMPY"))
        gc.collect()
    assert not [x for x in found if "Nothing was compiled" in str(x.message)]
