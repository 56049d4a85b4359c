"""Derivatives of graphs with implicit arrays: by fields, by others, by the array itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import DisconnectedInputError, GradientError
from graphc.implicit import materializations, materializing
from graphc.implicit.structures.diagonal import Diagonal
from graphc.implicit.structures.lora import LoRA
from graphc.implicit.structures.low_rank import LowRank
from graphc.ir import TensorType
from tests.implicit.symbolic import (
    Coded,
    coded,
    dense,
    like,
    outer,
    shapes_in,
    slope,
    table,
    values,
)

RANDOM = np.random.default_rng(11)
X = RANDOM.normal(size=(2, 4))
W = coded(4, 3)
x = gt.matrix("x")
w = like(W, "w")


def cost_of(y: Any) -> Any:
    return (gt.tanh(y) ** 2).sum()


def cost_by_numpy(y: Any) -> Any:
    return (np.tanh(y) ** 2).sum()


# By fields and by others.


def test_a_gradient_by_a_field_is_what_differences_give(mode: str) -> None:
    with materializing("error"):
        found = values(graphc.grad(cost_of(x @ w), w.array.scale), {x: X, w: W}, mode)
    wanted = slope(lambda scale: cost_by_numpy(X @ (W.codes * scale)), 0, W.scale)
    np.testing.assert_allclose(found, wanted, atol=1e-7)


def test_a_gradient_by_another_input_makes_nothing_whole(mode: str) -> None:
    with materializing("error"):
        found = values(graphc.grad(cost_of(x @ w), x), {x: X, w: W}, mode)
    wanted = slope(lambda x: cost_by_numpy(x @ dense(W)), 0, X)
    np.testing.assert_allclose(found, wanted, atol=1e-7)


KINDS: dict[str, Any] = {
    "LoRA": LoRA(X.T @ X[:, :3], X.T, X[:, :3], np.float64(0.5)),
    "LoRA of another": LoRA(W, X.T, X[:, :3]),
    "LowRank": LowRank(X.T, X[:, :3]),
    "Diagonal": Diagonal(X[0]),
    "Outer": outer(4, 3),
    "Table": table(4, 3),
}


def names_of(value: Any) -> list[str]:
    """The fields that there are gradients by."""
    fields = vars(value).items()
    return [name for name, x in fields if isinstance(x, np.ndarray | np.generic)]


@pytest.mark.parametrize("what", KINDS)
def test_gradients_by_fields_of_every_kind_are_right(what: str, mode: str) -> None:
    value = KINDS[what]
    u = like(value, "u")
    names = names_of(value)
    wrt = [getattr(u.array, name) for name in names]
    found = values(graphc.grad(cost_of(x @ u), [x, *wrt]), {x: X, u: value}, mode)

    def expected(x: Any, *fields: Any) -> Any:
        parts = {**vars(value), **dict(zip(names, fields, strict=True))}
        return cost_by_numpy(x @ dense(type(value)(**parts)))

    at = (X, *[np.asarray(getattr(value, name)) for name in names])
    for i, y in enumerate(found):
        np.testing.assert_allclose(y, slope(expected, i, *at), atol=1e-7)


def test_a_gradient_through_a_layer_that_is_whole_reaches_its_fields(mode: str) -> None:
    value = table(4, 3)
    u = like(value, "u")
    with materializations() as report:
        by_u, by_v = values(graphc.grad(gt.exp(u).sum(), [u.array.u, u.array.v]), {u: value}, mode)
    whole = np.exp(dense(value))
    np.testing.assert_allclose(by_u, whole @ value.v)
    np.testing.assert_allclose(by_v, value.u @ whole)
    assert {entry.type for entry in report} <= {"Table"}


def test_a_gradient_by_a_nested_field_is_right(mode: str) -> None:
    value = LoRA(W, X.T, X[:, :3])
    u = like(value, "u")
    cost = cost_of(x @ u)
    with materializing("error"):
        wrt = [u.array.base.scale, u.array.a]
        by_scale, by_a = values(graphc.grad(cost, wrt), {x: X, u: value}, mode)

    def expected(scale: Any, a: Any) -> Any:
        return cost_by_numpy(X @ (W.codes * scale + a @ X[:, :3]))

    np.testing.assert_allclose(by_scale, slope(expected, 0, W.scale, X.T), atol=1e-7)
    np.testing.assert_allclose(by_a, slope(expected, 1, W.scale, X.T), atol=1e-7)


# By the array itself.


def test_a_gradient_by_the_array_itself_is_dense(mode: str) -> None:
    cost = cost_of(x @ w)
    found = values(graphc.grad(cost, w), {x: X, w: W}, mode)
    assert isinstance(found, np.ndarray)
    wanted = slope(lambda w: cost_by_numpy(X @ w), 0, dense(W))
    np.testing.assert_allclose(found, wanted, atol=1e-7)


def test_gradients_by_the_array_and_by_its_fields_agree(mode: str) -> None:
    by_w, by_scale = values(graphc.grad(cost_of(x @ w), [w, w.array.scale]), {x: X, w: W}, mode)
    np.testing.assert_allclose(by_scale, (by_w * W.codes).sum(0))


# What has no gradient.


def test_integer_fields_have_none() -> None:
    with pytest.raises(GradientError, match="not continuous"):
        graphc.grad(cost_of(x @ w), w.array.codes)


def test_a_field_that_nothing_depends_on_is_disconnected() -> None:
    cost = (x[:, :3] * w.array.scale).sum()
    u = like(table(4, 3), "u")
    with pytest.raises(DisconnectedInputError):
        graphc.grad(cost, u.array.u)
    (found,) = graphc.grad(
        cost, [u.array.u], disconnected_inputs="ignore", return_disconnected="none"
    )
    assert found is None


def test_consider_constant_stops_at_the_array() -> None:
    v = like(coded(4, 3, seed=3), "v")
    cost = ((x @ w) * (x @ v)).sum()
    found = values(
        graphc.grad(cost, v.array.scale, consider_constant=[w]),
        {x: X, w: W, v: coded(4, 3, seed=3)},
    )
    np.testing.assert_allclose(found, ((X @ dense(W)) * (X @ coded(4, 3, seed=3).codes)).sum(0))


def test_no_zeros_are_made_of_what_is_frozen() -> None:
    types = LoRA(
        Coded(TensorType("int8", (50, 40)), TensorType("float64", (40,))),
        TensorType("float64", (50, 2)),
        TensorType("float64", (2, 40)),
    )
    u = gt.implicit(types, name="u")
    z = gt.matrix("z", shape=(3, 50))
    cost = cost_of(z @ u)
    with materializing("error"):
        found = graphc.grad(cost, [u.array.a, u.array.b, z])
        second = graphc.grad(found[0].sum(), [u.array.b])
    # The handler multiplies by the cast codes; nothing else is as large, and no two such arrays.
    order = graphc.function([z, *u.inputs], [*found, *second], "NUMPY").graph.nodes
    large = [y for y in order if y.type.shape in {(50, 40), (40, 50)} and y.inputs]
    assert {y.op.name for y in large} <= {"cast", "transpose"}


def test_a_frozen_base_costs_nothing() -> None:
    u = gt.implicit(LoRA, (50, 40), "float64", name="u", rank=2)
    z = gt.matrix("z", shape=(3, 50))
    with materializing("error"):
        found = graphc.grad(cost_of(z @ u), [u.array.a, u.array.b])
        shapes = shapes_in(found, [z, *u.inputs])
    assert (50, 40) not in shapes


# Higher orders, other ways.


def test_a_second_derivative_is_right(mode: str) -> None:
    first = graphc.grad(cost_of(x @ w), w.array.scale)
    with materializing("error"):
        found = values(graphc.grad((first**2).sum(), w.array.scale), {x: X, w: W}, mode)

    def expected(scale: Any) -> Any:
        z = X @ (W.codes * scale)
        slopes = (2 * np.tanh(z) * (1 - np.tanh(z) ** 2) * (X @ W.codes)).sum(0)
        return (slopes**2).sum()

    np.testing.assert_allclose(found, slope(expected, 0, W.scale), rtol=1e-5, atol=1e-5)


def test_a_hessian_by_a_field_is_right(mode: str) -> None:
    with materializing("error"):
        found = values(graphc.hessian(cost_of(x @ w), w.array.scale), {x: X, w: W}, mode)

    def row(scale: Any, i: int) -> Any:
        z = X @ (W.codes * scale)
        return (2 * np.tanh(z) * (1 - np.tanh(z) ** 2) * (X @ W.codes)).sum(0)[i]

    wanted = [slope(lambda scale, i=i: row(scale, i), 0, W.scale) for i in range(3)]
    np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-5, atol=1e-5)


def test_a_jacobian_by_fields_is_right(mode: str) -> None:
    with materializing("error"):
        found = values(graphc.jacobian((x @ w)[0], w.array.scale), {x: X, w: W}, mode)
    np.testing.assert_allclose(found, np.diag(X[0] @ W.codes))


def test_rop_and_lop_go_through(mode: str) -> None:
    z = gt.vector("z")
    along = RANDOM.normal(size=3)
    y = x @ w
    with materializing("error"):
        forward = values(graphc.Rop(y, w.array.scale, z), {x: X, w: W, z: along}, mode)
        weights = gt.matrix("weights")
        given = RANDOM.normal(size=(2, 3))
        lop = graphc.Lop(y, [w.array.scale, x], weights)
        by_scale, by_x = values(lop, {x: X, w: W, weights: given}, mode)
    np.testing.assert_allclose(forward, X @ (W.codes * along))
    np.testing.assert_allclose(by_scale, ((X @ W.codes) * given).sum(0))
    np.testing.assert_allclose(by_x, given @ dense(W).T)


def test_a_derivative_forwards_goes_through_what_is_whole(mode: str) -> None:
    value = table(4, 3)
    u, z = like(value, "u"), gt.vector("z")
    along = RANDOM.normal(size=4)
    found = values(graphc.Rop(gt.exp(u), u.array.u, z), {u: value, z: along}, mode)
    np.testing.assert_allclose(found, np.exp(dense(value)) * np.outer(along, value.v))


def test_a_batch_of_fields_is_a_stack(mode: str) -> None:
    batch = gt.matrix("batch")
    given = RANDOM.normal(size=(5, 3))
    y = graphc.vectorize_graph(x @ w, {w.array.scale: batch})
    with materializing("error"):
        found = values(y, {x: X, w: W, batch: given}, mode)
    wanted = [X @ (W.codes * scale) for scale in given]
    np.testing.assert_allclose(found, np.stack(wanted))


def test_a_batch_of_what_is_whole_is_told(mode: str) -> None:
    batch = gt.matrix("batch")
    for value in (outer(4, 3), table(4, 3)):
        u = like(value, "u")
        given = RANDOM.normal(size=(5, 4))
        with materializations() as report:
            y = graphc.vectorize_graph(gt.exp(u), {u.array.u: batch})
            found = values(y, {u: value, batch: given}, mode)
        wanted = np.exp(given[:, :, None] * value.v)
        np.testing.assert_allclose(found, wanted)
        assert report


def test_a_function_is_vectorized_over_implicit_fields(mode: str) -> None:
    stack = coded(5, 4, 3)
    s = like(stack, "s")
    y = graphc.vectorize_graph(x @ w, {w.array.codes: s.array.codes, w.array.scale: s.array.scale})
    with materializing("error"):
        found = values(y, {x: X, s: stack}, mode)
    np.testing.assert_allclose(found, X @ dense(stack))


def test_barriers_stand_at_the_fields(mode: str) -> None:
    stopped = graphc.disconnected_grad(w)
    cost = ((x @ stopped) * (x @ w)).sum()
    with materializing("error"):
        found = values(graphc.grad(cost, w.array.scale), {x: X, w: W}, mode)
    np.testing.assert_allclose(found, ((X @ dense(W)) * (X @ W.codes)).sum(0))


@settings(max_examples=30)
@given(st.data())
def test_gradients_of_any_shape_are_those_of_the_dense_array(data: st.DataObject) -> None:
    m, n, k = (data.draw(st.integers(0, 4), label) for label in "mnk")
    make = data.draw(st.sampled_from([outer, table]))
    value = make(m, n, seed=data.draw(st.integers(0, 5)))
    given = np.random.default_rng(1).normal(size=(k, m))
    u, z = like(value, "u"), gt.matrix("z")
    wrt = [z, u.array.u, u.array.v]
    by_z, by_u, by_v = values(graphc.grad(cost_of(z @ u), wrt), {z: given, u: value})
    whole = dense(value)
    product = given @ whole
    g = 2 * np.tanh(product) * (1 - np.tanh(product) ** 2)
    np.testing.assert_allclose(by_z, g @ whole.T, atol=1e-10)
    np.testing.assert_allclose(by_u, (given.T @ g) @ value.v, atol=1e-10)
    np.testing.assert_allclose(by_v, value.u @ (given.T @ g), atol=1e-10)
