"""Products of many matrices take few multiplications, and keep their values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.ir import Graph, Node
from graphc.rewrite import optimize
from graphc.rewrite.algebra.chains import cheapest_splits
from graphc.tensor.linalg.dot import DotGeneral
from tests.reference import evaluate
from tests.work import python_calls


def fewest(sizes: list[int]) -> int:
    """By trying every place for the last product."""
    n = len(sizes) - 1
    return min(
        (
            fewest(sizes[: k + 1]) + fewest(sizes[k:]) + sizes[0] * sizes[k] * sizes[n]
            for k in range(1, n)
        ),
        default=0,
    )


@given(st.lists(st.integers(1, 9), min_size=2, max_size=8))
def test_the_fewest_multiplications_are_found(sizes: list[int]) -> None:
    assert cheapest_splits(sizes)[0] == fewest(sizes)


def multiplications(xs: Iterable[Node], y: Node) -> int:
    """How many a graph takes, all of whose products are of matrices."""
    found = 0
    for node in Graph([*xs], [y]).nodes:
        if isinstance(node.op, DotGeneral):
            (axis,) = node.op.contract[0]
            found += math.prod(node.type.shape) * node.inputs[0].type.shape[axis]
    return found


@st.composite
def chains(draw: Any) -> tuple[Any, dict[Node, Any], list[int]]:
    """A product in some order of matrices, some of them transposed; their values and lengths."""
    sizes = draw(st.lists(st.sampled_from([2, 3, 5, 20, 40]), min_size=5, max_size=9))
    values: dict[Node, Any] = {}
    parts: list[Any] = []
    for n, m in pairwise(sizes):
        turned = draw(st.booleans())
        x = gt.tensor(shape=(m, n) if turned else (n, m))
        # Small whole numbers, whose products are exact in any order.
        values[x] = np.random.default_rng(len(parts)).integers(-2, 3, x.type.shape).astype(float)
        parts.append(x.T if turned else x)
    while len(parts) > 1:
        at = draw(st.integers(0, len(parts) - 2))
        a, b = parts[at : at + 2]
        parts[at : at + 2] = [(b.T @ a.T).T if draw(st.booleans()) else a @ b]
    return parts[0], values, sizes


@settings(max_examples=60, deadline=None, derandomize=True)
@given(chains())
def test_a_chain_in_any_order_comes_out_near_the_best(
    chain: tuple[Any, dict[Node, Any], list[int]],
) -> None:
    y, values, sizes = chain
    (done,) = optimize(Graph([*values], [y]), checking=True).graph.outputs
    # Where the last product is most of it, those before it may be others' as well.
    assert (
        cheapest_splits(sizes)[0] <= multiplications(values, done) <= 4 * cheapest_splits(sizes)[0]
    )
    assert multiplications(values, done) <= multiplications(values, y)
    np.testing.assert_array_equal(*evaluate([y, done], values))


def test_an_order_is_found_to_which_no_exchange_of_three_factors_leads() -> None:
    sizes = [40, 2, 3, 20, 40, 20]
    a, b, c, d, e = xs = [gt.tensor(shape=shape) for shape in pairwise(sizes)]
    graph = Graph(xs, [(a @ b) @ (c @ (d @ e))])
    (alone,) = optimize(graph, excluding=["dot_of_many"]).graph.outputs
    (done,) = optimize(graph).graph.outputs
    assert multiplications(xs, alone) == 18920
    assert multiplications(xs, done) == cheapest_splits(sizes)[0] == 4920


@pytest.mark.parametrize("backend", ["NUMPY", "JAX", "MLX"])
def test_a_chain_has_its_values_on_every_backend(backend: str) -> None:
    random = np.random.default_rng(0)
    values = [random.normal(size=shape) for shape in [(2, 30), (30, 3), (3, 30), (30, 4), (4, 9)]]
    xs = [gt.tensor(shape=value.shape) for value in values]
    y = xs[0] @ ((xs[1] @ xs[2]) @ xs[3]) @ xs[4]
    f = graphc.function(xs, y, mode=backend)
    np.testing.assert_allclose(f(*values), np.linalg.multi_dot(values), rtol=1e-9)


def test_a_long_chain_takes_work_in_proportion() -> None:
    def calls(n: int) -> int:
        xs = [gt.tensor(shape=(9, 9)) for _ in range(n)]
        graph = Graph(xs, [reduce(gt.matmul, xs, gt.constant(np.ones((4, 9)), bake=True))])
        return python_calls(lambda: optimize(graph))

    calls(20)
    assert calls(400) < 5 * calls(100)


def test_a_product_whose_inner_length_is_unknown_stays() -> None:
    a, b = gt.tensor("a", shape=(3, None)), gt.tensor("b", shape=(None, 2))
    graph = Graph([a, b], [a @ b])
    assert optimize(graph).graph.outputs == graph.outputs
