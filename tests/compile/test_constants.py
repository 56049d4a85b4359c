"""Arrays in a graph: small ones are part of it, larger ones are passed like arguments."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.ir import Constant, Leaf

x = gt.vector("x", dtype="float32")


def lowered(f: Any, *arguments: Any) -> str:
    """The text that JAX makes of a function's program."""
    leaves = [leaf.op.array for leaf in f.graph.leaves]
    return jax.jit(f.plan().program.trace).lower(*arguments, *leaves).as_text()


def test_an_array_of_ten_elements_is_a_leaf() -> None:
    assert isinstance(gt.constant(np.ones(9)).op, Constant)
    assert isinstance(gt.constant(np.ones(10)).op, Leaf)


def test_a_large_constant_is_not_in_the_program() -> None:
    texts = []
    for size in (10, 100_000):
        f = graphc.function([x], (x * np.arange(size, dtype="float32")).sum(), mode="JAX")
        texts.append(lowered(f, np.ones(size, "float32")))
    assert len(texts[1]) < len(texts[0]) + 200


def test_a_large_constant_is_right(mode: str) -> None:
    weights = np.arange(1000, dtype="float32")
    f = graphc.function([x], x * weights, mode=mode)
    np.testing.assert_array_equal(np.asarray(f(np.ones(1000, "float32"))), weights)


def test_equal_graphs_over_other_data_have_equal_keys() -> None:
    fs = [
        graphc.function([x], gt.tanh(x @ np.full((20, 3), value, "float32")), mode="JAX")
        for value in (1.0, 2.0)
    ]
    assert fs[0].graph.key() == fs[1].graph.key()
    first, second = (np.asarray(f(np.full(20, 0.01, "float32"))) for f in fs)
    np.testing.assert_allclose(first, np.tanh(0.2) * np.ones(3), rtol=1e-5)
    np.testing.assert_allclose(second, np.tanh(0.4) * np.ones(3), rtol=1e-5)


def test_graphs_over_small_constants_differ_in_key() -> None:
    keys = {graphc.function([x], x * v, mode="NUMPY").graph.key() for v in (2.0, 3.0)}
    assert len(keys) == 2


def test_a_leaf_that_decides_a_shape_is_baked() -> None:
    places = np.arange(20)[::2]
    f = graphc.function([x], x[: gt.constant(places)[3]], mode="JAX")
    assert f(np.ones(20, "float32")).shape == (6,)
    assert not f.graph.leaves


def test_bake_makes_an_array_part_of_the_graph() -> None:
    made = gt.constant(np.arange(20.0), bake=True)
    assert isinstance(made.op, Constant)
    assert made is gt.constant(np.arange(20.0), bake=True)


@pytest.mark.parametrize("size", [3, 30])
def test_a_compiled_function_keeps_the_values_it_was_made_with(size: int, mode: str) -> None:
    data = np.ones(size)
    v = gt.vector("v")
    f = graphc.function([v], v + data, mode=mode)
    data[:] = 7.0
    np.testing.assert_array_equal(np.asarray(f(np.zeros(size))), np.ones(size))


def test_a_constant_that_is_an_output_can_be_changed(mode: str) -> None:
    f = graphc.function([], [gt.constant(np.ones(3)), gt.constant(np.ones(30))], mode=mode)
    for y in f():
        np.array(y)[:] = 5.0
        if isinstance(y, np.ndarray):
            y[:] = 5.0
    for y in f():
        np.testing.assert_array_equal(np.asarray(y), np.ones(y.shape))
