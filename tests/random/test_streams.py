"""Keys that are kept between calls: draws differ, seeds repeat them, nothing is compiled again."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from jax import random as theirs

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError
from tests.modes import uncompiled

random = gt.random


def compiled(outputs: Any, mode: str, **options: Any) -> Any:
    return graphc.function([], outputs, mode=uncompiled(mode), returns="numpy", **options)


# Shared generators.


def test_a_shared_generator_moves_on_with_its_updates_alone(mode: str) -> None:
    rng = random.shared_rng(seed=3, name="rng")
    following, x = rng.normal(size=4)
    still, moving = compiled(x, mode), compiled(x, mode, updates={rng: following})
    assert still().tolist() == still().tolist()
    first, second = moving(), moving()
    assert first.tolist() != second.tolist()
    rng.set_value(seed=3)
    np.testing.assert_array_equal(moving(), first)
    np.testing.assert_allclose(second, random.normal(size=4, rng=next_key(3)).eval(mode="NUMPY"))


def next_key(seed: int) -> Any:
    return random.fold_in(random.key(seed), 2**32 - 1)


def test_other_seeds_and_keys_compile_nothing(mode: str) -> None:
    rng = random.shared_rng(seed=0)
    following, x = rng.uniform(size=3)
    f = compiled(x, mode, updates=[(rng, following)])
    found = [f().tolist()]
    with graphc.expect_compiles(0):
        for seed in (1, 2**40, None, [1, 2, 3], np.random.SeedSequence(4)):
            rng.set_value(seed=seed)
            found.append(f().tolist())
        for value in (np.array([7, 8], "uint32"), np.random.default_rng(5)):
            rng.set_value(value)
            found.append(f().tolist())
    assert f.stats.compiles <= 1
    assert len({tuple(x) for x in found}) == len(found)


def test_a_seed_gives_the_key_of_jax() -> None:
    for seed in (0, 42, -1, 2**33 + 5):
        key = theirs.key_data(theirs.key(seed)) if abs(seed) < 2**31 else None
        found = random.shared_rng(seed=seed).get_value()
        assert key is None or found[1] == key[1]
        np.testing.assert_array_equal(found, random.key(seed).eval(mode="NUMPY"))


def test_a_generator_of_numpy_is_copied() -> None:
    generator = np.random.default_rng(5)
    first, second = random.shared_rng(generator), random.shared_rng(generator)
    np.testing.assert_array_equal(first.get_value(), second.get_value())
    generator.normal(size=3)
    assert random.shared_rng(generator).get_value().tolist() != first.get_value().tolist()


def test_a_shared_generator_is_copied_and_pickled_with_its_key() -> None:
    rng = random.shared_rng(seed=9, name="rng")
    for other in (copy.deepcopy(rng), pickle.loads(pickle.dumps(rng))):
        assert type(other) is type(rng)
        assert other is not rng
        assert other.name == "rng"
        np.testing.assert_array_equal(other.get_value(), rng.get_value())
        other.set_value(seed=1)
        assert rng.get_value().tolist() == [0, 9]
    _, x = pickle.loads(pickle.dumps(rng.normal(size=2)))
    np.testing.assert_array_equal(
        x.eval(mode="NUMPY"), random.normal(size=2, rng=random.key(9)).eval(mode="NUMPY")
    )


def test_what_is_no_key_or_seed_is_told() -> None:
    rng = random.shared_rng(seed=0)
    for wrong in (random.shared_rng, lambda: random.shared_rng(np.zeros(2), seed=1)):
        with pytest.raises(ArgumentError, match="either a key or seed"):
            wrong()
    with pytest.raises(ArgumentError, match="no seed"):
        random.shared_rng(seed="x")
    with pytest.raises(DTypeError, match="no key"):
        rng.set_value(np.zeros(2))
    with pytest.raises(ArgumentError, match="shape"):
        rng.set_value(np.zeros(3, "uint32"))


# Generators as inputs and of seeds.


def test_a_generator_is_an_input_and_an_output(mode: str) -> None:
    rng = random.rng("rng")
    following, x = rng.normal(size=2)
    last, y = following.poisson(4.0, size=2)
    f = graphc.function([rng], [last, x, y], mode=uncompiled(mode), returns="numpy")
    state, a, b = f(np.array([0, 1], "uint32"))
    again, *_ = f(rng=state)
    own = random.normal(size=2, rng=random.key(1)).eval(mode="NUMPY")
    np.testing.assert_allclose(a, own, 1e-12)
    assert b.dtype == np.int64
    assert state.tolist() != again.tolist()
    assert isinstance(last, random.Generator)


def test_a_generator_of_a_seed_has_no_state(mode: str) -> None:
    seed = gt.lscalar("seed")
    f = graphc.function(
        [seed], random.default_rng(seed).integers(1000, size=5)[1], mode=uncompiled(mode)
    )
    g = compiled(random.default_rng(8).integers(1000, size=5)[1], mode)
    assert np.asarray(f(8)).tolist() == g().tolist() == g().tolist() != np.asarray(f(9)).tolist()
    assert random.default_rng(None).normal()[1] is not random.default_rng(None).normal()[1]


# Streams.


def test_draws_of_a_stream_are_of_its_seed_and_their_number(mode: str) -> None:
    stream = random.RandomStream(seed=11)
    draws = [stream.normal(size=3), stream.normal(size=3), stream.binomial(9, 0.5, size=3)]
    f = compiled(draws, mode, updates=stream.updates())
    first, second = f(), f()
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        assert a.tolist() != b.tolist()
        key = theirs.fold_in(theirs.key(11), i)
        np.testing.assert_array_equal(
            random.fold_in(random.key(11), i).eval(mode="NUMPY"), theirs.key_data(key)
        )
        own = theirs.key_data(key)
        draw = random.binomial(9, 0.5, size=3, rng=own) if i == 2 else None
        draw = random.normal(size=3, rng=own) if draw is None else draw
        np.testing.assert_allclose(a, draw.eval(mode="NUMPY"), 1e-12)
    assert first[0].tolist() != first[1].tolist()
    with graphc.expect_compiles(0):
        stream.seed(12)
        other = f()
        stream.seed()
        again = f()
    assert other[0].tolist() != first[0].tolist()
    np.testing.assert_array_equal(again[0], first[0])
    assert len(stream.state_updates) == 3
    assert stream.default_instance_seed == 11


def test_equal_streams_give_equal_draws_and_share_a_program(mode: str) -> None:
    def draws(seed: int) -> Any:
        stream = random.RandomStream(seed)
        x = stream.uniform(size=4)
        return compiled(x, mode, updates=stream.updates())

    f = draws(5)
    first = f()
    with graphc.expect_compiles(0):
        g, h = draws(5), draws(6)
        np.testing.assert_array_equal(g(), first)
        assert h().tolist() != first.tolist()


def test_a_stream_of_no_seed_is_fresh_each_time() -> None:
    stream = random.RandomStream()
    x = stream.uniform(size=3)
    f = compiled(x, "NUMPY")
    first = f()
    stream.seed()
    assert f().tolist() != first.tolist()
    assert random.RandomStream().uniform(size=3).eval(mode="NUMPY").tolist() != first.tolist()


def test_any_function_with_a_key_draws_from_a_stream() -> None:
    def two(scale: Any, rng: Any = None, return_next_rng: bool = False) -> Any:
        following, x = random.normal(0, scale, size=2, rng=rng, return_next_rng=True)
        return (following, x) if return_next_rng else x

    stream = random.RandomStream(2)
    x = stream.gen(two, 10.0)
    f = compiled(x, "NUMPY", updates=stream.updates())
    assert f().tolist() != f().tolist()
    with pytest.raises(ArgumentError, match="no rng="):
        stream.normal(rng=random.key(0))
    with pytest.raises(AttributeError, match="no distribution 'cosine'"):
        stream.cosine()


def test_a_stream_in_a_step_is_updated_by_the_scan(mode: str) -> None:
    rng = random.shared_rng(seed=4)

    def step(x: Any) -> Any:
        following, e = rng.normal()
        return x + e, {rng: following}

    walk, updates = graphc.scan(step, outputs_info=0.0, n_steps=5, return_updates=True)
    f = compiled(walk, mode, updates=updates)
    steps = np.diff([0, *f()]), np.diff([0, *f()])
    assert len({*np.concatenate(steps).round(12)}) == 10
