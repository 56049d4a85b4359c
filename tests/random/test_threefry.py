"""Random bits are those that the hash's authors publish, and those of jax.random."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import DTypeError, ShapeError
from graphc.link import names
from graphc.random.keys import split_words, words_of
from graphc.random.threefry import BLOCK, threefry
from tests.modes import uncompiled
from tests.random.by_hand import bits_by_hand, hash_by_hand
from tests.reference import evaluate

BACKENDS = names()
WIDTHS = (8, 16, 32, 64)
ONES = 0xFFFFFFFF

PUBLISHED = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((ONES, ONES), (ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]
"""Keys, counters and hashes among the known answers of Salmon's Random123."""


@pytest.mark.parametrize(("key", "counter", "wanted"), PUBLISHED)
def test_the_hash_is_the_published_one(key: Any, counter: Any, wanted: Any) -> None:
    assert hash_by_hand(key, counter) == wanted


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_hash_of_many_keys_and_of_one_is_the_published_one(backend: str) -> None:
    words = np.array([[*key, *counter] for key, counter, _ in PUBLISHED], "uint32").T
    k0, k1, x0, x1 = (gt.vector(dtype="uint32") for _ in range(4))
    last = [gt.as_tensor(w[-1]) for w in words]
    outputs = [*threefry(k0, k1, x0, x1), *threefry(last[0], last[1], x0, x1)]
    f = graphc.function([k0, k1, x0, x1], outputs, uncompiled(backend), returns="numpy")
    y, z, own, other = f(*words)
    assert list(zip(y.tolist(), z.tolist(), strict=True)) == [wanted for *_, wanted in PUBLISHED]
    assert (own[-1], other[-1]) == PUBLISHED[-1][-1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_words_broadcast(backend: str) -> None:
    k0, k1 = gt.col(dtype="uint32"), gt.row(dtype="uint32")
    y = gt.stack(threefry(k0, k1, gt.as_tensor(np.uint32(5)), gt.as_tensor(np.uint32(9))))
    f = graphc.function([k0, k1], y, uncompiled(backend), returns="numpy")
    a, b = np.array([[1], [2], [ONES]], "uint32"), np.array([[7, 8]], "uint32")
    wanted = [[hash_by_hand((int(i), int(j)), (5, 9)) for j in b[0]] for i in a[:, 0]]
    np.testing.assert_array_equal(f(a, b), np.moveaxis(np.array(wanted, "uint32"), -1, 0))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, ONES), st.integers(0, ONES)), min_size=1, max_size=3),
    st.lists(st.integers(0, 4), max_size=3),
    st.sampled_from(WIDTHS),
)
def test_bits_are_hashes_of_their_places(keys: Any, shape: Any, width: int) -> None:
    given_keys = np.array(keys, "uint32")
    (found,) = evaluate([gt.random.random_bits(given_keys, shape, width)], {})
    wanted = bits_by_hand(given_keys, tuple(shape), width)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("backend", BACKENDS)
def test_bits_are_those_of_jax(backend: str) -> None:
    shapes = [(), (1,), (0, 3), (7,), (3, 5)]
    key = gt.tensor("key", dtype="uint32", shape=(2,))
    outputs = [gt.random.random_bits(key, shape, width) for width in WIDTHS for shape in shapes]
    f = graphc.function([key], outputs, uncompiled(backend), returns="numpy")
    for seed in (0, 1, 123456789):
        own = jax.random.key(seed)
        found = f(np.asarray(jax.random.key_data(own)))
        with jax.enable_x64(True):
            wanted = [jax.random.bits(own, s, f"uint{width}") for width in WIDTHS for s in shapes]
        for y, z in zip(found, wanted, strict=True):
            assert y.dtype == z.dtype
            np.testing.assert_array_equal(y, z)


def test_no_setting_of_jax_changes_them() -> None:
    y = gt.random.normal(size=5, rng=gt.random.key(1), dtype="float64")
    f = graphc.function([], y, "JAX", returns="numpy")
    wanted = f()
    with jax.threefry_partitionable(False), jax.default_prng_impl("rbg"):
        other = graphc.function([], y + 0 * gt.ones(5), "JAX", returns="numpy")
        np.testing.assert_array_equal(other(), wanted)
        with jax.enable_x64(True):
            np.testing.assert_array_equal(other(), wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_may_be_known_late(backend: str) -> None:
    n = gt.lscalar("n")
    y = gt.random.random_bits(gt.random.key(3), (n, 2), 32)
    assert y.type.shape == (None, 2)
    f = graphc.function([n], y, uncompiled(backend), returns="numpy")
    for length in (0, 1, 5):
        wanted = bits_by_hand(np.array([0, 3], "uint32"), (length, 2), 32)
        np.testing.assert_array_equal(f(length), wanted)


def test_many_places_are_hashed_block_by_block() -> None:
    n = 2 * BLOCK + 3
    (found,) = evaluate([gt.random.random_bits(np.array([5, 6], "uint32"), (n,))], {})
    wanted = jax.random.bits(jax.random.wrap_key_data(np.array([5, 6], "uint32")), (n,), "uint32")
    np.testing.assert_array_equal(found, wanted)


def test_the_place_counts_in_64_bits() -> None:
    key = gt.as_tensor(np.array([1, 2], "uint32"))
    y = gt.stack(threefry(*words_of(key), *map(gt.as_tensor, np.array([3, 4], "uint32"))))
    np.testing.assert_array_equal(evaluate([y], {})[0], hash_by_hand((1, 2), (3, 4)))


def test_keys_of_a_key_stand_behind_its_axes() -> None:
    k0, _ = split_words(words_of(gt.tensor(dtype="uint32", shape=(5, 2))), (3, 4))
    assert k0.type.shape == (5, 3, 4)


def test_a_key_is_of_uint32_and_of_two_words() -> None:
    with pytest.raises(DTypeError, match="uint32"):
        gt.random.random_bits(gt.lvector("key"))
    with pytest.raises(ShapeError, match="length 2"):
        gt.random.random_bits(gt.tensor("key", dtype="uint32", shape=(3,)))
    with pytest.raises(ShapeError, match="length 2"):
        gt.random.random_bits(gt.scalar("key", dtype="uint32"))
    with pytest.raises(DTypeError, match="24 bits"):
        gt.random.random_bits(gt.random.key(0), (), 24)
