"""What takes whole graphs takes arrays with named dimensions, and no program knows of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
import graphc.xtensor as gx
from graphc.errors import ArgumentError, GradientError, ShapeError, SymbolicValueError
from tests.modes import uncompiled
from tests.xtensor.by_name import Named, given, same

X, XV = given("ab", 1, known=False)
W, WV = given("b", 2, known=False)
LOSS = ((X * W) ** 2).sum()


# Functions.


def test_a_function_takes_and_returns_plain_arrays_in_any_structure(mode: str) -> None:
    f = graphc.function(
        [{"x": X}, graphc.In(W, value=WV)],
        {"total": graphc.Out(X.dot(W, "b")), "parts": [X.T, W]},
        mode=uncompiled(mode),
        returns="numpy",
    )
    found = f({"x": XV})
    np.testing.assert_allclose(found["total"], XV @ WV)
    assert found["parts"][0].tolist() == XV.T.tolist()
    native = graphc.function([X], X, returns="native")
    assert isinstance(native(XV), graphc.link.load("JAX").kinds[-1])


def test_a_program_is_that_of_the_same_graph_by_position() -> None:
    x, w = gt.matrix("x"), gt.vector("w")
    by_position = graphc.function([x, w], (gt.exp(x) * w).sum(1), mode="NUMPY")
    by_name = graphc.function([X, W], (gx.math.exp(X) * W).sum("b"), mode="NUMPY")
    assert by_name.key == by_position.key


def test_a_value_with_names_is_put_in_order() -> None:
    f = graphc.function([X], X.sum("a"), mode="NUMPY")
    assert f(Named(XV.T, ("b", "a"))).tolist() == f(XV).tolist()
    assert X.sum("a").eval({X: Named(XV.T, ("b", "a"))}, mode="NUMPY").tolist() == f(XV).tolist()
    with pytest.raises(ShapeError, match=r"\('b', 'c'\) for x1: .*\nGive it the dimensions \('a'"):
        f(Named(XV.T, ("b", "c")))
    with pytest.raises(
        ArgumentError, match=r"expected float64\[a=\?, b=\?\], got an array of shape \(3,\)"
    ):
        f(WV)
    with pytest.raises(ArgumentError, match="the symbolic"):
        f(X)


def test_givens_and_clone_replace_align_by_name() -> None:
    swapped = gx.xtensor("swapped", dims=("b", "a"))
    f = graphc.function([swapped], X.sum("a"), givens={X: swapped}, mode="NUMPY")
    assert f(XV.T).tolist() == XV.sum(0).tolist()
    assert graphc.clone_replace([X * 2], {X: swapped}) == [swapped.T * 2]
    with pytest.raises(ShapeError, match="A value with the dimensions"):
        graphc.clone_replace(X, {X: W})
    with pytest.raises(SymbolicValueError, match=r"write x.values"):
        graphc.clone_replace(W.values, {W.values: W})


def test_a_shared_variable_keeps_its_dimensions() -> None:
    w = gx.xtensor_shared(Named(WV, ("b",)), name="w")
    step = graphc.function([X], X.dot(w), updates={w: w + X.sum("a")}, mode="NUMPY")
    step(XV)
    np.testing.assert_allclose(w.get_value(), WV + XV.sum(0))
    w.set_value(WV)
    assert (repr(w), step(XV).tolist()) == ("w: float64[b=?]", (XV @ WV).tolist())
    pair = graphc.shared(gx.as_xtensor(XV, dims=("a", "b")), name="pair")
    named = graphc.shared(Named(XV, ("a", "b")))
    assert pair.dims == named.dims == ("a", "b")
    pair.set_value(Named(XV.T + 1, ("b", "a")))
    np.testing.assert_allclose(pair.get_value(), XV + 1)


def test_a_shared_variable_may_be_left_as_it_is() -> None:
    n = gx.xtensor_shared(0.0, name="n")
    n.values.default_update = n + 1
    assert float(graphc.function([], n, no_default_updates=[n], mode="NUMPY")()) == 0.0
    f = graphc.function([], n, mode="NUMPY")
    assert (float(f()), float(f())) == (0.0, 1.0)


# Derivatives.


def test_a_gradient_has_the_dimensions_of_what_it_is_with_respect_to(mode: str) -> None:
    by_x, by_w = graphc.grad(LOSS, (X, W))
    values = {X: XV, W: WV}
    same(by_x, "ab", 2 * XV * WV**2, values, uncompiled(mode))
    same(by_w, "b", 2 * (XV**2 * WV).sum(0), values, uncompiled(mode))
    assert graphc.grad(LOSS, X.values) is by_x.values
    assert graphc.grad(LOSS, X, consider_constant=[X * W], disconnected_inputs="ignore").dims == (
        "a",
        "b",
    )


def test_gradients_agree_with_finite_differences() -> None:
    def f(x: Any, w: Any) -> Any:
        a, b = gx.as_xtensor(x, dims=("a", "b")), gx.as_xtensor(w, dims=("b",))
        y = gx.concat([a * b, gx.math.exp(a.cumsum("b"))], "c").stack(z=("c", "a"))
        return (y.isel(z=[0, 0, 3]).mean("z") * b.std()).sum().values

    graphc.verify_grad(f, [XV, WV], rng=np.random.default_rng(0), mode="NUMPY")


def test_cotangents_and_tangents_align_by_name() -> None:
    g = gx.xtensor("g", dims=("b", "a"))
    same(graphc.pullback(X**2, X, g), "ab", 2 * XV * 3, {X: XV, g: np.full((3, 2), 3.0)})
    same(
        graphc.grad(None, X, known_grads={X * W: g}),
        "ab",
        WV * np.ones((2, 3)),
        {W: WV, g: np.ones((3, 2)), X: XV},
    )
    same(graphc.pushforward((X**2).T, X, g), "ba", (2 * XV * 3).T, {X: XV, g: np.full((3, 2), 3.0)})
    same(
        graphc.hessian_vector_product((X**3).sum(), X, g), "ab", 6 * XV, {X: XV, g: np.ones((3, 2))}
    )
    with pytest.raises(ShapeError, match="A value with the dimensions"):
        graphc.pullback(X, X, W)


def test_jacobians_and_hessians_are_by_position() -> None:
    assert isinstance(graphc.hessian((W**3).sum(), W), gt.Tensor)
    with pytest.raises(SymbolicValueError, match=r"x.values"):
        graphc.jacobian(W**2, W)
    with pytest.raises(GradientError, match="which is not a scalar"):
        graphc.grad(W, W)


# Loops.


def test_a_scan_goes_along_the_first_dimension(mode: str) -> None:
    start = gx.xtensor("start", dims=("a",))
    y = graphc.scan(lambda row, y: 0.5 * y + row, X.T, outputs_info=start)
    expected = [np.zeros(2)]
    for row in XV.T:
        expected.append(0.5 * expected[-1] + row)
    values = {X: XV, start: np.zeros(2)}
    same(y, "ba", expected[1:], values, uncompiled(mode))
    slope = graphc.grad(y.isel(b=-1).sum(), X)
    same(slope, "ab", np.tile([0.25, 0.5, 1.0], (2, 1)), values, uncompiled(mode))


def test_states_taps_and_results_keep_their_dimensions() -> None:
    start = gx.xtensor("start", dims=("lag", "a"), shape=(2, 2))

    def step(now: gx.XTensor, before: gx.XTensor, past: gx.XTensor, w: gx.XTensor) -> list[Any]:
        assert (now.dims, before.dims, past.dims, w.dims) == (("a",),) * 3 + (("b",),)
        return [now - before + past, w.sum() + now.sum(), now.expand_dims("q")]

    states = [{"initial": start, "taps": [-2]}, None, None]
    sequences = [{"input": X.T, "taps": [0, -1]}]
    first, total, wide = graphc.scan(step, sequences, states, [W])
    assert (first.dims, total.dims, wide.dims) == (("b", "a"), ("b",), ("b", "q", "a"))
    values = {X: XV, start: np.zeros((2, 2)), W: WV}
    same(first, "ba", XV.T[1:] - XV.T[:-1], values)
    with pytest.raises(ShapeError, match=r"A value with the dimensions \('c', 'a'\)"):
        graphc.scan(lambda *xs: [(xs[0] + xs[2]).expand_dims("c"), 0, 0], sequences, states, [W])


def test_steps_without_a_named_sequence_are_the_dimension_step() -> None:
    y = graphc.scan(lambda x: (x * 2, graphc.until((x * 2).max() > 30)), outputs_info=W, n_steps=9)
    assert y.dims == ("step", "b")
    last = graphc.reduce(lambda row, y: y + row, X, outputs_info=X.isel(a=0) * 0)
    same(last, "b", XV.sum(0), {X: XV})
    with pytest.raises(ArgumentError, match=r"goes along the dimensions 'a', 'b' at once"):
        graphc.scan(lambda x, w: x * w, [X, X.T])


# Graphs as text and pictures.


def test_printing_and_explaining_show_the_array() -> None:
    y = gx.math.log(1 + X * 1)
    assert graphc.dprint([y], file="str") == y.dprint(file="str") == y.values.dprint(file="str")
    assert graphc.pprint(y) == graphc.pprint(y.values)
    assert graphc.explain(y).graph.outputs[0] is gt.log1p(X.values)
    assert "log1p" in str(graphc.explain([y]))


# Loops over containers, choices, subgraphs and barriers.


def test_a_loop_over_containers_keeps_names_of_carries_elements_and_rows() -> None:
    def step(carry: dict[str, Any], row: gx.XTensor) -> tuple[Any, Any]:
        assert (carry["sum"].dims, row.dims) == (("b",), ("b",))
        return {"sum": row + carry["sum"], "n": carry["n"] + 1}, (row * W, row.sum())

    begun = {"sum": gx.zeros_like(W), "n": 0}
    final, (rows, sums) = graphc.loop(step, begun, X)
    values = {X: XV, W: WV}
    same(final["sum"], "b", XV.sum(0), values)
    same(rows, "ab", XV * WV, values)
    same(sums, "a", XV.sum(1), values)
    doubled = graphc.while_loop(lambda y: y.max() < 100, lambda y: y * 2, W, max_steps=20)
    assert doubled.dims == ("b",)
    with pytest.raises(ShapeError, match=r"A value with the dimensions \('b', 'c'\)"):
        graphc.loop(lambda w, _: (w.expand_dims("c", axis=-1), None), W, n_steps=2)


def test_a_choice_aligns_its_branches_by_name() -> None:
    positive = X.sum() > 0
    other = gx.xtensor("other", dims=("b", "a"))
    values = {X: XV, other: -XV.T}
    same(graphc.ifelse(positive, X, other), "ab", XV, values)
    same(
        graphc.cond(positive, lambda x: x.sum("a"), lambda x: x.max("a"), X), "b", XV.sum(0), values
    )
    with pytest.raises(ShapeError, match="A value with the dimensions"):
        graphc.ifelse(positive, X, W)


def test_a_subgraph_takes_and_gives_arrays_with_names() -> None:
    center = graphc.OpFromGraph([X], [X - X.mean("b"), X.T])
    other = gx.xtensor("other", dims=("b", "a"))
    first, second = center(other)
    same(first, "ab", XV - XV.mean(1, keepdims=True), {other: XV.T})
    same(second, "ba", XV.T, {other: XV.T})


def test_barriers_and_verify_grad_take_arrays_with_names() -> None:
    y = (graphc.disconnected_grad(W) * W).sum()
    same(graphc.grad(y, W), "b", WV, {W: WV})
    assert graphc.grad_clip(W, -1, 1).dims == graphc.zero_grad(W).dims == ("b",)
    graphc.verify_grad(lambda w: (gx.as_xtensor(w, dims="b") ** 2).sum(), [WV], mode="NUMPY")
