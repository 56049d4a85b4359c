"""Random nests of closures, partials and containers compute the same after they are rebuilt."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from graphc.capture import lift, rebuild
from graphc.tensor.core.runtime import runtime

Arrays = list[np.ndarray[Any, Any]]
Maker = Callable[[Arrays], Any]
"""What makes a function of one number, given the arrays that it shall capture."""


class Scaled:
    def __init__(self, inner: Any, w: Any) -> None:
        self.inner = inner
        self.w = w
        self.unread = iter(())

    def step(self, x: Any) -> Any:
        return self.inner(x) + self.w

    def __call__(self, x: Any) -> Any:
        return self.step(x)


def _leaf(i: int) -> Maker:
    def make(arrays: Arrays) -> Any:
        w = arrays[i]
        return lambda x: x * w

    return make


def _number(n: Any) -> Maker:
    return lambda arrays: lambda x: x * n


def _marked(n: float) -> Maker:
    def make(arrays: Arrays) -> Any:
        # The first array scales marked numbers, so that replacing both is one thing.
        marked = runtime(n * float(arrays[0].flat[0]))
        return lambda x: x * marked

    return make


def _default(inner: Maker, i: int) -> Maker:
    def make(arrays: Arrays) -> Any:
        held = inner(arrays)

        def f(x: Any, inner: Any = held, *, w: Any = arrays[i]) -> Any:
            return inner(x) - w

        return f

    return make


def _partial(inner: Maker, i: int) -> Maker:
    def apply(f: Any, x: Any, w: Any) -> Any:
        return f(x) + 2 * w

    return lambda arrays: functools.partial(apply, inner(arrays), w=arrays[i])


def _sum(inner: list[Maker]) -> Maker:
    def make(arrays: Arrays) -> Any:
        parts = tuple(f(arrays) for f in inner)
        return lambda x: functools.reduce(lambda a, b: a + b, [f(x) for f in parts])

    return make


def _table(inner: Maker, i: int) -> Maker:
    def make(arrays: Arrays) -> Any:
        table = {"f": inner(arrays), "w": [arrays[i], {1: 2.0}]}
        return lambda x: table["f"](x) * table["w"][1][1] + table["w"][0]

    return make


def _object(inner: Maker, i: int) -> Maker:
    return lambda arrays: Scaled(inner(arrays), arrays[i])


def _method(inner: Maker, i: int) -> Maker:
    return lambda arrays: Scaled(inner(arrays), arrays[i]).step


def _recursive(inner: Maker, n: int) -> Maker:
    def make(arrays: Arrays) -> Any:
        f = inner(arrays)

        def again(x: Any, n: int = n) -> Any:
            return again(f(x) / 4, n - 1) if n else f(x)

        return again

    return make


def _twice(inner: Maker) -> Maker:
    def make(arrays: Arrays) -> Any:
        f = inner(arrays)
        g = functools.wraps(f)(lambda x: f(x) + 1)
        return lambda x: f(x) - 2 * g(x)

    return make


PLACES = st.integers(0, 2)
NESTS: st.SearchStrategy[Maker] = st.recursive(
    st.builds(_leaf, PLACES)
    | st.builds(_number, st.sampled_from([2, 0.5, np.float32(3), np.array([1.0, 2.0, 3.0])]))
    | st.builds(_marked, st.sampled_from([0.5, 2.0])),
    lambda inner: (
        st.builds(_default, inner, PLACES)
        | st.builds(_partial, inner, PLACES)
        | st.builds(_sum, st.lists(inner, min_size=1, max_size=3))
        | st.builds(_table, inner, PLACES)
        | st.builds(_object, inner, PLACES)
        | st.builds(_method, inner, PLACES)
        | st.builds(_recursive, inner, st.integers(0, 3))
        | st.builds(_twice, inner)
    ),
    max_leaves=6,
)


def arrays(seed: int) -> Arrays:
    return list(np.random.default_rng(seed).uniform(1, 2, size=(3, 4, 3)))


@given(NESTS)
def test_a_rebuilt_nest_computes_the_same_with_old_and_with_new_arrays(nest: Maker) -> None:
    old, new = arrays(0), arrays(1)
    stripped, leaves = lift(nest(old))
    np.testing.assert_array_equal(rebuild(stripped, leaves)(1.5), nest(old)(1.5))
    other, replaced = lift(nest(new))
    assert other == stripped
    assert hash(other) == hash(stripped)
    np.testing.assert_array_equal(rebuild(stripped, replaced)(1.5), nest(new)(1.5))


@given(NESTS)
def test_every_leaf_of_a_nest_is_one_of_its_arrays_and_comes_once(nest: Maker) -> None:
    captured = arrays(0)
    _, leaves = lift(nest(captured))
    held = [x for x in leaves if isinstance(x, np.ndarray)]
    assert len({id(x) for x in leaves}) == len(leaves)
    assert all(any(x is w for w in captured) for x in held)


@given(NESTS, NESTS)
def test_equal_nests_compute_the_same(a: Maker, b: Maker) -> None:
    one, other = lift(a(arrays(0))), lift(b(arrays(0)))
    if one.stripped == other.stripped:
        np.testing.assert_array_equal(rebuild(other.stripped, one.leaves)(1.5), rebuild(*one)(1.5))
    assert (one.stripped.digest() == other.stripped.digest()) == (
        one.stripped == other.stripped or one.stripped.digest() is other.stripped.digest() is None
    )


@given(NESTS)
def test_a_rebuilt_nest_is_lifted_into_the_same_parts(nest: Maker) -> None:
    stripped, leaves = lift(nest(arrays(0)))
    again, same = lift(rebuild(stripped, leaves))
    assert again == stripped
    assert all(a is b or a == b for a, b in zip(leaves, same, strict=True))
