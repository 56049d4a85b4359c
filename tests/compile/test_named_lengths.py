"""Lengths with names are equal in all inputs of a function, on every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, RuntimeShapeError, ShapeError
from graphc.ir import Constant

MODES = ["NUMPY", "JAX", "MLX", graphc.Mode("JAX", lengths="buckets")]


def table_and_weights() -> tuple[Any, Any]:
    return gt.tensor("x", shape=("n", 3)), gt.tensor("y", shape=("n",))


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("used", ["both", "the first", "no elements"])
def test_lengths_of_one_name_are_compared_whatever_is_used(mode: Any, used: str) -> None:
    x, y = table_and_weights()
    results = {"both": x.sum() + y.sum(), "the first": x.sum(), "no elements": x.shape[0] + 0.0}
    f = graphc.function([x, y], results[used], mode=mode, on_unused_input="ignore")
    rng = np.random.default_rng(0)
    for n in [5, 7, 0, 1] * 6:
        a, b = rng.normal(size=(n, 3)), rng.normal(size=n)
        expected = {"both": a.sum() + b.sum(), "the first": a.sum(), "no elements": float(n)}
        np.testing.assert_allclose(f(a, b), expected[used], rtol=1e-12)
        with pytest.raises(RuntimeShapeError, match=f"n is {n} in x and {n + 1} in y"):
            f(a, np.ones(n + 1))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_both_axes_of_an_array_may_have_one_name(mode: Any) -> None:
    x = gt.tensor("x", shape=("n", "n"))
    f = graphc.function([x], gt.trace(x), mode=mode)
    assert f(np.diag([1.0, 2.0, 4.0])) == 7
    with pytest.raises(RuntimeShapeError, match="n is 2 in axis 0 of x and 3 in axis 1 of x"):
        f(np.ones((2, 3)))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_pure_programs_and_gradients_compare_named_lengths(mode: Any) -> None:
    x, y = table_and_weights()
    loss = (gt.tanh(x.sum(1)) * y).sum()
    f = graphc.function([x, y], graphc.grad(loss, [x, y]), mode=mode)
    a, b = np.arange(12.0).reshape(4, 3) / 7, np.array([1.0, -2.0, 0.5, 3.0])
    gx, gy = f(a, b)
    s = a.sum(1)
    np.testing.assert_allclose(gx, np.repeat((b / np.cosh(s) ** 2)[:, None], 3, 1), rtol=1e-12)
    np.testing.assert_allclose(gy, np.tanh(s), rtol=1e-12)
    with pytest.raises(RuntimeShapeError, match="n is 4 in x and 3 in y"):
        f.pure(a, b[:3])


def test_unnamed_arguments_are_called_by_position() -> None:
    x, y = gt.tensor(shape=("n",)), gt.tensor(shape=(2, "n"))
    f = graphc.function([x, y], x.sum() + y.sum(), mode="NUMPY")
    with pytest.raises(RuntimeShapeError, match="n is 5 in argument 0 and 4 in argument 1"):
        f(np.ones(5), np.ones((2, 4)))


def test_lengths_of_one_name_are_one_length() -> None:
    x, y = table_and_weights()
    f = graphc.function([x, y], x.shape[0] - y.shape[0], mode="NUMPY", on_unused_input="ignore")
    (difference,) = f.graph.outputs
    assert isinstance(difference.op, Constant)
    assert difference.op.value == 0


def test_a_program_compares_lengths_of_one_name_once() -> None:
    x, y = table_and_weights()
    f = graphc.function([x, y], x.sum(1) + y, mode="NUMPY")
    assert [step.checks for step in f._program.steps if step.checks] == []
    assert len(f._program.named_checks) == 1


def test_functions_with_other_names_have_their_own_messages() -> None:
    for name in ["n", "m"]:
        x, y = (gt.tensor(each, shape=(name,)) for each in "xy")
        f = graphc.function([x, y], gt.exp(x) + y, mode="NUMPY")
        with pytest.raises(RuntimeShapeError, match=f"^{name} is 2 in x and 3 in y"):
            f(np.ones(2), np.ones(3))


def test_clones_keep_names() -> None:
    x, _ = table_and_weights()
    assert repr(x.clone("z")) == "z: float64[n, 3]"


def test_a_wrong_rank_shows_the_names() -> None:
    x, _ = table_and_weights()
    f = graphc.function([x], x.sum(), mode="NUMPY")
    with pytest.raises(ArgumentError, match=r"expected float64\[n, 3\]"):
        f(np.ones(3))
    assert repr(f) == "function(x: float64[n, 3])"
    assert "a0 = x: float64[n, 3]" in str(f.plan())


@pytest.mark.parametrize("name", ["n - 1", "", "2n", "Ü"])
def test_a_name_of_a_length_is_an_identifier(name: str) -> None:
    with pytest.raises(ShapeError, match="is no name of a length"):
        gt.tensor("x", shape=(name, 3))


def test_types_have_no_names() -> None:
    with pytest.raises(ShapeError, match="Name a length where an input is made"):
        gt.TensorType("float64", ("n",))
    assert gt.tensor("x", shape=("n", 3)).type is gt.TensorType("float64", (None, 3))


def test_names_fit_what_a_type_leaves_unknown() -> None:
    assert repr(gt.dmatrix("x", shape=("n", None))) == "x: float64[n, ?]"
    with pytest.raises(ShapeError, match="expected a shape"):
        gt.drow("x", shape=("n", 3))


def test_a_written_function_keeps_names(tmp_path: Any) -> None:
    x, y = table_and_weights()
    f = graphc.function([x, y], (x.sum(1) * y).sum(), mode="NUMPY")
    f.export(tmp_path / "f.graphc", programs=("JAX",))
    g = graphc.load(tmp_path / "f.graphc")
    assert repr(g) == "f.graphc: (x: float64[n, 3], y: float64[n]) -> (float64[])"
    assert g(np.ones((4, 3)), np.ones(4)) == 12
    with pytest.raises(RuntimeShapeError, match="n is 4 in x and 5 in y"):
        g(np.ones((4, 3)), np.ones(5))
