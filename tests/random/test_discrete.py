"""Integer draws are those of jax.random for the same key, and tell parameters that mean nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax import random as theirs

import graphc
import graphc.tensor as gt
from graphc.link import names
from graphc.random.choice import ROUNDS
from tests.modes import uncompiled
from tests.random.distributions import DISCRETE

random = gt.random
N = 1000


SLOW_ON_JAX = pytest.mark.parametrize(
    "mode", [pytest.param(x, marks=[pytest.mark.exhaustive] if x == "JAX" else []) for x in names()]
)
"""XLA takes long over so many loops in one program."""


@pytest.fixture(autouse=True)
def in_64_bits() -> Iterator[None]:
    """As graphc's own integers are."""
    with jax.enable_x64(True), graphc.config.change_flags(recompile="ignore"):
        yield


def narrow(*values: float) -> Any:
    return np.array(values if len(values) > 1 else values[0], "float32")


P = narrow(0.2, 0.3, 0.0, 0.5)
X = np.arange(24.0).reshape(4, 6)

# What is compared: a draw of ours, and JAX's.
SAME: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bernoulli": (
        lambda key: random.bernoulli(narrow(0.3), size=N, rng=key),
        lambda key: theirs.bernoulli(key, narrow(0.3), (N,)),
    ),
    "binomial of few": (
        lambda key: random.binomial(5, 0.3, size=N, rng=key),
        lambda key: theirs.binomial(key, 5, 0.3, (N,)),
    ),
    **{
        f"binomial of {n} and {p}": (
            lambda key, n=n, p=p: random.binomial(n, p, size=N, rng=key),
            lambda key, n=n, p=p: theirs.binomial(key, n, p, (N,)),
        )
        for n, p in ((1, 0.3), (1, 0.9), (1, 1.0), (20, 0.5))
    },
    "binomial of few in float32": (
        lambda key: random.binomial(narrow(5), narrow(0.9), size=N, rng=key),
        lambda key: theirs.binomial(key, narrow(5), narrow(0.9), (N,)),
    ),
    "categorical": (
        lambda key: random.categorical(P, size=N, rng=key),
        lambda key: theirs.categorical(key, jnp.log(P), shape=(N,)),
    ),
    "choice": (
        lambda key: random.choice(10, (3, 5), rng=key),
        lambda key: theirs.choice(key, 10, (3, 5)),
    ),
    "choice along an axis": (
        lambda key: random.choice(X, (2, 3), rng=key, axis=1),
        lambda key: theirs.choice(key, X, (2, 3), axis=1),
    ),
    "choice by weight": (
        lambda key: random.choice(4, N, p=P, rng=key),
        lambda key: theirs.choice(key, 4, (N,), p=P),
    ),
    "choice of different ones": (
        lambda key: random.choice(X, 3, False, rng=key),
        lambda key: theirs.choice(key, X, (3,), False),
    ),
    "choice of different ones by weight": (
        lambda key: random.choice(X, 2, False, P, rng=key),
        lambda key: theirs.choice(key, X, (2,), False, P),
    ),
    "geometric": (
        lambda key: random.geometric([0.3, 1.0, 0.01], size=(N, 3), rng=key),
        lambda key: theirs.geometric(key, np.array([0.3, 1.0, 0.01]), (N, 3)),
    ),
    "integers": (
        lambda key: random.integers(-3, 1000, size=N, rng=key),
        lambda key: theirs.randint(key, (N,), -3, 1000),
    ),
    "integers of all bytes": (
        lambda key: random.integers(0, 256, size=N, rng=key, dtype="uint8"),
        lambda key: theirs.randint(key, (N,), 0, 256, "uint8"),
    ),
    "integers of a dtype": (
        lambda key: random.integers(-(2**31), 2**31, size=N, rng=key, dtype="int32"),
        lambda key: theirs.randint(key, (N,), -(2**31), 2**31, "int32"),
    ),
    "integers without sign": (
        lambda key: random.integers(7, 2**63, size=N, rng=key, dtype="uint64"),
        lambda key: theirs.randint(key, (N,), np.uint64(7), np.uint64(2**63), "uint64"),
    ),
    "integers that are large": (
        lambda key: random.integers([-(2**60), 0], 2**61 + 12345, size=(N, 2), rng=key),
        lambda key: theirs.randint(key, (N, 2), jnp.array([-(2**60), 0]), 2**61 + 12345),
    ),
    "multinomial": (
        lambda key: random.multinomial(8, P / 3, size=N, rng=key, dtype="int32"),
        lambda key: theirs.multinomial(key, jnp.float32(8), P / 3, shape=(N, 4)),
    ),
    "permutation": (
        lambda key: random.permutation(100, rng=key),
        lambda key: theirs.permutation(key, 100),
    ),
    "permutation along an axis": (
        lambda key: random.permutation(X, rng=key, axis=1),
        lambda key: theirs.permutation(key, X, 1),
    ),
    "permutation of many": (
        lambda key: random.permutation(ROUNDS[1], rng=key),
        lambda key: theirs.permutation(key, ROUNDS[1]),
    ),
    "poisson of few": (
        lambda key: random.poisson([0.0, 0.1, 3.0], size=(N, 3), rng=key),
        lambda key: theirs.poisson(key, jnp.array([0.0, 0.1, 3.0]), (N, 3)),
    ),
    "poisson of more": (
        lambda key: random.poisson(narrow(40), size=N, rng=key),
        lambda key: theirs.poisson(key, narrow(40), (N,)),
    ),
}


@pytest.mark.sample(every=3)
@SLOW_ON_JAX
@pytest.mark.parametrize("name", SAME)
def test_draws_are_those_of_jax(name: str, mode: str) -> None:
    ours, jaxs = SAME[name]
    f = graphc.function([], ours(random.key(4)), mode=uncompiled(mode), returns="numpy")
    np.testing.assert_array_equal(f(), jaxs(theirs.key(4)))


@pytest.mark.parametrize(
    ("ours", "jaxs"),
    [
        (
            lambda key: random.binomial([500, 60], [0.7, 0.5], size=(5000, 2), rng=key),
            lambda key: theirs.binomial(
                key, jnp.array([500.0, 60.0]), jnp.array([0.7, 0.5]), (5000, 2)
            ),
        ),
        (
            lambda key: random.poisson([300.0, 1000.0], size=(5000, 2), rng=key),
            lambda key: theirs.poisson(key, jnp.array([300.0, 1000.0]), (5000, 2)),
        ),
    ],
)
def test_draws_of_many_are_jaxs_but_where_it_rounds(ours: Any, jaxs: Any) -> None:
    x, y = ours(random.key(3)).eval(mode="NUMPY"), np.asarray(jaxs(theirs.key(3)))
    assert (x != y).mean() < 1e-3


# What has no distribution.

NONE = {
    "bernoulli": [(-0.1,), (1.1,), (np.nan,)],
    "binomial": [(-1, 0.5), (3, -0.1), (30, 1.5), (np.nan, 0.5), (3, np.nan), (np.inf, 0.5)],
    "nbinom": [(0, 0.5), (-1, 0.5), (3, 0), (3, 1.5), (np.nan, 0.5), (3, np.nan)],
    "betabinom": [(-1, 1, 1), (3, 0, 1), (3, 1, -1), (3, np.nan, 1), (np.nan, 1, 1)],
    "geometric": [(0,), (-0.5,), (1.5,), (np.nan,)],
    "poisson": [(-1,), (np.nan,), (np.inf,)],
    "hypergeometric": [(-1, 3, 1), (3, -1, 1), (3, 3, 7), (3, 3, -1), (np.nan, 1, 1)],
}  # fmt: skip


@SLOW_ON_JAX
def test_parameters_that_mean_nothing_give_minus_one(mode: str) -> None:
    key, good = random.key(0), []
    wrong = []
    for name, sets in NONE.items():
        f = getattr(random, name)
        wrong.append(f(*np.array(sets).T, rng=key))
        # One beside it does no harm.
        both = np.array([sets[0], DISCRETE[name].parameters[1]], "float64").T
        good.append(f(*both, rng=key)[1])
    wrong.append(random.categorical([[-0.1, 1.0], [0.0, 0.0], [np.nan, 1.0]], rng=key))
    wrong.append(random.multinomial([-1, 3, 3], [[0.5, 0.5], [0.5, -0.5], [0.0, 0.0]], rng=key))
    f = graphc.function([], [*wrong, *good], mode=uncompiled(mode), returns="numpy")
    for y in f():
        assert (y == -1).all() or y.ndim == 0
    assert min(y for y in f() if y.ndim == 0) >= 0


@pytest.mark.sample(every=3)
def test_draws_that_do_not_fit_are_the_largest_that_do(mode: str) -> None:
    key = random.key(0)
    draws = [
        random.poisson(1e30, rng=key),
        random.poisson(1000.0, rng=key, dtype="int8"),
        random.geometric(1e-300, rng=key),
        random.binomial(10**6, 0.5, rng=key, dtype="uint8"),
    ]
    found = graphc.function([], draws, mode=uncompiled(mode), returns="numpy")()
    assert [int(y) for y in found] == [2**63 - 1024, 127, 2**63 - 1024, 255]


def test_ends_that_leave_nothing_give_the_lower_one() -> None:
    low, high = gt.lvectors("low", "high")
    f = graphc.function([low, high], random.integers(low, high, rng=random.key(0)), mode="NUMPY")
    assert f([3, -2, 5], [3, -7, 6]).tolist() == [3, -2, 5]


@settings(max_examples=40)
@given(
    dtype=st.sampled_from(
        ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
    ),
    data=st.data(),
)
def test_integers_are_between_their_ends(dtype: str, data: Any) -> None:
    bounds = np.iinfo(dtype)
    least, most = sorted(data.draw(st.tuples(*[st.integers(bounds.min, bounds.max)] * 2)))
    seed = data.draw(st.integers(0, 2**64 - 1))
    y = random.integers(least, most + 1, size=50, rng=random.key(seed), dtype=dtype)
    found = y.eval(mode="NUMPY")
    assert found.dtype == dtype
    assert least <= int(found.min()) <= int(found.max()) <= most


@settings(max_examples=30)
@given(
    shape=st.lists(st.integers(0, 4), max_size=3).map(tuple),
    seed=st.integers(0, 2**64 - 1),
    kind=st.sampled_from([*DISCRETE]),
)
def test_any_shape_is_drawn_small_or_empty(shape: tuple[int, ...], seed: int, kind: str) -> None:
    args = DISCRETE[kind].parameters[0]
    y = getattr(random, kind)(*args, size=shape, rng=random.key(seed)).eval(mode="NUMPY")
    assert y.shape == shape
    assert (y >= 0).all()


@settings(max_examples=30)
@given(n=st.integers(0, 20), seed=st.integers(0, 2**32 - 1), data=st.data())
def test_a_permutation_is_one_of_any_number(n: int, seed: int, data: Any) -> None:
    batch = data.draw(st.lists(st.integers(0, 3), max_size=2).map(tuple))
    x = random.permutation(n, size=batch, rng=random.key(seed)).eval(mode="NUMPY")
    assert x.shape == (*batch, n)
    assert (np.sort(x, -1) == np.arange(n)).all()
    k = data.draw(st.integers(0, n))
    few = random.choice(n, k, replace=False, rng=random.key(seed)).eval(mode="NUMPY")
    assert len({*few.tolist()}) == k


def test_a_permutation_of_unknown_length_takes_as_many_rounds(mode: str) -> None:
    x = gt.lvector("x")
    f = graphc.function([x], random.permutation(x, rng=random.key(1)), mode=uncompiled(mode))
    for n in (0, 1, 5, ROUNDS[1] - 1, ROUNDS[1]):
        wanted = theirs.permutation(theirs.key(1), n)
        np.testing.assert_array_equal(np.asarray(f(np.arange(n))), wanted)
