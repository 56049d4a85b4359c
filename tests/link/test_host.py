"""What is known while a backend compiles: lengths, constants, and integers that decide shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc.tensor as gt
from graphc.errors import DynamicShapeError
from graphc.ir import Graph
from graphc.link import analyse

x = gt.vector("x")
n, m = gt.lscalar("n"), gt.lscalar("m")
sizes = gt.lvector("sizes", shape=(2,))
mask = gt.vector("mask", dtype="bool")

DECIDES: dict[str, tuple[list[Any], Any, list[Any]]] = {
    "a bound of a slice": ([x, n], x[:n], [n]),
    "a part of arithmetic": ([x, n, m], x[: 2 * n + gt.maximum(m, 1)], [n, m]),
    "a number of a range": ([n, m], gt.arange(n, m), [n, m]),
    "a length of an array": ([n, m], gt.zeros((n, m)), [n, m]),
    "a vector of lengths": ([sizes], gt.zeros(sizes), [sizes]),
    "a target of reshape": ([x, n], x.reshape(n, -1), [n]),
    "an integer that indexes": ([x, n], x[n], []),
    "an integer that multiplies": ([x, n], x * n, []),
    "a length": ([x], gt.zeros(x.shape[0] + 1), []),
    "a length beside an input": ([x, n], gt.zeros(x.shape[0] + n), [n]),
    "an array whose length decides": ([x, n], gt.zeros((x * n).shape[0]), []),
    "a float cast to an integer": ([x, n], gt.zeros(gt.cast(x.shape[0] * 1.5, "int64")), []),
}


@pytest.mark.parametrize("case", DECIDES)
def test_the_inputs_that_decide_shapes_are_found(case: str) -> None:
    inputs, output, expected = DECIDES[case]
    host = analyse(Graph(inputs, [output]))
    assert [inputs[i] for i in host.inputs] == expected


def test_what_is_computed_from_lengths_is_on_the_host() -> None:
    length = x.shape[0] * 2 + 1
    y = gt.arange(length) * x.sum()
    host = analyse(Graph([x], [y]))
    assert length in host.nodes
    assert x not in host.nodes
    assert y not in host.nodes


def test_what_is_computed_from_values_is_not_on_the_host() -> None:
    total = x.sum()
    host = analyse(Graph([x], [total * x.shape[0]]))
    assert total not in host.nodes


def test_a_large_result_of_lengths_is_not_on_the_host() -> None:
    large = gt.broadcast_to(x.shape[0], (1000,))
    assert large not in analyse(Graph([x], [large])).nodes


def test_a_leaf_that_decides_a_shape_is_found() -> None:
    leaf = gt.constant(np.arange(20) % 3 == 0)
    graph = Graph([gt.vector()], [gt.nonzero(leaf)[0]])
    assert [graph.leaves[i] for i in analyse(graph).leaves] == [leaf]


def test_a_leaf_that_decides_none_is_not() -> None:
    leaf = gt.constant(np.arange(20.0))
    assert analyse(Graph([x], [x + leaf])).leaves == ()


REFUSED: dict[str, tuple[Any, list[Any], str]] = {
    "a mask": (x[x > 0].sum(), [x], r"gt\.where\(mask, a, b\)"),
    "a mask that is an input": (x[mask], [x, mask], r"gt\.where\(mask, a, b\)"),
    "places": (gt.nonzero(x)[0], [x], r"mode='NUMPY'"),
    "a float": (gt.zeros(gt.cast(x.sum(), "int64")), [x], "integer inputs"),
    "an element of a float array": (gt.arange(x[0]), [x], "integer inputs"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_shape_that_depends_on_values_is_refused_with_a_way_out(case: str) -> None:
    y, inputs, remedy = REFUSED[case]
    with pytest.raises(DynamicShapeError, match=remedy) as error:
        analyse(Graph(inputs, [y]))
    assert error.value.where is not None
    assert error.value.where.startswith("test_host.py:")
