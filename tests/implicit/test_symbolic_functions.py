"""Functions that take, give, keep and replace implicit arrays."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc import In
from graphc.errors import ArgumentError, DTypeError, UnusedInputError
from graphc.implicit import materializing
from graphc.implicit.structures.lora import LoRA
from tests.implicit.symbolic import Coded, coded, dense, like
from tests.modes import uncompiled

x = gt.matrix("x")
w = gt.implicit(Coded, (4, 3), "float64", name="w")
X, W, V = np.random.default_rng(1).normal(size=(2, 4)), coded(4, 3), coded(4, 3, seed=2)
PRODUCT = X @ dense(W)


class Layer(NamedTuple):
    """A container of one."""

    weight: Any
    bias: Any


def of_library(library: str, value: Coded) -> Coded:
    """The same with arrays of another library."""
    if library == "numpy":
        return value
    array = {"jax.numpy": "array", "mlx.core": "array"}[library]
    make = getattr(importlib.import_module(library), array)
    return Coded(make(value.codes), make(value.scale.astype("float32")), value.bits)


# Arguments.


def test_an_implicit_argument_is_given_by_place_or_by_name(mode: str) -> None:
    f = graphc.function([x, w], x @ w, uncompiled(mode), returns="numpy")
    np.testing.assert_allclose(f(X, W), PRODUCT)
    np.testing.assert_allclose(f(X, w=W), PRODUCT)
    np.testing.assert_allclose(f(w=V, x=X), X @ dense(V))


def test_calls_that_are_settled_take_them_too(mode: str) -> None:
    f = graphc.function([x, w], x @ w, uncompiled(mode), returns="numpy")
    for _ in range(50):
        np.testing.assert_allclose(f(X, w=W), PRODUCT)


@pytest.mark.parametrize("library", ["numpy", "jax.numpy", "mlx.core"])
def test_fields_may_be_arrays_of_any_library(library: str, mode: str) -> None:
    z = gt.matrix("z", dtype="float32")
    u = gt.implicit(Coded, (4, 3), "float32", name="u")
    f = graphc.function([z, u], z @ u, uncompiled(mode), returns="numpy")
    value = Coded(W.codes, W.scale.astype("float32"))
    found = f(X.astype("float32"), of_library(library, value))
    np.testing.assert_allclose(found, PRODUCT, rtol=1e-5, atol=1e-5)


def test_arguments_are_nested_as_their_inputs_are(mode: str) -> None:
    layers = {"a": Layer(w, gt.vector("b")), "c": [like(coded(3, 3), "v")]}
    y = (x @ layers["a"].weight + layers["a"].bias) @ layers["c"][0]
    f = graphc.function([x, layers], y, uncompiled(mode), returns="numpy")
    u = coded(3, 3, seed=4)
    found = f(X, {"c": [u], "a": Layer(W, np.ones(3))})
    np.testing.assert_allclose(found, (PRODUCT + 1) @ dense(u))


def test_an_argument_that_is_left_out_has_its_default(mode: str) -> None:
    f = graphc.function([x, In(w, value=W)], x @ w, uncompiled(mode), returns="numpy")
    np.testing.assert_allclose(f(X), PRODUCT)
    np.testing.assert_allclose(f(X, w=V), X @ dense(V))


def test_in_gives_it_another_name() -> None:
    f = graphc.function([x, In(w, name="weights")], x @ w, mode="NUMPY")
    np.testing.assert_allclose(f(X, weights=W), PRODUCT)
    assert "weights: Coded(int8[4, 3], float64[3], bits=8)" in repr(f)


def test_an_argument_without_a_name_has_its_place() -> None:
    u = gt.implicit(Coded, (4, 3), "float64")
    f = graphc.function([x, u], x @ u, mode="NUMPY")
    np.testing.assert_allclose(f(X, W), PRODUCT)
    assert "1: Coded(" in repr(f)


WRONG = {
    "a dense array": (dense(W), "'w' .* expected a Coded, got a ndarray of shape \\(4, 3\\)"),
    "another static field": (Coded(W.codes, W.scale, 4), "'w' .* Coded.bits is 8, not 4"),
    "an equal static field": (Coded(W.codes, W.scale, 8.0), "'w' .* Coded.bits is 8, not 8.0"),
    "another class": (LoRA(X, X, X.T @ X), "'w' .* expected a Coded, got a LoRA of shape"),
    "a missing field": (Coded(W.codes, None), "'w' .* Coded.scale is not None"),
    "a field of another shape": (
        Coded(np.zeros((5, 3), np.int8), W.scale),
        r"'w.codes': expected int8\[4, 3\], got an array of shape \(5, 3\)",
    ),
    "a field of another rank": (
        Coded(np.zeros((2, 4, 3), np.int8), W.scale),
        r"'w.codes': expected int8\[4, 3\], got an array of shape \(2, 4, 3\)",
    ),
    "a field of another dtype": (
        Coded(W.codes.astype("int64"), W.scale),
        r"'w.codes': expected int8\[4, 3\], got int64\[4, 3\]",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_argument_is_told_by_its_name(what: str, mode: str) -> None:
    given, message = WRONG[what]
    f = graphc.function([x, w], x @ w, uncompiled(mode))
    with pytest.raises((ArgumentError, DTypeError), match=message):
        f(X, given)
    np.testing.assert_allclose(np.asarray(f(X, W)), PRODUCT)


def test_another_nesting_is_told_by_the_field() -> None:
    u = like(LoRA(W, np.ones((4, 2)), np.ones((2, 3))), "u")
    f = graphc.function([x, u], x @ u, mode="NUMPY")
    with pytest.raises(ArgumentError, match=r"in LoRA.base, expected a Coded, got a ndarray"):
        f(X, LoRA(dense(W), np.ones((4, 2)), np.ones((2, 3))))
    with pytest.raises(ArgumentError, match=r"LoRA.scale is None"):
        f(X, LoRA(W, np.ones((4, 2)), np.ones((2, 3)), np.float64(2.0)))
    with pytest.raises(DTypeError, match=r"'u.base.codes': expected int8"):
        f(X, LoRA(Coded(dense(W), W.scale), np.ones((4, 2)), np.ones((2, 3))))


def test_what_is_missing_unknown_or_given_twice_is_told() -> None:
    f = graphc.function([x, w], x @ w, mode="NUMPY")
    with pytest.raises(ArgumentError, match="the argument 'w' is missing"):
        f(X)
    with pytest.raises(ArgumentError, match=r"no single input called 'w\.codes'"):
        f(X, **{"w.codes": W.codes})
    with pytest.raises(ArgumentError, match="'w' is given twice"):
        f(X, W, w=W)


def test_an_implicit_array_is_not_made_whole_for_a_dense_input(mode: str) -> None:
    f = graphc.function([x], x * 2, uncompiled(mode))
    with pytest.raises(ArgumentError, match=r"'x': expected .*, got the implicit Coded"):
        f(W)


def test_a_default_of_another_form_is_told() -> None:
    for wrong in (dense(W), Coded(W.codes, W.scale, 4)):
        with pytest.raises(ArgumentError, match="has another form"):
            graphc.function([x, In(w, value=wrong)], x @ w, mode="NUMPY")


def test_one_field_that_is_used_is_enough() -> None:
    f = graphc.function([x, w], x[:, :3] * w.array.scale, mode="NUMPY")
    np.testing.assert_allclose(f(X, W), X[:, :3] * W.scale)
    with pytest.raises(UnusedInputError, match="w: Coded"):
        graphc.function([x, w], x + 1, mode="NUMPY")


# Outputs.


def test_an_implicit_output_stays_in_its_form(mode: str) -> None:
    f = graphc.function([w], w * 2.0, uncompiled(mode))
    with materializing("error"):
        found = f(W)
    assert isinstance(found, Coded)
    np.testing.assert_allclose(dense(found), 2 * dense(W))


def test_outputs_are_nested_and_of_the_library_that_is_asked_for(mode: str) -> None:
    outputs = {"w": w * 2.0, "y": [x @ w, (w,)]}
    f = graphc.function([x, w], outputs, uncompiled(mode), returns="numpy")
    found = f(X, W)
    assert isinstance(found["w"].scale, np.ndarray)
    assert isinstance(found["y"][1][0], Coded)
    np.testing.assert_allclose(dense(found["w"]), 2 * dense(W))
    np.testing.assert_allclose(found["y"][0], PRODUCT)


def test_what_a_call_gave_is_what_a_call_takes(mode: str) -> None:
    half = graphc.function([w], w * 0.5, uncompiled(mode))
    found = half(half(W))
    np.testing.assert_allclose(dense(found), dense(W) / 4)


# Shared variables.


def test_an_update_by_an_array_of_the_same_form_is_one_of_each_field(mode: str) -> None:
    s = graphc.shared(W, "s")
    f = graphc.function([x], x @ s, uncompiled(mode), updates={s: s * 0.5}, returns="numpy")
    np.testing.assert_allclose(f(X), PRODUCT)
    np.testing.assert_allclose(f(X), PRODUCT / 2)
    np.testing.assert_allclose(dense(s.get_value()), dense(W) / 4)
    s.set_value(V)
    np.testing.assert_allclose(f(X), X @ dense(V))


def test_an_update_by_a_constant_or_an_input_works(mode: str) -> None:
    s = graphc.shared(W, "s")
    graphc.function([w], [], uncompiled(mode), updates=[(s, w)])(V)
    np.testing.assert_array_equal(dense(s.get_value()), dense(V))
    graphc.function([], [], uncompiled(mode), updates=[(s, W)])()
    np.testing.assert_array_equal(dense(s.get_value()), dense(W))


def test_an_update_by_fields_works(mode: str) -> None:
    s = graphc.shared(W, "s")
    field = s.array.scale
    cost = ((x @ s) ** 2).sum()
    updates = {field: field - 0.001 * graphc.grad(cost, field)}
    with materializing("error"):
        step = graphc.function([x], cost, uncompiled(mode), updates=updates, returns="numpy")
        costs = [float(step(X)) for _ in range(3)]
    assert costs[0] > costs[1] > costs[2]
    np.testing.assert_array_equal(s.get_value().codes, W.codes)


def test_an_update_of_another_form_is_told() -> None:
    s = graphc.shared(W, "s")
    for wrong in (gt.exp(s), Coded(W.codes, W.scale, 4), dense(W)):
        with pytest.raises(ArgumentError, match="has another form"):
            graphc.function([], [], "NUMPY", updates={s: wrong})
    with pytest.raises(ArgumentError, match="no shared variable"):
        graphc.function([], [], "NUMPY", updates={w: w * 2.0})
    with pytest.raises(ArgumentError, match="updated twice"):
        graphc.function([], [], "NUMPY", updates=[(s, W), (s.array.scale, s.array.scale)])


# Givens and replacements.


def test_another_implicit_array_stands_for_one(mode: str) -> None:
    v = gt.implicit(Coded, (4, 3), "float64", name="v")
    for given, arguments in ((V, ()), (graphc.shared(V), ()), (v, (V,))):
        inputs = [x, v] if arguments else [x]
        f = graphc.function(inputs, x @ w, uncompiled(mode), givens={w: given}, returns="numpy")
        np.testing.assert_allclose(f(X, *arguments), X @ dense(V))


def test_a_dense_array_stands_for_an_implicit_one_and_the_other_way_round(mode: str) -> None:
    z = gt.matrix("z", shape=(4, 3))
    options: dict[str, Any] = {"mode": uncompiled(mode), "returns": "numpy"}
    f = graphc.function([x, z], x @ w, givens={w: z}, **options)
    np.testing.assert_allclose(f(X, dense(V)), X @ dense(V))
    with materializing("error"):
        f = graphc.function([x, w], x @ z, givens={z: w}, **options)
        np.testing.assert_allclose(f(X, V), X @ dense(V))


def test_what_stands_for_it_may_be_made_of_it() -> None:
    f = graphc.function([x, w], x @ w, "NUMPY", givens={w: w * 2.0})
    np.testing.assert_allclose(f(X, W), 2 * PRODUCT)


def test_it_is_replaced_in_gradients_too() -> None:
    slope = graphc.grad(((x @ w) ** 2).sum(), w.array.scale)
    f = graphc.function([x], slope, "NUMPY", givens={w: V})
    wanted = (2 * (X @ dense(V)) * (X @ V.codes)).sum(0)
    np.testing.assert_allclose(f(X), wanted)
    with pytest.raises(ArgumentError, match=r"reads its field w\.codes"):
        graphc.function([x], slope, "NUMPY", givens={w: gt.as_tensor(dense(V))})


def test_a_given_of_another_type_is_told() -> None:
    with pytest.raises(DTypeError, match="can't replace"):
        graphc.function([x], x @ w, "NUMPY", givens={w: coded(4, 2)})


def test_clone_replace_puts_another_one_in() -> None:
    v = gt.implicit(Coded, (4, 3), "float64", name="v")
    assert graphc.clone_replace(x @ w, {w: v}) is x @ v
    assert graphc.clone_replace({"w": w}, {w: v}) == {"w": v}


def test_eval_takes_values_by_the_array_or_its_name(mode: str) -> None:
    for given in ({x: X, w: W}, {"x": X, "w": W}):
        np.testing.assert_allclose((x @ w).eval(given, mode=uncompiled(mode)), PRODUCT)
    assert isinstance(w.eval({w: W}, mode=uncompiled(mode)), Coded)
