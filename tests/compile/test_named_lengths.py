"""Lengths with names are equal in all inputs of a function, on every backend."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, RuntimeShapeError, ShapeError
from graphc.export import runtime
from graphc.ir import Constant, Graph

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


@pytest.mark.parametrize("mode", ["JAX", graphc.Mode("JAX", lengths="buckets")], ids=str)
def test_batches_of_pure_programs_compare_named_lengths(mode: Any) -> None:
    x, y = (gt.tensor(name, shape=("n",)) for name in "xy")
    f = graphc.function([x, y], x.sum() + y.sum() / y.shape[0], mode=mode).pure
    assert jax.vmap(f)(np.ones((5, 2)), np.ones((5, 2))).tolist() == [3.0] * 5
    for y_shape, axis in [((5, 3), 0), ((3,), None)]:
        with pytest.raises(RuntimeShapeError, match="n is 2 in x and 3 in y"):
            jax.vmap(f, in_axes=(0, axis))(np.ones((5, 2)), np.ones(y_shape))
    with pytest.raises(ArgumentError, match=r"expected float64\[n\]"):
        f(jnp.ones(()), jnp.ones(2))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_pure_program_compares_lengths_of_arguments_that_decide_shapes(mode: Any) -> None:
    x, y = gt.tensor("x", dtype="int64", shape=("n",)), gt.tensor("y", shape=("n",))
    f = graphc.function([x, y], [gt.zeros(x.sum()), y.sum() / y.shape[0]], mode=mode).pure
    assert f(np.array([1, 2]), np.ones(2))[1] == 1
    with pytest.raises(RuntimeShapeError, match="n is 2 in x and 3 in y"):
        f(np.array([1, 2]), np.ones(3))


def test_axes_of_two_names_are_no_dimension_of_one_name() -> None:
    x, y = gt.tensor("x", shape=("n",)), gt.tensor("y", shape=("m",))
    f = graphc.function([x, y], x + y, mode="NUMPY")
    with pytest.raises(RuntimeShapeError, match=r"\('n'\) .* \('m'\)") as caught:
        f(np.ones(2), np.ones(3))
    assert caught.value.remedy == "Make them equal."


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


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_functions_with_other_names_share_a_program_and_have_their_own_messages(mode: Any) -> None:
    programs = []
    for name in ["n", "m"]:
        x, y = (gt.tensor(each, shape=(name,)) for each in "xy")
        f = graphc.function([x, y], gt.exp(x) + y * 0.37, mode=mode)
        assert f(np.zeros(2), np.zeros(2)).tolist() == [1, 1]
        with pytest.raises(RuntimeShapeError, match=f"^{name} is 2 in x and 3 in y"):
            f(np.ones(2), np.ones(3))
        programs.append(f._compiled)
    assert programs[0] is programs[1]


def test_which_lengths_have_one_name_is_part_of_the_program() -> None:
    y = gt.tensor("y", shape=("n",))
    keys = {
        Graph([x, y], [gt.exp(x).sum() + y.sum()]).key()
        for x in (gt.vector("x"), gt.tensor("x", shape=("m",)), gt.tensor("x", shape=("n",)))
    }
    assert len(keys) == 2


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


def test_a_name_alone_is_no_shape() -> None:
    with pytest.raises(ShapeError, match=r"shape=\('batch',\)"):
        gt.tensor("x", shape="batch")


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


@pytest.mark.parametrize("name", ["max", "mod", "lambda"])
def test_a_written_program_may_have_any_names_of_lengths(name: str, tmp_path: Any) -> None:
    x, y = (gt.tensor(each, shape=(name,)) for each in "xy")
    f = graphc.function([x, y], x * y, mode="JAX")
    f.export(tmp_path / "f.graphc", programs=("JAX",))
    g = runtime.load(tmp_path / "f.graphc", backend="JAX")
    assert np.asarray(g(np.ones(4), np.arange(4.0))).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dynamic", [None, {"x": ("a", None)}, {"x": (4, None)}], ids=str)
def test_a_written_program_compares_named_lengths(dynamic: Any, tmp_path: Any) -> None:
    x, y = table_and_weights()
    f = graphc.function([x, y], x.sum() + y.sum() / y.shape[0], mode="JAX")
    f.export(tmp_path / "f.graphc", dynamic=dynamic, programs=("JAX",))
    g = runtime.load(tmp_path / "f.graphc", backend="JAX")
    assert float(g(np.ones((4, 3)), np.ones(4))) == 13
    with pytest.raises(ValueError, match="shape"):
        g(np.ones((4, 3)), np.ones(3))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_arrays_in_the_place_of_named_inputs_have_equal_lengths(mode: Any) -> None:
    x, y = gt.tensor("x", shape=("n", 3)), gt.tensor("y", shape=("n",))
    a, b = gt.matrix("a"), gt.vector("b")
    z = x.sum(1) * y[0]
    op = graphc.OpFromGraph([x, y], [z])
    for f in (
        graphc.function([a, b], op(a, b), mode),
        graphc.function([x, b], z, mode, givens=[(y, b)]),
        graphc.function([a, b], z, mode, givens=[(x, a), (y, b)]),
        graphc.function([x, b], graphc.clone_replace(z, {y: b}), mode),
    ):
        np.testing.assert_allclose(f(np.ones((2, 3)), np.full(2, 5.0)), [15.0, 15.0])
        with pytest.raises(RuntimeShapeError, match=r"shape \(4,\) does not have the shape \(2,\)"):
            f(np.ones((2, 3)), np.ones(4))


def test_an_output_depends_on_no_input_whose_lengths_are_compared_for_another() -> None:
    x, y = gt.tensor("x", shape=("n", 3)), gt.tensor("y", shape=("n",))
    a, b = gt.matrix("a"), gt.vector("b")
    doubled, moved = graphc.clone_replace([y * 2, x + 1], {x: a})
    ones = np.ones((2, 3))
    np.testing.assert_array_equal(graphc.function([a], moved, "NUMPY")(ones), ones + 1)
    np.testing.assert_array_equal(graphc.function([y], doubled, "NUMPY")([1.0, 2.0]), [2.0, 4.0])
    f = graphc.function([b], y * 2, "NUMPY", givens=[(x, a), (y, b)])
    np.testing.assert_array_equal(f([1.0, 2.0]), [2.0, 4.0])
