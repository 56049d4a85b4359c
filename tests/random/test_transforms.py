"""Draws inside loops, for batches of keys, through rewrites and gradients."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import random as theirs

import graphc
import graphc.tensor as gt
from tests.modes import uncompiled

random = gt.random


def compiled(inputs: Any, outputs: Any, mode: str) -> Any:
    return graphc.function(inputs, outputs, mode=uncompiled(mode), returns="numpy")


@pytest.mark.sample(every=3)
def test_a_key_that_is_carried_draws_anew_each_step(mode: str) -> None:
    def step(key: Any, _: Any) -> Any:
        first, second = random.split(key)
        noise, count = random.normal(rng=second), random.poisson(20.0, size=2, rng=second)
        return first, (noise, count)

    key = gt.tensor("key", dtype="uint32", shape=(2,))
    last, (noise, counts) = graphc.loop(step, key, n_steps=6)
    f = compiled([key], [last, noise, counts], mode)
    found = f(np.array([0, 3], "uint32"))
    key = theirs.key(3)
    for x, n in zip(*found[1:], strict=True):
        key, own = theirs.split(key)
        with jax.enable_x64(True):
            np.testing.assert_allclose(x, theirs.normal(own, dtype="float64"), 1e-9)
            np.testing.assert_array_equal(n, theirs.poisson(own, 20.0, (2,)))
    np.testing.assert_array_equal(found[0], theirs.key_data(key))


def test_a_key_that_is_folded_with_the_step_needs_no_carry(mode: str) -> None:
    key = random.key(6)
    draws = graphc.map(
        lambda i: random.integers(1000, size=3, rng=random.fold_in(key, i)), gt.arange(4)
    )
    with jax.enable_x64(True):
        wanted = [theirs.randint(theirs.fold_in(theirs.key(6), i), (3,), 0, 1000) for i in range(4)]
    np.testing.assert_array_equal(compiled([], draws, mode)(), wanted)


EACH = {
    "normal": lambda key, p: random.normal(p, 2.0, size=3, rng=key),
    "gamma": lambda key, p: random.gamma(3 * p, 2.0, size=2, rng=key),
    "bernoulli": lambda key, p: random.bernoulli(p, size=3, rng=key),
    "binomial": lambda key, p: random.binomial(100, p, size=3, rng=key),
    "poisson": lambda key, p: random.poisson(30 * p, size=3, rng=key),
    "hypergeometric": lambda key, p: random.hypergeometric(30, 40 * p, 9, size=2, rng=key),
    "geometric": lambda key, p: random.geometric(p, size=3, rng=key),
    "categorical": lambda key, p: random.categorical(gt.stack([p, 1 - p]), size=3, rng=key),
    "multinomial": lambda key, p: random.multinomial(9, gt.stack([p, 1 - p]), rng=key),
    "permutation": lambda key, p: random.permutation(5, rng=key),
    "choice": lambda key, p: random.choice(5, 3, False, rng=key),
    "choice by weight": lambda key, p: random.choice(2, 3, p=gt.stack([p, 1 - p]), rng=key),
    "integers": lambda key, p: random.integers(10, size=3, rng=key),
    "multivariate_normal": lambda key, p: random.multivariate_normal(
        gt.stack([p, -p]), [[1.0, 0.5], [0.5, 1.0]], rng=key
    ),
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize(
    "mode", ["NUMPY", "MLX", pytest.param("JAX", marks=pytest.mark.exhaustive)]
)
def test_a_batch_of_keys_draws_what_each_key_draws(mode: str, name: str) -> None:
    keys, ps = (
        np.stack([theirs.key_data(k) for k in theirs.split(theirs.key(1), 4)]),
        gt.vector("ps"),
    )
    key, p = gt.tensor("key", dtype="uint32", shape=(2,)), gt.scalar("p")
    batch = gt.tensor("keys", dtype="uint32", shape=(None, 2))
    draws = graphc.vectorize(EACH[name], signature="(2),()->(n)")(batch, ps)
    how = {"mode": uncompiled(mode), "returns": "numpy", "on_unused_input": "ignore"}
    many = graphc.function([batch, ps], draws, **how)
    one = graphc.function([key, p], EACH[name](key, p), **how)
    values = np.array([0.9, 0.3, 0.5, 0.05])
    for x, k, v in zip(many(keys, values), keys, values, strict=True):
        np.testing.assert_allclose(x, one(k, v), 1e-12)


def test_draws_that_nobody_needs_are_not_made(mode: str) -> None:
    x = random.normal(size=3, rng=random.key(0)) * 0
    f = graphc.function([], [x, x.shape], mode=uncompiled(mode), returns="numpy")
    assert f()[0].tolist() == [0, 0, 0]
    y = random.poisson(3.0, size=7, rng=random.key(0)).shape
    assert "threefry" not in {
        node.op.name for node in graphc.function([], y, mode="NUMPY").graph.nodes
    }


def test_a_gradient_goes_through_parameters_and_not_through_integers() -> None:
    loc, scale, p = gt.scalars("loc", "scale", "p")
    key = random.key(2)
    x = random.normal(loc, scale, size=1000, rng=key)
    by_loc, by_scale = graphc.grad((x**2).sum(), [loc, scale])
    f = graphc.function([loc, scale], [x, by_loc, by_scale], mode="NUMPY")
    draws, a, b = f(1.0, 2.0)
    np.testing.assert_allclose(a, (2 * draws).sum())
    np.testing.assert_allclose(b, (2 * draws * (draws - 1.0) / 2.0).sum())
    count = random.binomial(10, p, rng=key).astype("float64") * p
    slope = graphc.function([p], [count, graphc.grad(count, p)], mode="NUMPY")
    value, gradient = slope(0.5)
    assert gradient == value / 0.5


def test_vectors_have_gradients_by_mean_and_covariance() -> None:
    def draw(mean: Any, root: Any) -> Any:
        covariance = root @ root.T + gt.eye(3)
        return random.multivariate_normal(mean, covariance, size=2, rng=random.key(1))

    values = np.random.default_rng(0)
    graphc.verify_grad(draw, [values.normal(size=3), values.normal(size=(3, 3))])
