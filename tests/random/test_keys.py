"""Keys are those of jax.random, and another one is no other program."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import DTypeError
from graphc.link import names
from tests.modes import uncompiled
from tests.reference import evaluate

BACKENDS = names()
SEEDS = [0, 1, 42, 2**31, 2**32 - 1, 2**32, 2**63 - 1, -1, -(2**40)]


def of_jax(seed: Any) -> Any:
    with jax.enable_x64(True):
        return np.asarray(jax.random.key_data(jax.random.key(seed)))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_key_of_a_seed_is_that_of_jax(seed: int) -> None:
    (found,) = evaluate([gt.random.key(seed)], {})
    assert found.dtype == np.uint32
    np.testing.assert_array_equal(found, of_jax(seed))
    # With 32 bits, too, where JAX takes the seed as it is.
    if 0 <= seed < 2**31:
        np.testing.assert_array_equal(found, jax.random.key_data(jax.random.key(seed)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_seed_may_be_symbolic(backend: str) -> None:
    wide, narrow = gt.lscalar("wide"), gt.iscalar("narrow")
    many = gt.vector("many", dtype="uint64")
    outputs = [gt.random.key(x) for x in (wide, narrow, many)]
    f = graphc.function([wide, narrow, many], outputs, uncompiled(backend), returns="numpy")
    for seed in SEEDS:
        small = np.int32(seed % 2**31)
        found = f(seed, small, np.array([seed % 2**64, 7], "uint64"))
        np.testing.assert_array_equal(found[0], of_jax(np.int64(seed)))
        np.testing.assert_array_equal(found[1], of_jax(small))
        np.testing.assert_array_equal(found[2], [of_jax(np.int64(seed)), of_jax(7)])


@pytest.mark.parametrize("backend", BACKENDS)
def test_splits_and_folds_are_those_of_jax(backend: str) -> None:
    key, n = gt.tensor("key", dtype="uint32", shape=(2,)), gt.lscalar("n")
    two = gt.random.split(key)
    outputs = [
        two,
        gt.random.split(key, (2, 3)),
        gt.random.split(key, n),
        gt.random.split(two, 3),
        gt.random.fold_in(key, 7),
        gt.random.fold_in(key, n),
        gt.random.fold_in(two, gt.stack([n, n + 1])),
    ]
    f = graphc.function([key, n], outputs, uncompiled(backend), returns="numpy")
    own = jax.random.key(99)
    pair = jax.random.split(own)
    wanted = [
        pair,
        jax.random.split(own, (2, 3)),
        jax.random.split(own, 5),
        jax.vmap(lambda k: jax.random.split(k, 3))(pair),
        jax.random.fold_in(own, 7),
        jax.random.fold_in(own, 5),
        jax.vmap(jax.random.fold_in)(pair, np.array([5, 6])),
    ]
    for y, z in zip(f(np.asarray(jax.random.key_data(own)), 5), wanted, strict=True):
        assert y.dtype == np.uint32
        np.testing.assert_array_equal(y, jax.random.key_data(z))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1))
def test_a_number_folds_in_as_in_jax(seed: int, data: int) -> None:
    (found,) = evaluate([gt.random.fold_in(gt.random.key(seed), data)], {})
    own = jax.random.wrap_key_data(np.array([seed >> 32, seed & 0xFFFFFFFF], "uint32"))
    wanted = jax.random.key_data(jax.random.fold_in(own, np.uint32(data)))
    np.testing.assert_array_equal(found, wanted)


def test_numbers_are_taken_modulo_their_width() -> None:
    pairs = [
        (gt.random.key(2**64 + 5), gt.random.key(5)),
        (gt.random.fold_in(gt.random.key(1), -1), gt.random.fold_in(gt.random.key(1), 2**32 - 1)),
        (gt.random.key(graphc.runtime(9)), gt.random.key(9)),
        (gt.random.key(np.uint64(2**63)), gt.random.key(2**63)),
    ]
    for a, b in pairs:
        np.testing.assert_array_equal(*evaluate([a, b], {}))


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_seed_is_no_other_program(backend: str) -> None:
    x = gt.vector("x", shape=(3,))

    def made(seed: int) -> Any:
        draw = x + gt.random.normal(size=3, rng=gt.random.key(seed))
        return graphc.function([x], draw, uncompiled(backend), returns="numpy")

    zeros = np.zeros(3)
    first = made(0)(zeros)
    with graphc.expect_compiles(0):
        others = [made(seed)(zeros) for seed in (1, 2**40)]
    assert len({tuple(y) for y in (first, *others)}) == 3


def test_a_seed_is_an_integer() -> None:
    with pytest.raises(DTypeError, match="integer"):
        gt.random.key(1.5)
    with pytest.raises(DTypeError, match="integer"):
        gt.random.key(True)
    with pytest.raises(DTypeError, match="integer"):
        gt.random.fold_in(gt.random.key(0), gt.scalar("x"))
