"""Predictions of PyMC's models for many draws."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray

from graphc.errors import ArgumentError
from graphc.interop.pymc import predictive

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

rng = np.random.default_rng(0)


def regression() -> Any:
    """A line through points, its slope in two groups."""
    with pm.Model(coords={"group": ["a", "b"], "row": np.arange(4)}) as model:
        x = pm.Data("x", [0.0, 1.0, 2.0, 3.0], dims="row")
        a, b = pm.Normal("a"), pm.Normal("b", dims="group")
        sigma = pm.HalfNormal("sigma")
        mean = pm.Deterministic("mean", a + b[0] * x, dims="row")
        pm.Deterministic("total", pm.math.sum(b))
        y = pm.Normal("y", mean, sigma, observed=np.zeros(4), dims="row")
        pm.Deterministic("above", y > mean, dims="row")
    return model


def drawn(*lead: int) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "a": rng.normal(size=lead),
        "b": rng.normal(size=(*lead, 2)),
        "sigma": np.abs(rng.normal(size=lead)) + 0.1,
    }


def as_dataset(draws: dict[str, np.ndarray[Any, Any]]) -> Any:
    dims = {"a": [], "b": ["group"], "sigma": []}
    return xarray.Dataset(
        {name: (["chain", "draw", *dims[name]], x) for name, x in draws.items()},
        coords={"chain": [0, 1], "draw": np.arange(3), "group": ["a", "b"]},
    )


def test_deterministic_variables_are_those_of_pymc(mode: str) -> None:
    model, draws = regression(), drawn(2, 3)
    found = predictive(model, draws, ["mean", "total"], mode=mode)
    with model:
        expected = pm.compute_deterministics(
            as_dataset(draws), var_names=["mean", "total"], progressbar=False
        )
    for name in ("mean", "total"):
        np.testing.assert_allclose(found[name], expected[name], 1e-12)


def test_each_draw_has_noise_of_its_own(mode: str) -> None:
    model, draws = regression(), drawn(4000)
    found = predictive(model, draws, mode=mode, random_seed=1)
    assert [*found] == ["y", "above"]
    mean = draws["a"][:, None] + draws["b"][:, :1] * np.arange(4.0)
    noise = (found["y"] - mean) / draws["sigma"][:, None]
    np.testing.assert_array_equal(found["above"], found["y"] > mean)
    # Standard normal, independent from draw to draw and from row to row; bounds of six errors.
    assert np.all(np.abs(noise.mean(0)) < 6 / np.sqrt(4000))
    assert np.all(np.abs(noise.std(0) - 1) < 6 / np.sqrt(2 * 4000))
    assert np.all(np.abs(np.corrcoef(noise.T) - np.eye(4)) < 6 / np.sqrt(4000))
    assert np.all(np.abs((noise[1:] * noise[:-1]).mean(0)) < 6 / np.sqrt(4000))


def test_a_seed_gives_the_same_numbers_in_all_modes_and_batches() -> None:
    model, draws = regression(), drawn(2, 5)
    found = predictive(model, draws, ["y"], mode="NUMPY", random_seed=3)["y"]
    again = predictive(model, draws, ["y"], mode="NUMPY", random_seed=3, batch_size=3)["y"]
    by_jax = predictive(model, draws, ["y"], mode="JAX", random_seed=3)["y"]
    other = predictive(model, draws, ["y"], mode="NUMPY", random_seed=4)["y"]
    np.testing.assert_array_equal(found, again)
    np.testing.assert_allclose(found, by_jax, 1e-10)
    assert not np.any(found == other)


def test_results_have_the_dimensions_of_draws_and_model() -> None:
    draws = drawn(2, 3)
    given = as_dataset(draws).transpose("group", "draw", "chain")
    found = predictive(regression(), given, ["mean", "y"], mode="NUMPY", random_seed=1)
    assert found["y"].dims == ("chain", "draw", "row")
    assert found.coords["row"].values.tolist() == [0, 1, 2, 3]
    mean = draws["a"][..., None] + draws["b"][..., :1] * np.arange(4.0)
    np.testing.assert_allclose(found["mean"], mean, 1e-12)


def test_predictions_are_for_the_data_of_now() -> None:
    model, draws = regression(), drawn(2, 3)
    with model:
        pm.set_data({"x": [10.0, 20.0]}, coords={"row": [7, 8]})
    found = predictive(model, as_dataset(draws), ["mean"], mode="NUMPY")
    np.testing.assert_allclose(
        found["mean"], draws["a"][..., None] + draws["b"][..., :1] * [10.0, 20.0], 1e-12
    )
    assert found.coords["row"].values.tolist() == [7, 8]


def test_a_deterministic_variable_stands_for_what_the_draws_lack() -> None:
    model, lead = regression(), (2, 3)
    draws = {"mean": np.tile(np.arange(4.0), (*lead, 1)), "sigma": np.full(lead, 1e-9)}
    found = predictive(model, draws, ["y"], mode="NUMPY", random_seed=1)
    np.testing.assert_allclose(found["y"], draws["mean"], atol=1e-7)
    # Where they lack nothing, it is computed.
    full = {**drawn(*lead), "mean": np.zeros((*lead, 4)), "sigma": np.full(lead, 1e-9)}
    found = predictive(model, full, ["y"], mode="NUMPY", random_seed=1)
    mean = full["a"][..., None] + full["b"][..., :1] * np.arange(4.0)
    np.testing.assert_allclose(found["y"], mean, atol=1e-7)


def test_a_free_variable_that_is_named_is_drawn_from_its_prior() -> None:
    model, draws = regression(), drawn(4000)
    del draws["sigma"]
    with pytest.raises(ArgumentError, match="no values of sigma"):
        predictive(model, draws, ["y"])
    found = predictive(model, draws, ["sigma", "a"], mode="NUMPY", random_seed=1)
    assert abs(found["sigma"].mean() - np.sqrt(2 / np.pi)) < 6 * 0.6 / np.sqrt(4000)
    np.testing.assert_array_equal(found["a"], draws["a"])


def test_what_does_not_fit_is_an_error() -> None:
    model, draws = regression(), drawn(2, 3)
    with pytest.raises(ArgumentError, match="no variable 'z'"):
        predictive(model, draws, ["z"])
    with pytest.raises(ArgumentError, match="no draws are given"):
        predictive(model)
    with pytest.raises(ArgumentError, match="list holds no draws"):
        predictive(model, [1])
    with pytest.raises(ArgumentError, match=r"values of sigma have the shape \(3,\)"):
        predictive(model, {**draws, "sigma": np.ones(3)}, ["y"])
    with pm.Model() as empty:
        pm.Normal("y", observed=1.0)
    with pytest.raises(ArgumentError, match="depend on no variable"):
        predictive(empty, {})


def test_coordinates_that_no_longer_fit_are_left_out_with_a_warning() -> None:
    with pm.Model(coords={"row": [5, 6]}) as model:
        x = pm.Data("x", np.zeros(2), dims="row")
        pm.Deterministic("y", pm.Normal("a") + x, dims="row")
    x.set_value(np.zeros(3))
    draws = xarray.Dataset({"a": (["chain", "draw"], np.zeros((1, 2)))})
    with pytest.warns(UserWarning, match="'row' has 3 elements and 2 coordinates"):
        found = predictive(model, draws, ["y"], mode="NUMPY")
    assert "row" not in found.coords


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["NUMPY", "JAX"])
def test_distributions_are_those_of_pymc(mode: str) -> None:
    with pm.Model() as model:
        p, w = pm.Beta("p", 2, 2), pm.Dirichlet("w", np.ones(2))
        pm.Binomial("count", 10, p, observed=3)
        pm.NormalMixture("mixed", w, [0.0, 4.0], 0.5, observed=np.zeros(3))
        pm.Censored("cut", pm.Normal.dist(p, 1), lower=0, upper=1, observed=0.5)
        pm.GaussianRandomWalk(
            "walk", sigma=0.5, init_dist=pm.Normal.dist(p, 0.1), observed=np.zeros(5)
        )
    n = 3000
    given = xarray.Dataset(
        {
            "p": (["chain", "draw"], np.full((1, n), 0.3)),
            "w": (["chain", "draw", "w_dim_0"], np.tile([0.3, 0.7], (1, n, 1))),
        }
    )
    found = predictive(model, given, mode=mode, random_seed=1)
    with warnings.catch_warnings(action="ignore"), model:
        expected = pm.sample_posterior_predictive(
            given, random_seed=2, progressbar=False
        ).posterior_predictive
    for name in ("count", "mixed", "cut", "walk"):
        x, y = (each[name].values.reshape(n, -1) for each in (found, expected))
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        error = 6 * y.std(0) * np.sqrt(2 / n)
        assert np.all(np.abs(x.mean(0) - y.mean(0)) <= error)
        np.testing.assert_allclose(x.std(0), y.std(0), 0.12)
