"""Parts of a graph are replaced by arrays with more dimensions."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.errors import ArgumentError, AxisError, ShapeError
from graphc.xtensor.vectorization import vectorize_graph
from tests.modes import uncompiled
from tests.xtensor.by_name import given, same


def test_new_dimensions_stand_anywhere_and_come_out_in_front(mode: str) -> None:
    (x, _), (y, _) = given("ab", 1), given("b", 2)
    (xs, a), (ys, b) = given("acb", 3), given("bd", 4)
    made = vectorize_graph(x.dot(y, "b").cumsum("a"), {x: xs, y: ys})
    expected = np.cumsum(np.einsum("acb,bd->cda", a, b), axis=2)
    same(made, "cda", expected, {xs: a, ys: b}, uncompiled(mode))


def test_an_output_has_the_new_dimensions_that_it_depends_on() -> None:
    (x, v), (y, _) = given("a", 1), given("b", 2)
    ys, b = given("dbc", 3)
    whole, part, none = vectorize_graph([x * y, y.sum(), x * 2], {y: ys})
    same(whole, "dcab", v[:, None] * b.transpose(0, 2, 1)[:, :, None], {x: v, ys: b})
    same(part, "dc", b.sum(1), {ys: b})
    assert none == x * 2


def test_arrays_without_names_get_names_for_their_new_axes() -> None:
    x, y = gx.xtensor("x", dims=("a",), shape=(2,)), gt.tensor("y", shape=(2,))
    xs, a = given("ac", 1)
    ys, b = gt.tensor("ys", shape=(3, 1, 2)), np.arange(6.0).reshape(3, 1, 2)
    outputs = [x + gx.as_xtensor(y, dims="a"), y * 2]
    named, plain = vectorize_graph(outputs, {x: xs, y: ys}, new_tensor_dims=("p", "q"))
    same(named, "cpa", b[None, :, 0] + a.T[:, None], {xs: a, ys: b})
    assert plain.eval({ys: b}, mode="NUMPY").shape == (1, 3, 1, 2)


def test_the_function_of_graphc_takes_named_arrays_too() -> None:
    x, _ = given("a", 1)
    xs, a = given("ab", 2)
    same(graphc.vectorize_graph(x.sum(), {x: xs}), "b", a.sum(0), {xs: a})


def test_what_does_not_fit_is_refused() -> None:
    x, y = given("ab")[0], gt.vector("y")
    with pytest.raises(AxisError, match="lacks the dimension 'a'"):
        vectorize_graph(x, {x: given("bc")[0]})
    with pytest.raises(AxisError, match=r"has 1 new axes, new_tensor_dims=\(\)"):
        vectorize_graph(gx.as_xtensor(y, dims="a"), {y: gt.matrix("ys")})
    with pytest.raises(ArgumentError, match="'a' comes twice"):
        vectorize_graph(gx.as_xtensor(y, dims="a"), {y: gt.matrix("ys")}, new_tensor_dims="a")
    with pytest.raises(ArgumentError, match="is no array of the graph"):
        vectorize_graph(x, {1: x})
    (one, two), w = (gx.xtensor(dims=("a", "q"), shape=(2, n)) for n in (1, 3)), given("a", 1)[0]
    z = gx.xtensor("z", dims="a", shape=(2,))
    with pytest.raises(ShapeError, match="'q' has the length 1"):
        vectorize_graph(w + z, {w: one, z: two})
