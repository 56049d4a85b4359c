"""Draws have the dimensions of their parameters, and new ones."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import graphc
import graphc.random
import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.errors import ArgumentError, AxisError
from tests.modes import uncompiled
from tests.xtensor.by_name import given, same

KEY = gt.random.key(3)


def test_a_draw_is_that_of_aligned_parameters(mode: str) -> None:
    (loc, a), (scale, b) = given("ab", 1), given("cb", 2)
    draw = gx.random.normal(loc, scale, extra_dims={"q": 2}, rng=KEY)
    by_position = gt.random.normal(a[:, :, None], b.T, size=(2, 2, 3, 4), rng=KEY)
    expected = by_position.eval(mode="NUMPY")
    same(draw, "qabc", expected, {loc: a, scale: b}, uncompiled(mode))


def test_extra_lengths_may_be_symbolic() -> None:
    x, a = given("b", known=False)
    draw = gx.random.poisson(x, extra_dims={"q": x.sizes["b"]}, rng=KEY)
    expected = gt.random.poisson(a, size=(3, 3), rng=KEY).eval(mode="NUMPY")
    same(draw, "qb", expected, {x: a})


def test_core_dimensions_are_of_one_draw() -> None:
    p = gx.as_xtensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], dims=("a", "k"))
    assert gx.random.categorical(p, core_dims="k", rng=KEY).eval(mode="NUMPY").tolist() == [1, 0, 1]
    counts = gx.random.multinomial(5, p, core_dims="k", rng=KEY)
    assert counts.dims == ("a", "k")
    assert counts.eval(mode="NUMPY").tolist() == [[0, 5], [5, 0], [0, 5]]
    shares = gx.random.dirichlet(p.T + 1, core_dims=("k",), extra_dims={"q": 4}, rng=KEY)
    assert (shares.dims, shares.type.shape) == (("q", "a", "k"), (4, 3, 2))
    np.testing.assert_allclose(shares.sum("k").eval(mode="NUMPY"), 1)


def test_a_multivariate_draw_has_the_dimension_of_its_mean() -> None:
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    mean, matrix = gx.as_xtensor([[1.0, 2.0]], dims=("b", "m")), gx.as_xtensor(cov, dims=("k", "m"))
    draw = gx.random.multivariate_normal(
        mean, matrix, core_dims=("k", "m"), extra_dims={"q": 3}, rng=KEY
    )
    by_position = gt.random.multivariate_normal([[1.0, 2.0]], cov, size=(3, 1), rng=KEY)
    same(draw, "qbm", by_position.eval(mode="NUMPY"), {})


def test_the_second_parameter_of_gamma_is_its_scale() -> None:
    draw = gx.random.gamma(2.0, 3.0, extra_dims={"q": 5}, rng=KEY)
    same(draw, "q", gt.random.gamma(2.0, scale=3.0, size=5, rng=KEY).eval(mode="NUMPY"), {})


def test_a_shared_generator_moves_on_with_the_function() -> None:
    rng = gx.random.shared_rng(seed=7, name="rng")
    following, x = rng.normal(0.0, 1.0, extra_dims={"a": 3})
    f = graphc.function([], x, updates={rng: following}, mode="NUMPY")
    first, second = f(), f()
    assert first.tolist() != second.tolist()
    rng.set_value(seed=7)
    assert first.tolist() == f().tolist()
    assert (repr(rng), rng.get_value().shape) == ("rng: uint32[2]", (2,))


def test_a_generator_may_be_an_input_and_a_state_of_a_loop() -> None:
    rng = gx.random.rng("rng")
    key = KEY.eval(mode="NUMPY")

    def step(x: gx.XTensor, rng: gx.random.XGenerator) -> list[object]:
        following, noise = rng.normal(x, 1.0)
        return [noise, following]

    start = gx.as_xtensor([0.0, 0.0], dims="a")
    walk, last = graphc.scan(step, outputs_info=[start, rng], n_steps=4)
    assert isinstance(last, gx.random.XGenerator)
    found, after = graphc.function([rng], [walk, last], mode="NUMPY")(key)
    assert walk.dims == ("step", "a")
    assert (found.shape, after.tolist() != key.tolist()) == ((4, 2), True)


def test_as_rng_takes_keys_alone() -> None:
    assert gx.random.as_rng(KEY) == gx.random.as_rng(gx.random.as_rng(KEY))
    with pytest.raises(ArgumentError, match="is no key"):
        gx.random.as_rng(np.random.default_rng(0))


def test_every_distribution_is_a_method_and_says_what_it_takes() -> None:
    rng = gx.random.rng()
    names = {name for name in dir(rng) if name in graphc.random.__all__}
    own = {"choice", "key", "fold_in", "split", "random_bits", "permutation", "rng"}
    assert names == {name for name in graphc.random.__all__ if name.islower()} - own
    for name in names:
        f = getattr(gx.random, name)
        assert "extra_dims" in str(inspect.signature(f)) + (f.__doc__ or "")


def test_what_does_not_fit_is_refused() -> None:
    x, _ = given("ab")
    with pytest.raises(ArgumentError, match=r"normal: the extra dimension 'a' is one of the param"):
        gx.random.normal(x, extra_dims={"a": 2}, rng=KEY)
    with pytest.raises(AxisError, match=r"dirichlet: core_dims=None.\nName 1 dimensions"):
        gx.random.dirichlet(x, rng=KEY)
    with pytest.raises(AxisError, match=r"A draw is a scalar: leave them out"):
        gx.random.normal(x, core_dims="a", rng=KEY)
    with pytest.raises(ArgumentError, match=r"normal: .*unexpected keyword argument 'size'"):
        gx.random.normal(x, size=3, rng=KEY)
    with pytest.raises(AttributeError, match="has no attribute 'exq'"):
        _ = gx.random.rng().exq
