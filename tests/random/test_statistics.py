"""Draws have the distributions that they are named after, and are the same on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

import graphc
import graphc.tensor as gt
from graphc.link import names
from graphc.random.generator import DISTRIBUTIONS
from tests.modes import uncompiled
from tests.random.distributions import DISCRETE, FLOATING, VECTORS

N = 10_000
"""How many draws of each set of parameters."""

UNLIKELY = 1e-4
"""Keys are fixed: what is as unlikely as that is taken for wrong."""

SIGMAS = 5
"""So many standard errors off is as unlikely."""

OTHERS = [name for name in names() if name != "NUMPY"]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Many graphs of one line are meant to be compiled, and SciPy's infinities are well-known."""
    with graphc.config.change_flags(recompile="ignore"), np.errstate(all="ignore"):
        yield


@cache
def drawn(name: str, mode: str, dtypes: tuple[str, ...] = ("float64", "float32")) -> list[Any]:
    """Draws of all sets of parameters, in rows, of both dtypes."""
    row = (FLOATING | DISCRETE)[name]
    size = (len(row.parameters), N)
    outputs = []
    for seed, dtype in enumerate(dtypes):
        more = {"dtype": dtype} if name in FLOATING else {}
        key = gt.random.key(seed + 100)
        draw = DISTRIBUTIONS[name](*row.arguments(dtype), size=size, rng=key, **more)
        assert draw.type.shape == size
        assert draw.dtype == (dtype if name in FLOATING else "int64")
        outputs.append(draw)
    f = graphc.function([], outputs, mode=uncompiled(mode), returns="numpy")
    return list(f())


def test_each_distribution_is_tested() -> None:
    others = {"integers", "choice", "permutation"}
    assert {*FLOATING, *DISCRETE, *VECTORS} | others == {*DISTRIBUTIONS} - {"negative_binomial"}
    assert gt.random.negative_binomial is gt.random.nbinom


@pytest.mark.parametrize("name", FLOATING)
def test_floating_draws_pass_the_test_of_kolmogorov_and_smirnov(name: str) -> None:
    for draws in drawn(name, "NUMPY"):
        for x, own in zip(draws, FLOATING[name].counterparts(), strict=True):
            x = x.astype("float64")
            if name == "vonmises":
                assert (abs(x) <= np.float32(np.pi)).all()
                middle = own.kwds["loc"]
                x = (x - middle + np.pi) % (2 * np.pi) - np.pi + middle
            assert stats.kstest(x, own.cdf).pvalue > UNLIKELY
            check_no_order(x)
            if name != "vonmises":  # of angles, SciPy integrates them for seconds
                check_moments(x, own)


def check_moments(x: np.ndarray, own: Any) -> None:
    """The mean and the variance are SciPy's, where they and their errors are finite."""
    mean, variance, _, excess = own.stats("mvsk")
    if np.isfinite(variance):
        assert abs(x.mean() - mean) <= SIGMAS * np.sqrt(variance / x.size)
    if np.isfinite(excess) and variance > 0:
        assert abs(x.var() / variance - 1) <= SIGMAS * np.sqrt((excess + 2) / x.size) + 1 / x.size


def check_no_order(x: np.ndarray) -> None:
    """A draw does not tell the next one."""
    ranks = stats.rankdata(x)
    if np.ptp(ranks):
        assert abs(np.corrcoef(ranks[1:], ranks[:-1])[0, 1]) <= SIGMAS / np.sqrt(x.size)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", DISCRETE)
def test_integer_draws_pass_the_test_of_chi_square(name: str) -> None:
    for draws in drawn(name, "NUMPY"):
        for x, own in zip(draws, DISCRETE[name].counterparts(), strict=True):
            assert chi_square(x, own.cdf) > UNLIKELY
            if own.var() > 1e-3:
                check_moments(x, own)
                check_no_order(x)


LEAST = 10
"""How many draws are expected in each of the classes that are counted."""


def chi_square(x: np.ndarray, cdf: Any) -> float:
    """How likely such counts are: of numbers, or of classes of neighbours where there are many."""
    low, high = int(x.min()), int(x.max())
    ends = np.unique(np.linspace(low - 1, high, min(high - low + 2, 200)).astype(int))
    below = cdf(ends)
    # Each class has enough expected draws; the outer ones take all beyond.
    kept = [-np.inf]
    last = 0.0
    for end, share in zip(ends, below, strict=True):
        if (share - last) * x.size >= LEAST and (1 - share) * x.size >= LEAST:
            kept.append(end)
            last = share
    edges = np.array([*kept, np.inf])
    expected = np.diff(np.array([0.0, *cdf(edges[1:-1]), 1.0])) * x.size
    counts = np.array([((x > a) & (x <= b)).sum() for a, b in pairwise(edges)])
    if len(counts) == 1:
        assert cdf(high) - cdf(low - 1) > 1 - 1 / x.size
        return 1.0
    return float(stats.chisquare(counts, expected).pvalue)


@pytest.mark.sample(every=6)
@pytest.mark.parametrize("name", [*FLOATING, *DISCRETE])
@pytest.mark.parametrize("mode", OTHERS)
def test_draws_are_the_same_on_every_backend(mode: str, name: str) -> None:
    # JAX compiles for a second: of one dtype alone.
    dtypes = ("float64",) if mode == "JAX" else ("float64", "float32")
    pairs = zip(dtypes, drawn(name, "NUMPY"), drawn(name, mode, dtypes), strict=False)
    for dtype, x, y in pairs:
        assert x.dtype == y.dtype
        if name in DISCRETE:
            # What is accepted hangs by the last digit once in a while, of which float32 has few.
            assert (x != y).sum() <= (0 if dtype == "float64" else x.size / 10_000)
        else:
            rounding = {8: 1e-9, 4: 2e-5}[x.itemsize]
            np.testing.assert_allclose(x, y, rounding, rounding * np.median(abs(x)))


# Vectors, orders and choices.


def key(seed: int = 7) -> Any:
    return gt.random.key(seed)


def values(*draws: Any) -> list[np.ndarray]:
    """The draws on all backends, which must be the same."""
    found = {
        mode: graphc.function([], list(draws), mode=uncompiled(mode), returns="numpy")()
        for mode in names()
    }
    for others in found.values():
        for x, y in zip(found["NUMPY"], others, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x, y, 1e-9, 1e-9)
    return found["NUMPY"]


@pytest.mark.exhaustive
def test_counts_of_outcomes_are_binomial_each_and_as_many_as_trials() -> None:
    p = np.array([0.1, 0.0, 0.6, 0.3])
    (few,) = values(gt.random.multinomial(7, p, size=N, rng=key()))
    batch = gt.random.multinomial([[2000], [50]], 3 * p, size=(2, N), rng=key())
    many = batch.eval(mode="NUMPY")
    for x, n in ((few, 7), (many[0], 2000), (many[1], 50)):
        assert (x.sum(-1) == n).all()
        for i, own in enumerate(p):
            assert chi_square(x[:, i], stats.binom(n, own).cdf) > UNLIKELY
        covariance = np.cov(x.T)
        expected = stats.multinomial(n, p).cov()
        assert np.abs(covariance - expected).max() <= SIGMAS * n * 0.25 / np.sqrt(N)


def test_outcomes_come_as_often_as_their_probability_says() -> None:
    p = np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
    whole, scaled = values(
        gt.random.categorical(p[:, None, :], size=(3, N), rng=key()),
        gt.random.categorical(np.float32([2.0, 6.0]), size=N, rng=key()),
    )
    for x, own in zip([*whole, scaled], [*p, np.array([0.25, 0.75])], strict=True):
        counts = np.bincount(x, minlength=len(own))
        possible = own > 0
        assert not counts[~possible].any()
        if possible.sum() > 1:
            assert stats.chisquare(counts[possible], own[possible] * N).pvalue > UNLIKELY


def test_shares_of_a_whole_are_of_the_beta_distribution_each() -> None:
    alphas = np.array([[0.3, 2.0, 5.0], [40.0, 1.0, 0.05]])
    (whole,) = values(gt.random.dirichlet(alphas[:, None, :], size=(2, N), rng=key()))
    for x, own in zip(whole, alphas, strict=True):
        np.testing.assert_allclose(x.sum(-1), 1)
        for i, a in enumerate(own):
            assert stats.kstest(x[:, i], stats.beta(a, own.sum() - a).cdf).pvalue > UNLIKELY
        assert np.abs(np.cov(x.T) - stats.dirichlet(own).cov()).max() <= SIGMAS / np.sqrt(N) / 4


@pytest.mark.parametrize("method", ["cholesky", "svd", "eigh"])
def test_normal_vectors_have_their_mean_and_covariance(method: str) -> None:
    mean = np.array([1.0, -2.0, 0.5])
    root = np.array([[2.0, 0.0, 0.0], [0.5, 1.0, 0.0], [-1.0, 0.3, 0.2]])
    covariance = root @ root.T
    (x,) = values(gt.random.multivariate_normal(mean, covariance, size=N, method=method, rng=key()))
    white = np.linalg.solve(root, (x - mean).T)
    for row in white:
        assert stats.kstest(row, stats.norm.cdf).pvalue > UNLIKELY
    assert stats.kstest((white**2).sum(0), stats.chi2(3).cdf).pvalue > UNLIKELY
    assert np.abs(np.cov(white) - np.eye(3)).max() <= SIGMAS * np.sqrt(2 / N)


def test_integers_are_equally_likely() -> None:
    die, signed, large = values(
        gt.random.integers(1, 7, size=N, rng=key()),
        gt.random.integers([[-3], [100]], [[4], [103]], size=(2, N), rng=key(), dtype="int8"),
        gt.random.integers(-(2**62), 2**62, size=N, rng=key()),
    )
    for x, low, high in ((die, 1, 7), (signed[0], -3, 4), (signed[1], 100, 103)):
        assert chi_square(x, stats.randint(low, high).cdf) > UNLIKELY
    assert stats.kstest(large / 2**62, stats.uniform(-1, 2).cdf).pvalue > UNLIKELY


def test_all_orders_are_equally_likely() -> None:
    places, pairs = values(
        gt.random.permutation(4, size=N, rng=key()),
        gt.random.permutation(np.array([[1.0, 2.0], [3.0, 4.0]]), size=(5, 7), rng=key(), axis=1),
    )
    assert (np.sort(places, -1) == np.arange(4)).all()
    counts = np.unique(places @ [64, 16, 4, 1], return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > UNLIKELY
    assert pairs.shape == (5, 7, 2, 2)
    assert (np.sort(pairs, -1) == [[1, 2], [3, 4]]).all()


def test_what_is_chosen_again_comes_as_often_as_it_is_likely() -> None:
    p = np.array([0.1, 0.2, 0.0, 0.7])
    equal, weighted = values(
        gt.random.choice(5, N, rng=key()), gt.random.choice([3, 5, 7, 11], N, p=p, rng=key())
    )
    assert stats.chisquare(np.bincount(equal)).pvalue > UNLIKELY
    counts = np.array([(weighted == x).sum() for x in (3, 5, 7, 11)])
    assert counts[2] == 0
    assert stats.chisquare(counts[p > 0], p[p > 0] * N).pvalue > UNLIKELY


def test_what_is_not_chosen_again_is_drawn_in_turn() -> None:
    p = np.array([0.1, 0.2, 0.3, 0.4])
    keys = gt.random.split(key(), N)
    two = graphc.vectorize(signature="(2)->(n)")(
        lambda key: gt.random.choice(4, 2, replace=False, p=p, rng=key)
    )
    (x,) = values(two(keys))
    assert (x[:, 0] != x[:, 1]).all()
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    counts = [(x == pair).all(-1).sum() for pair in pairs]
    expected = [p[i] * p[j] / (1 - p[i]) * N for i, j in pairs]
    assert stats.chisquare(counts, expected).pvalue > UNLIKELY
