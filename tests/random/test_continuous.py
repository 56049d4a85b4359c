"""Draws of floating numbers: their ends, their gradients, batches of them, and loops with them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, GradientError
from graphc.link import names
from graphc.random.gamma_family import gammas, log_gammas
from graphc.random.gaussian import normals
from graphc.random.keys import child, key_of
from graphc.random.uniform import uniforms
from tests.modes import uncompiled
from tests.reference import evaluate

BACKENDS = names()
R = gt.random
DRAWS = {
    "uniform": lambda a, **k: R.uniform(-a, 1 + a, **k),
    "normal": lambda a, **k: R.normal(a, a, **k),
    "weibull": R.weibull,
    "truncnorm": lambda a, **k: R.truncnorm(-a, 2 * a, **k),
    "gamma": R.gamma,
    "beta": lambda a, **k: R.beta(a, 2 * a, **k),
    "dirichlet": lambda a, **k: R.dirichlet(gt.stack([a, 2 * a, 3 + a], -1), **k),
    "t": R.t,
    "wald": lambda a, **k: R.wald(a, 2.0, **k),
    "vonmises": lambda a, **k: R.vonmises(a, 2 * a, **k),
}


# Ends.


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_stay_between_their_ends(backend: str, dtype: str) -> None:
    more = {"size": 3000, "dtype": dtype, "rng": R.key(3)}
    rows = {
        "uniform": (R.uniform(**more), 0, 1),
        "uniform around 0": (R.uniform(-1e-3, 1e-3, **more), -1e-3, 1e-3),
        "truncnorm": (R.truncnorm(-0.5, 0.25, **more), -0.5, 0.25),
        "truncexpon": (R.truncexpon(0.5, 1.0, 2.0, **more), 1, 2),
        "triangular": (R.triangular(-1.0, 0.0, 2.0, **more), -1, 2),
        "vonmises": (R.vonmises(3.0, 0.5, **more), -np.pi, np.pi),
        "halfcauchy": (R.halfcauchy(2.0, **more), 2, np.inf),
        "rayleigh": (R.rayleigh(**more), 0, 10),
        "beta": (R.beta(0.05, 0.05, **more), 0, 1),
    }
    draws = {name: y for name, (y, _, _) in rows.items()}
    found = graphc.function([], draws, uncompiled(backend), returns="numpy")()
    for name, (_, low, high) in rows.items():
        y = found[name]
        assert y.dtype.name == dtype, name
        # The ends are rounded, too.
        slack = 2.0**-6 if dtype != "float32" else 1e-6
        wide = y.astype(np.float64)
        assert np.all(wide >= low - slack * abs(low)), (name, wide.min())
        assert np.all(wide <= high + slack * abs(high)), (name, wide.max())
    assert np.all(found["uniform"].astype(np.float64) < 1)


@pytest.mark.exhaustive
@pytest.mark.sample(every=3)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_tails_of_a_normal_distribution_keep_their_digits(backend: str) -> None:
    ends = [(8.0, 9.0), (30.0, np.inf), (-np.inf, -12.0), (-40.0, -38.0)]
    key = R.key(0)
    y = gt.stack([R.truncnorm(a, b, size=2000, rng=key) for a, b in ends])
    narrow = gt.stack([R.truncnorm(a, b, size=2000, rng=key, dtype="float32") for a, b in ends])
    f = graphc.function([], [y, narrow], uncompiled(backend), returns="numpy")
    for found in f():
        for row, (a, b) in zip(found, ends, strict=True):
            assert stats.kstest(row.astype(float), stats.truncnorm(a, b).cdf).pvalue > 1e-3
            assert len({*row.tolist()}) > 1500


@pytest.mark.exhaustive
@pytest.mark.sample(every=3)
@pytest.mark.parametrize("backend", BACKENDS)
def test_small_shapes_of_gamma_numbers_are_told_apart_by_logarithms(backend: str) -> None:
    a = np.array([1e-6, 1e-3, 0.05], "float32")
    y = log_gammas(R.key(1), (4000, 3), "float32", gt.as_tensor(a))
    z = R.beta(gt.as_tensor(a), gt.as_tensor(a), size=(4000, 3), rng=R.key(2))
    f = graphc.function([], [y, z], uncompiled(backend), returns="numpy")
    y, z = f()
    assert np.all(np.isfinite(y))
    assert np.all(np.isfinite(z))
    for row, shape in zip(y.T, a, strict=True):
        # Next to 0, P(a, x) is x**a / gamma(a + 1).
        share = np.exp(np.minimum(shape * row.astype(float) - special.gammaln(shape + 1), 0))
        low = row < -20
        assert stats.kstest(share[low], stats.uniform(0, share[low].max()).cdf).pvalue > 1e-3


SCALED = (
    R.normal, R.exponential, R.rayleigh, R.gumbel, R.laplace, R.logistic, R.cauchy, R.halfcauchy,
    partial(R.gamma, 2.0), partial(R.invgamma, 2.0), partial(R.t, 3.0), partial(R.pareto, 2.0),
    partial(R.truncexpon, 2.0), partial(R.truncnorm, -1.0, 1.0),
)  # fmt: skip
"""Distributions with a scale."""


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_parameters_out_of_range_comes_nan_and_no_endless_loop(backend: str) -> None:
    bad = gt.as_tensor([np.nan, -1.0])
    key = R.key(0)
    draws = [R.gamma(bad, rng=key), R.vonmises(0.0, bad, rng=key), R.t(bad, rng=key)]
    draws += [draw(scale=bad, rng=key) for draw in SCALED]
    draws += [
        R.lognormal(0.0, bad, rng=key),
        R.halfnormal(0.0, bad, rng=key),
        R.weibull(bad, rng=key),
        R.pareto(bad, rng=key),
        R.truncexpon(bad, rng=key),
        R.uniform(0.0, bad, rng=key),
        R.truncnorm(0.0, bad, rng=key),
        R.triangular(0.0, bad, 2.0, rng=key),
        R.triangular(-2.0, -0.5, bad, rng=key),
    ]
    f = graphc.function([], draws, uncompiled(backend), returns="numpy")
    for y in f():
        assert np.all(np.isnan(y))


def test_of_a_rate_and_a_scale_one_is_given() -> None:
    with pytest.raises(ArgumentError, match="rate and a scale"):
        R.gamma(1.0, 2.0, 3.0)
    key = R.key(0)
    y, z = evaluate([R.gamma(2.0, rate=4.0, rng=key), R.gamma(2.0, scale=0.25, rng=key)], {})
    assert y == z


# Gradients.


def test_gradients_forwards_and_backwards_agree() -> None:
    a = gt.dvector("a")
    outputs = []
    for draw in DRAWS.values():
        y = draw(gt.specify_shape(a, (3,)), size=(4, 3), rng=R.key(5))
        cost = (np.random.default_rng(0).normal(size=y.type.shape) * y).sum()
        tangent = np.array([0.5, -1.0, 2.0])
        outputs.append((graphc.grad(cost, a) * tangent).sum())
        outputs.append(graphc.pushforward(cost, a, gt.as_tensor(tangent)))
    f = graphc.function([a], outputs, "NUMPY")
    found = f(np.array([0.4, 1.5, 3.0]))
    np.testing.assert_allclose(found[::2], found[1::2], 1e-9)


def test_a_second_derivative_by_a_scale_is_there_and_one_by_a_shape_is_an_error() -> None:
    a, scale = gt.dscalars("a", "scale")
    y = R.gamma(a, scale=gt.exp(scale), rng=R.key(0))
    (second,) = evaluate([graphc.hessian(y, scale)], {a: 2.0, scale: 0.5})
    (first,) = evaluate([y], {a: 2.0, scale: 0.5})
    np.testing.assert_allclose(second, first)
    with pytest.raises(GradientError, match="log_gamma_by_a"):
        evaluate([graphc.grad(graphc.grad(y, a), a)], {a: 2.0, scale: 0.5})


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_finite_at_infinite_ends_and_for_tiny_shapes(backend: str) -> None:
    a, b, c = gt.dscalars("a", "b", "c")
    y = R.truncnorm(a, b, size=500, rng=R.key(0))
    z = R.gamma(c, size=500, rng=R.key(1)) + R.beta(c, c, size=500, rng=R.key(2))
    slopes = [*graphc.grad(y.sum(), [a, b]), graphc.grad(z.sum(), c)]
    f = graphc.function([a, b, c], slopes, uncompiled(backend), returns="numpy")
    for low, high in ((30.0, np.inf), (-np.inf, -30.0), (-np.inf, np.inf), (0.0, np.inf)):
        assert np.all(np.isfinite(f(low, high, 1e-3)))


# Batches and loops.


def test_a_batch_of_keys_or_of_parameters_is_a_loop_over_them() -> None:
    values = np.array([0.4, 1.5, 3.0])
    keys = np.random.default_rng(0).integers(0, 2**32, (3, 2), "uint32")
    a, key = gt.dscalar("a"), gt.tensor("key", dtype="uint32", shape=(2,))
    several, many = gt.dvector("several"), gt.tensor("many", dtype="uint32", shape=(3, 2))
    draws = [draw(a, size=4, rng=key) for draw in DRAWS.values()]
    for swaps, given in (
        ({key: many}, [{key: k, a: values[0]} for k in keys]),
        ({a: several}, [{key: keys[0], a: v} for v in values]),
        ({a: several, key: many}, [{key: k, a: v} for k, v in zip(keys, values, strict=True)]),
    ):
        whole = {many: keys, several: values, key: keys[0], a: values[0]}
        over = graphc.vectorize_graph(draws, swaps)
        found = evaluate(over, {swaps.get(x, x): whole[swaps.get(x, x)] for x in (key, a)})
        looped = [evaluate(draws, one) for one in given]
        for name, y, *wanted in zip(DRAWS, found, *looped, strict=True):
            np.testing.assert_allclose(y, np.stack(wanted), 1e-12, err_msg=name)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("backend", BACKENDS)
def test_samplers_take_arrays_of_keys(backend: str) -> None:
    keys = R.split(R.key(8), 3)
    a = gt.as_tensor([0.5, 2.0])
    outputs = [
        uniforms(keys, (2,), "float32"),
        normals(keys, (2,), "float64"),
        gammas(keys, (2,), "float64", a),
    ]
    outputs += [f(keys[1], (2,), "float64") for f in (normals,)] + [
        gammas(keys[2], (2,), "float64", a),
        key_of(child(R.key(8), 1)),
        keys[1],
    ]
    f = graphc.function([], outputs, uncompiled(backend), returns="numpy")
    u, n, g, own_n, own_g, second, also = f()
    assert u.shape == n.shape == g.shape == (3, 2)
    np.testing.assert_allclose(n[1], own_n, 1e-12)
    np.testing.assert_allclose(g[2], own_g, 1e-12)
    np.testing.assert_array_equal(second, also)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("backend", BACKENDS)
def test_draws_within_a_loop_are_those_outside(backend: str) -> None:
    a = gt.dscalar("a")

    def step(key: Any, _: None) -> tuple[Any, Any]:
        key, own = R.split(key)
        x = R.normal(a, size=3, rng=own)
        return key, (x, R.gamma(a, size=3, rng=own), R.vonmises(x, a, rng=own))

    _, rows = graphc.loop(step, R.key(4), n_steps=12)
    slope = graphc.grad(gt.sum(rows[0]) + gt.sum(rows[1]), a)
    f = graphc.function([a], [*rows, slope], uncompiled(backend), returns="numpy")
    *found, by_a = f(1.5)
    key, wanted, slopes = R.key(4), [], []
    for _ in range(12):
        key, row = step(key, None)
        wanted.append(row)
        slopes.append(graphc.grad(gt.sum(row[0]) + gt.sum(row[1]), a))
    looped = evaluate([x for row in wanted for x in row] + slopes, {a: 1.5})
    for i, y in enumerate(found):
        np.testing.assert_allclose(y, looped[: 3 * 12][i::3], 1e-10)
    np.testing.assert_allclose(by_a, sum(looped[3 * 12 :]), 1e-10)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_may_be_known_late(backend: str) -> None:
    n, a = gt.lscalar("n"), gt.dvector("a")
    some = {name: DRAWS[name] for name in ("normal", "gamma", "dirichlet")}
    draws = [draw(a, size=(n, a.shape[0]), rng=R.key(6)) for draw in some.values()]
    f = graphc.function([n, a], draws, uncompiled(backend), returns="numpy")
    values = np.array([0.4, 1.5])
    wanted = evaluate([draw(values, size=(3, 2), rng=R.key(6)) for draw in some.values()], {})
    for name, y, z in zip(some, f(3, values), wanted, strict=True):
        np.testing.assert_allclose(y, z, 1e-10, err_msg=name)
    assert [y.shape[:2] for y in f(0, values)] == [(0, 2)] * len(some)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_may_be_how_many_steps_a_loop_does(backend: str) -> None:
    a = gt.dscalar("a")
    _, rows = graphc.loop(lambda c, _: (2 * c, c), a, until=lambda c: c > 100, max_steps=50)
    n = rows.shape[0]
    key = R.key(0)
    draws = [R.normal(size=(n, 2), rng=key), R.gamma(rows, rng=key), R.split(key, n)]
    f = graphc.function([a], draws, uncompiled(backend), returns="numpy")
    for start, steps in ((9.0, 4), (30.0, 2)):
        given = start * 2.0 ** np.arange(steps)
        fixed = [R.normal(size=(steps, 2), rng=key), R.gamma(given, rng=key), R.split(key, steps)]
        for y, z in zip(f(start), evaluate(fixed, {}), strict=True):
            np.testing.assert_allclose(y, z, 1e-10)


def test_a_shape_below_zero_gives_nan() -> None:
    random, key = gt.random, gt.random.key(3)
    shapes = np.array([-0.5, -1.0, np.nan, 0.5])
    draws = [
        random.gamma(shapes, rng=key),
        random.invgamma(shapes, rng=key),
        random.chisquare(shapes, rng=key),
        random.beta(1.0, shapes, rng=key),
        random.gengamma(shapes, rng=key),
    ]
    for y in graphc.function([], draws, mode="NUMPY")():
        np.testing.assert_array_equal(np.isnan(y), [True, True, True, False])
