"""Implicit arrays as parts of graphs: inputs, shared variables, constants, and what reads them."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import DTypeError, HandlerError, ImplicitArrayError, ShapeError
from graphc.implicit import (
    CSR,
    ImplicitTensor,
    expanded,
    materializations,
    materializing,
    register,
    unregister,
)
from graphc.implicit.node import Implicit
from graphc.implicit.structures.lora import LoRA
from graphc.ir import Graph, TensorType, toposort
from tests.implicit.symbolic import Coded, Outer, coded, dense, like, outer, table, values
from tests.modes import uncompiled

x = gt.matrix("x")
w = gt.implicit(Coded, (4, 3), "float64", name="w")
X, W = np.random.default_rng(1).normal(size=(2, 4)), coded(4, 3)


def test_an_input_is_a_tensor_that_has_an_array() -> None:
    assert isinstance(w, ImplicitTensor)
    assert w.type == TensorType("float64", (4, 3))
    assert [field.type for field in w.inputs] == [w.array.codes.type, w.array.scale.type]
    assert isinstance(w.array, Coded)
    assert w.array.bits == 8


def test_an_input_and_its_fields_have_names() -> None:
    assert w.name == "w"
    assert [field.name for field in w.inputs] == ["w.codes", "w.scale"]
    assert gt.implicit(Coded, (4, 3)).name is None
    assert gt.as_tensor(Coded(w.array.codes, 2 * w.array.scale)).name is None


def test_an_operation_runs_its_handler_on_every_backend(mode: str) -> None:
    with materializing("error"):
        found = values(x @ w, {x: X, w: W}, mode)
    np.testing.assert_allclose(found, X @ dense(W))


def test_what_has_no_handler_takes_the_array_whole_on_every_backend(mode: str) -> None:
    with materializations() as report:
        found = values(gt.exp(w), {w: W}, mode)
    np.testing.assert_allclose(found, np.exp(dense(W)))
    assert [(x.what, x.type, x.shape, x.bytes) for x in report] == [("exp", "Coded", (4, 3), 96)]
    assert report[0].where is not None
    assert "test_symbolic.py" in report[0].where


def test_lengths_make_nothing_whole(mode: str) -> None:
    w = gt.implicit(Coded, (None, None), "float64")
    with materializing("error"):
        found = values([w.shape, w.shape[0] * 2], {w: W}, mode)
    assert [y.tolist() for y in found] == [[4, 3], 8]


def test_a_constant_keeps_its_form(mode: str) -> None:
    with materializing("error"):
        found = values(x @ gt.as_tensor(W), {x: X}, mode)
    np.testing.assert_allclose(found, X @ dense(W))


def test_an_implicit_array_is_an_operand_of_symbolic_ones(mode: str) -> None:
    with materializing("error"):
        found = values([x @ W, gt.matmul(x, W), x @ Coded(W.codes, x[0, :3])], {x: X}, mode)
    np.testing.assert_allclose(found[0], X @ dense(W))
    np.testing.assert_allclose(found[1], X @ dense(W))
    np.testing.assert_allclose(found[2], X @ dense(Coded(W.codes, X[0, :3])))


def test_equal_arrays_of_equal_fields_are_one_node() -> None:
    assert gt.as_tensor(Coded(w.array.codes, w.array.scale)) is w
    other = gt.as_tensor(Coded(w.array.codes, w.array.scale, 4))
    assert other is not w
    assert Graph(w.inputs, [w]).key() != Graph(w.inputs, [other]).key()


def test_nested_implicit_arrays_are_one_node_of_all_fields() -> None:
    base = gt.implicit(Coded, (4, 3), "float64", name="base")
    a, b = gt.matrix("a", shape=(4, 2)), gt.matrix("b", shape=(2, 3))
    nested = gt.as_tensor(LoRA(base, a, b))
    assert nested.inputs == (*base.inputs, a, b)
    assert isinstance(nested.array.base, Coded)
    assert gt.as_tensor(LoRA(base.array, a, b)) is nested


def test_a_nested_array_runs_the_handlers_of_all_its_layers(mode: str) -> None:
    lora = LoRA(W, np.ones((4, 2)), np.full((2, 3), 0.5))
    u = like(lora, "u")
    with materializing("error"):
        found = values(x @ u, {x: X, u: lora}, mode)
    np.testing.assert_allclose(found, X @ (dense(W) + 1.0))


def test_expanded_leaves_what_it_is_told_to() -> None:
    y = x @ w
    assert w not in toposort(expanded([y]))
    assert expanded([y], [w]) == [y]


def test_a_graph_goes_through_pickle() -> None:
    y = pickle.loads(pickle.dumps(Graph([x, *w.inputs], [x @ w, w])))
    assert isinstance(y.outputs[1], ImplicitTensor)
    assert y.key() == Graph([x, *w.inputs], [x @ w, w]).key()
    u, codes, scale = y.inputs
    f = graphc.function([u, codes, scale], y.outputs[0], "NUMPY")
    np.testing.assert_allclose(f(X, W.codes, W.scale), X @ dense(W))


def test_a_shared_array_has_the_value_it_was_given_last() -> None:
    s = graphc.shared(W, "s")
    assert s.name == "s"
    np.testing.assert_array_equal(dense(s.get_value()), dense(W))
    other = coded(5, 2, seed=3)
    s.set_value(other)
    np.testing.assert_array_equal(dense(s.get_value()), dense(other))


def test_a_shared_array_is_not_set_halfway() -> None:
    s = graphc.shared(W)
    other = coded(4, 3, seed=5)
    with pytest.raises(DTypeError):
        s.set_value(Coded(other.codes, other.scale.astype(complex)))
    np.testing.assert_array_equal(s.get_value().codes, W.codes)
    with pytest.raises(ImplicitArrayError, match="bits=4"):
        s.set_value(Coded(W.codes, W.scale, 4))
    with pytest.raises(ImplicitArrayError, match="ndarray"):
        s.set_value(dense(W))


def test_a_copy_of_a_shared_array_is_another_variable() -> None:
    s = graphc.shared(W)
    t = deepcopy(s)
    t.set_value(coded(4, 3, seed=9))
    np.testing.assert_array_equal(dense(s.get_value()), dense(W))
    assert deepcopy(w) is w


def test_a_value_is_asked_of_shared_fields_alone() -> None:
    with pytest.raises(ImplicitArrayError, match="no value of its own"):
        w.get_value()


def test_printed_graphs_show_the_form() -> None:
    assert "Coded" in str(graphc.pprint(x @ w))
    assert "bits=8" in str(graphc.dprint(x @ w, file="str"))
    assert repr(w) == "Coded(w.codes, w.scale): float64[4, 3]"


def test_a_handler_of_another_type_is_told_of() -> None:
    @register(gt.tanh)
    def wrong(x: Coded) -> Any:
        return x.scale

    try:
        with pytest.raises(HandlerError, match=r"float64\[3\]"):
            graphc.function([w], gt.tanh(w), mode="NUMPY")
    finally:
        unregister(gt.tanh, wrong)


def test_a_length_that_is_none_is_an_error_of_shapes() -> None:
    with pytest.raises(ShapeError, match="-1 is not a static length"):
        gt.implicit(CSR, (3, 4), "float64", "w", nse=-1)


def test_a_class_without_spec_says_what_is_missing() -> None:
    with pytest.raises(ImplicitArrayError, match="spec"):
        gt.implicit(Outer, (3, 3))
    with pytest.raises(ImplicitArrayError, match="shape is missing"):
        gt.implicit(Coded)
    with pytest.raises(ImplicitArrayError, match="expected a class"):
        gt.implicit(np.ones((2, 2)))


def test_fields_without_arrays_are_no_inputs() -> None:
    lora = LoRA(np.ones((3, 2)), np.ones((3, 1)), np.ones((1, 2)))
    u = like(lora, "u")
    assert [field.name for field in u.inputs] == ["u.base", "u.a", "u.b"]
    found = values(gt.ones(3) @ u, {u: lora})
    np.testing.assert_allclose(found, [6.0, 6.0])


@given(st.data())
def test_a_program_of_fields_gives_what_the_dense_one_gives(data: st.DataObject) -> None:
    m, n, k = (data.draw(st.integers(0, 4), label) for label in "mnk")
    make = data.draw(st.sampled_from([coded, outer, table]))
    value = make(m, n, seed=data.draw(st.integers(0, 9)))
    u = like(value, "u")
    z = gt.matrix("z")
    given = np.random.default_rng(0).normal(size=(k, m))
    found = values([z @ u, u * 2.0, gt.tanh(u).sum()], {z: given, u: value})
    whole = dense(value)
    wanted = [given @ whole, 2 * whole, np.tanh(whole).sum()]
    for y, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(dense(y) if isinstance(y, Coded) else y, expected, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_an_input_of_every_floating_dtype_runs(dtype: str, mode: str) -> None:
    u = gt.implicit(Coded, (4, 3), dtype, name="u")
    assert u.dtype == dtype
    z = gt.matrix("z", dtype=dtype)
    scale = np.array([0.5, 1.0, 2.0]).astype(u.array.scale.type.numpy_dtype)
    ones = np.ones((2, 4)).astype(scale.dtype)
    f = graphc.function([z, u], z @ u, uncompiled(mode), returns="numpy")
    found = f(ones, Coded(W.codes, scale))
    assert found.dtype == scale.dtype
    wanted = ones.astype("float64") @ (W.codes * scale.astype("float64"))
    np.testing.assert_allclose(found.astype("float64"), wanted, rtol=1e-2)


def test_implicit_nodes_are_gone_where_all_is_handled() -> None:
    f = graphc.function([x, w], x @ w, mode="NUMPY")
    assert not [node for node in f.graph.nodes if isinstance(node.op, Implicit)]


def test_implicit_refuses_an_array_of_symbolic_fields_which_is_no_type_of_an_input() -> None:
    u, v = graphc.shared(np.ones((4, 2)), name="u"), graphc.shared(np.ones((2, 5)), name="v")
    w, x = graphc.implicit.LowRank(u, v), gt.vector("x")
    with pytest.raises(ImplicitArrayError, match="symbolic already") as caught:
        gt.implicit(w)
    assert "gt.as_tensor(w)" in caught.value.remedy
    loss = ((gt.as_tensor(w) @ x) ** 2).sum()
    f = graphc.function([x], [loss, *graphc.grad(loss, [u, v])], mode="NUMPY")
    value, by_u, by_v = f(np.arange(5.0))
    # Each element of w @ x is 2 * 10.
    np.testing.assert_allclose(value, 4 * 20.0**2)
    np.testing.assert_allclose(by_u, np.full((4, 2), 2 * 20.0 * 10))
    np.testing.assert_allclose(by_v, np.broadcast_to(4 * 2 * 20.0 * np.arange(5.0), (2, 5)))
