"""Trees in which an implicit array is a leaf agree with JAX's, and need no JAX."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, strategies as st
from mlx import utils

import graphc.tensor as gt
from graphc.errors import ArgumentError
from graphc.implicit.array import ImplicitArray, aux_field, is_implicit
from graphc.implicit.trees import (
    flatten,
    flatten_one_implicit_layer,
    flatten_with_path,
    implicit_depth,
    is_array,
    leaves,
    structure,
    tree_map,
    tree_map_with_path,
    unflatten,
)

Pair = namedtuple("Pair", ["first", "second"])


@dataclass(frozen=True)
class Scaled(ImplicitArray):
    values: Any
    scale: Any = None
    power: int = aux_field(default=1)

    def check(self) -> None:
        if self.values.ndim != 2:
            raise ValueError("two axes are wanted")

    def materialize(self) -> Any:
        return self.values if self.scale is None else self.values * self.scale**self.power


@jax.tree_util.register_pytree_with_keys_class
class Layer:
    def __init__(self, w: Any, b: Any, name: str) -> None:
        self.w, self.b, self.name = w, b, name

    def tree_flatten_with_keys(self) -> Any:
        key = jax.tree_util.GetAttrKey
        return ((key("w"), self.w), (key("b"), self.b)), self.name

    @classmethod
    def tree_unflatten(cls, name: str, parts: Any) -> Layer:
        return cls(*parts, name)


def scaled(n: float = 2.0) -> Scaled:
    return Scaled(np.ones((2, 3)), np.asarray(n))


LEAVES = st.one_of(st.integers(), st.text(max_size=2), st.builds(scaled), st.just(np.zeros(3)))
KEYS = st.text("abcd", min_size=1, max_size=2)
TREES = st.recursive(
    st.one_of(st.none(), LEAVES),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict),
        st.dictionaries(KEYS, inner, max_size=3).map(lambda x: defaultdict(list, x)),
        st.builds(Pair, inner, inner),
        st.builds(Layer, inner, inner, st.sampled_from(["a", "b"])),
    ),
    max_leaves=8,
)


def same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


@given(TREES)
def test_leaves_are_those_of_jax(tree: Any) -> None:
    found, nesting = flatten(tree)
    theirs = jax.tree_util.tree_leaves(tree, is_leaf=is_implicit)
    assert same(found, theirs)
    assert same(leaves(tree), theirs)
    assert len(nesting) == len(found)


@given(TREES)
def test_a_tree_is_put_together_as_it_was(tree: Any) -> None:
    found, nesting = flatten(tree)
    back = unflatten(nesting, found)
    assert same(leaves(back), found)
    assert structure(back) == nesting
    assert hash(structure(back)) == hash(nesting)
    theirs = jax.tree_util.tree_structure(tree, is_leaf=is_implicit)
    assert jax.tree_util.tree_structure(back, is_leaf=is_implicit) == theirs


@given(TREES, TREES)
def test_structures_are_equal_where_those_of_jax_are(a: Any, b: Any) -> None:
    ours = structure(a) == structure(b)
    theirs = [jax.tree_util.tree_structure(x, is_leaf=is_implicit) for x in (a, b)]
    assert ours == (theirs[0] == theirs[1])


@given(TREES)
def test_paths_are_what_is_inside_those_of_jax(tree: Any) -> None:
    found, _ = flatten_with_path(tree)
    theirs, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_implicit)
    plain = [tuple(map(key_of, path)) for path, _ in theirs]
    assert [path for path, _ in found] == plain


def key_of(key: Any) -> Any:
    match key:
        case jax.tree_util.DictKey():
            return key.key
        case jax.tree_util.SequenceKey():
            return key.idx
        case jax.tree_util.GetAttrKey():
            return key.name
    raise AssertionError(key)


@given(TREES)
def test_a_map_keeps_the_structure(tree: Any) -> None:
    mapped = tree_map(lambda x, y: (x, y), tree, tree)
    pairs = jax.tree_util.tree_map(lambda x, y: (x, y), tree, tree, is_leaf=is_implicit)
    assert structure(mapped) == structure(pairs)
    named = tree_map_with_path(lambda path, x: path, tree)
    assert [path for path, _ in flatten_with_path(tree)[0]] == collected(named, structure(tree))


def collected(tree: Any, nesting: Any) -> list[Any]:
    found: list[Any] = []
    tree_map(lambda _, x: found.append(x), unflatten(nesting, [0] * len(nesting)), tree)
    return found


def test_an_implicit_array_is_one_leaf() -> None:
    x = scaled()
    assert leaves({"w": x, "b": [np.ones(2)]})[1] is x
    assert tree_map(lambda leaf: leaf.shape, {"w": x, "b": None}) == {"b": None, "w": (2, 3)}


def test_the_rest_of_a_map_may_have_more_below_the_leaves() -> None:
    assert tree_map(lambda x, y: y, {"w": scaled()}, {"w": [1, (2, 3)]}) == {"w": [1, (2, 3)]}


@pytest.mark.parametrize(
    ("first", "other", "named"),
    [
        ({"a": [1, 2]}, {"a": [1]}, r"tree\['a'\] is Structure\(\[\*, \*\]\)"),
        ({"a": 1}, {"b": 1}, "tree is Structure"),
        ([1, 2], (1, 2), r"Structure\(\(\*, \*\)\)"),
        ({"a": None}, {"a": 1}, "None"),
        (Pair(1, 2), (1, 2), r"Pair\(first=\*, second=\*\)"),
        (Layer(1, 2, "x"), Layer(1, 2, "y"), "Layer"),
    ],
)
def test_trees_of_other_structures_are_refused(first: Any, other: Any, named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        tree_map(lambda x, y: x, first, other)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_other_numbers_of_leaves_are_refused(count: int) -> None:
    with pytest.raises(ArgumentError, match=f"{count} leaves for a structure with 2"):
        unflatten(structure([1, {"a": 2}]), [0] * count)


def test_keys_without_order_are_refused() -> None:
    with pytest.raises(ArgumentError, match="have no order"):
        leaves({"a": 1, 2: 3})


def test_one_layer_is_opened() -> None:
    inner = scaled()
    x = Scaled(inner, np.asarray(3.0), power=2)
    found, nesting = flatten_one_implicit_layer({"x": x, "y": (inner, 1.0)})
    assert found[0] is inner
    assert found[1] is x.scale
    assert same(found[2:4], [inner.values, inner.scale])
    back = unflatten(nesting, found)
    assert back["x"].power == 2
    assert back["x"].values is inner
    assert isinstance(back["y"][0], Scaled)
    np.testing.assert_array_equal(np.asarray(back["x"]), np.full((2, 3), 18.0))


def test_a_field_that_is_none_is_no_leaf() -> None:
    x = Scaled(np.ones((2, 3)))
    found, nesting = flatten_one_implicit_layer([x])
    assert same(found, [x.values])
    assert unflatten(nesting, found)[0].scale is None


def test_opened_arrays_take_what_is_no_array() -> None:
    _, nesting = flatten_one_implicit_layer(scaled())
    assert unflatten(nesting, ["a", "b"]).values == "a"


def test_structures_of_opened_arrays_tell_static_fields_apart() -> None:
    a, b = (Scaled(np.ones((2, 3)), np.asarray(1.0), power) for power in (1, 2))
    assert structure(a) == structure(b)
    one, two = (flatten_one_implicit_layer(x)[1] for x in (a, b))
    assert one != two
    assert one == flatten_one_implicit_layer(scaled(5.0))[1]


@given(TREES)
def test_all_layers_opened_give_the_leaves_of_jax(tree: Any) -> None:
    nested = tree_map(lambda x: Scaled(x, np.asarray(2.0)) if is_implicit(x) else x, tree)
    found: Any = nested
    for _ in range(implicit_depth(nested)):
        found, _ = flatten_one_implicit_layer(found)
    assert same(leaves(found), jax.tree_util.tree_leaves(nested))
    assert implicit_depth(found) == 0


def test_depth_counts_implicit_arrays_within_each_other() -> None:
    x = scaled()
    deep = Scaled(Scaled(x, np.asarray(1.0)), np.asarray(1.0))
    assert [implicit_depth(t) for t in (1.0, [], [x], {"a": x, "b": (deep,)})] == [0, 0, 1, 3]


def test_arrays_are_those_of_any_library() -> None:
    arrays = [np.ones(2), jnp.ones(2), mx.ones(2), gt.vector("x"), scaled()]
    assert all(map(is_array, arrays))
    assert jax.jit(lambda x: x if is_array(x) else None)(1.0) is not None
    others = [1, 1.0, np.float64(1), "x", None, [1.0], np.ndarray, jax.ShapeDtypeStruct((2,), "f")]
    assert not any(map(is_array, others))


def test_trees_of_mlx_have_implicit_arrays_as_leaves() -> None:
    x = Scaled(mx.ones((2, 3)), mx.array(2.0))
    tree = {"layers": [{"w": x, "b": mx.zeros(3)}]}
    ours = tree_map_with_path(lambda path, x: ".".join(map(str, path)), tree)
    assert set(leaves(ours)) == {path for path, _ in utils.tree_flatten(tree)}
    assert utils.tree_map(lambda leaf: leaf.shape, tree)["layers"][0]["w"] == (2, 3)
    # MLX's functions take lists of arrays: those of the opened tree.
    found, nesting = flatten_one_implicit_layer(tree)

    def loss(found: Any) -> Any:
        layer = unflatten(nesting, found)["layers"][0]
        return (layer["w"].materialize() + layer["b"]).sum()

    by_b, by_values, by_scale = mx.grad(loss)(found)
    assert by_b.tolist() == [2.0, 2.0, 2.0]
    assert by_values.tolist() == [[2.0] * 3] * 2
    assert by_scale.item() == 6.0


def test_no_jax_is_loaded_for_a_tree() -> None:
    code = """
import sys
from graphc.implicit.trees import *
tree = {"a": [1, (2, None)]}
assert unflatten(structure(tree), leaves(tree)) == tree
assert flatten_with_path(tree)[0][1] == (("a", 1, 0), 2)
assert "jax" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
