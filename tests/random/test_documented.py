"""The densities, moments and supports that docstrings of distributions state are true."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from densities import distribution
from scipy import stats

import graphc
import graphc.tensor as gt
from graphc.random.generator import DISTRIBUTIONS
from tests.random.distributions import DISCRETE, FLOATING
from tests.reference import evaluate

ROWS = FLOATING | DISCRETE
HIGH = {"poisson": 60, "betabinom": 100, "binomial": 1000, "hypergeometric": 1000, "truncnorm": 5}
"""Of parameters above these, the plain formulas overflow or cancel."""


def sets(name: str) -> Any:
    """The parameters by name, and SciPy's distribution for each set of them."""
    letters = [*inspect.signature(DISTRIBUTIONS[name]).parameters]
    for values, theirs in zip(ROWS[name].parameters, ROWS[name].counterparts(), strict=True):
        if max(values, default=0) <= HIGH.get(name, 1e9):
            known = dict(zip(letters, map(float, values), strict=False))
            if name == "gamma":
                known["scale"] = 1 / known.pop("rate")
            yield known, theirs


@pytest.mark.parametrize("name", ROWS)
def test_a_stated_density_is_scipys(name: str) -> None:
    stated = distribution(name)
    for known, theirs in sets(name):
        with np.errstate(divide="ignore"):  # of a geometric distribution that is certain
            x = theirs.ppf(np.linspace(0.01, 0.99, 9))
        if name in DISCRETE:
            x, wanted = np.unique(x), theirs.pmf
        else:
            # Beyond the ends too.
            x, wanted = np.append(x, theirs.support() + np.array([-0.5, 0.5])), theirs.pdf
            x = x[np.isfinite(x)] if name != "vonmises" else x[:9][np.abs(x[:9]) <= np.pi]
        np.testing.assert_allclose(stated.density(x, known), wanted(x), 1e-9, 1e-300)


@pytest.mark.parametrize("name", ROWS)
def test_a_stated_mean_and_variance_are_scipys(name: str) -> None:
    stated = distribution(name)
    if name == "vonmises":
        assert {"mean direction", "circular variance"} <= {*stated.lines}
        return
    for known, theirs in sets(name):
        # Infinite ends stand for ones so far away that nothing is left beyond.
        near = {letter: np.clip(value, -40, None) for letter, value in known.items()}
        for title in ("mean", "variance"):
            found = stated.moment(title, near if name == "truncnorm" else known)
            with np.errstate(all="ignore"):  # SciPy's unused higher moments
                wanted = theirs.stats("m" if title == "mean" else "v")
            if found is None:
                assert not np.isfinite(wanted)
            else:
                np.testing.assert_allclose(found, wanted, 1e-6, 1e-12)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", ROWS)
def test_draws_lie_where_the_docstring_says(name: str) -> None:
    stated = distribution(name)
    for known, _ in sets(name):
        draws = DISTRIBUTIONS[name](**known, size=200, rng=gt.random.key(0)).eval(mode="NUMPY")
        assert np.all(stated.holds(draws, known))


def test_vectors_have_stated_densities() -> None:
    x, alphas = np.array([0.2, 0.3, 0.5]), np.array([1.5, 2.0, 4.0])
    found = distribution("dirichlet")
    np.testing.assert_allclose(
        found.formula({"x": x, "alphas": alphas}), stats.dirichlet(alphas).pdf(x)
    )
    np.testing.assert_allclose(
        found.moment("variance", {"alphas": alphas}), stats.dirichlet(alphas).var()
    )
    k, p = np.array([2, 3, 4]), np.array([0.2, 0.3, 0.5])
    found = distribution("multinomial")
    np.testing.assert_allclose(
        found.formula({"k": k, "p": p, "n": 9}), stats.multinomial(9, p).pmf(k)
    )
    mean, cov = np.array([1.0, 2.0, 3.0]), np.array([[2, 1, 0], [1, 3, 0], [0, 0, 1.0]])
    found = distribution("multivariate_normal")
    np.testing.assert_allclose(
        found.formula({"x": x, "mean": mean, "cov": cov}),
        stats.multivariate_normal(mean, cov).pdf(x),
    )


@pytest.mark.parametrize("name", FLOATING)
def test_draws_are_differentiable_in_what_the_docstring_says(name: str) -> None:
    text = " ".join((inspect.getdoc(DISTRIBUTIONS[name]) or "").split())
    for known, _ in [*sets(name)][:1]:
        xs = {letter: gt.dscalar(letter) for letter in known}
        y = DISTRIBUTIONS[name](**xs, size=50, rng=gt.random.key(0))
        for letter, x in xs.items():
            said = text.partition("- draws are differentiable in ")[2].partition(" Example:")[0]
            assert letter in said or "all parameters" in said
            slope = graphc.grad(y.sum(), x)
            (found,) = evaluate([slope], {xs[key]: value for key, value in known.items()})
            assert np.isfinite(found)
            assert found != 0
