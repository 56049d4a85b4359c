"""Shapes are NumPy's, in static type and in value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, RuntimeShapeError, ShapeError
from tests.reference import evaluate
from tests.tensor.agreement import DTYPES, arrays, check_agrees

A = np.arange(24.0).reshape(2, 3, 4)
ONES = np.arange(6).reshape(1, 2, 1, 3)

SAME: dict[str, tuple[Callable[..., Any], Callable[..., Any], np.ndarray]] = {
    "reshape": (lambda x: x.reshape(4, 6), lambda x: x.reshape(4, 6), A),
    "reshape to a tuple": (lambda x: x.reshape((4, 6)), lambda x: x.reshape(4, 6), A),
    "reshape to a scalar": (lambda x: x[:1, 0, 0].reshape(()), lambda x: x[0, 0, 0], A),
    "reshape with -1": (lambda x: x.reshape(3, -1), lambda x: x.reshape(3, -1), A),
    "reshape by an array": (
        lambda x: gt.reshape(x, np.array([6, 4])), lambda x: x.reshape(6, 4), A,
    ),
    "ravel": (lambda x: x.ravel(), np.ravel, A),
    "flatten": (lambda x: x.flatten(), np.ravel, A),
    "flatten to two axes": (lambda x: x.flatten(2), lambda x: x.reshape(2, 12), A),
    "flip": (lambda x: gt.flip(x, 1), lambda x: np.flip(x, 1), A),
    "flip of all": (gt.flip, np.flip, A),
    "shape": (lambda x: x.shape, lambda x: np.array(x.shape), A),
    "size": (lambda x: x.size, lambda x: np.array(x.size), A),
    "shape of a shape": (lambda x: x.shape.shape, lambda x: np.array([3]), A),
    "full_like": (lambda x: gt.full_like(x, 7), lambda x: np.full_like(x, 7), A),
    "zeros_like": (lambda x: gt.zeros_like(x, "int8"), lambda x: np.zeros_like(x, "int8"), A),
    "ones_like": (gt.ones_like, np.ones_like, A),
    "take": (lambda x: x.take([0, 2, 2], 1), lambda x: x.take([0, 2, 2], 1), A),
    "take of all": (lambda x: x.take([[0, -1]]), lambda x: x.take([[0, -1]]), A),
}  # fmt: skip


@pytest.mark.parametrize("what", SAME)
def test_it_is_what_numpy_gives(what: str) -> None:
    ours, theirs, value = SAME[what]
    check_agrees(ours, theirs, value)


@settings(max_examples=100)
@given(arrays(DTYPES), st.data())
def test_any_array_transposes_and_reshapes_as_in_numpy(value: np.ndarray, data: Any) -> None:
    axes = data.draw(st.permutations(range(value.ndim)))
    divisors = [n for n in range(1, value.size + 1) if value.size % n == 0]
    rows = data.draw(st.sampled_from(divisors))
    shape = data.draw(st.sampled_from([(rows, -1), (-1, rows), (rows, value.size // rows)]))
    check_agrees(
        lambda x: x.transpose(axes).reshape(shape),
        lambda x: x.transpose(axes).reshape(shape),
        value,
    )


def test_lengths_that_are_known_are_python_integers() -> None:
    x = gt.tensor(shape=(3, None))
    assert x.shape[0].op.perform() == 3
    assert gt.zeros(x.shape).type.shape == (3, None)


def test_symbolic_lengths_make_shapes() -> None:
    n, x = gt.lscalar("n"), gt.matrix("x")
    outputs = [gt.zeros((n, 2)), x.reshape(n, -1), x.reshape((x.shape[1], x.shape[0])), gt.eye(n)]
    found = evaluate(outputs, {n: 4, x: np.zeros((2, 6))})
    assert [y.shape for y in found] == [(4, 2), (4, 3), (6, 2), (4, 4)]
    assert outputs[0].type.shape == (None, 2)


def test_a_shape_may_be_a_symbolic_vector() -> None:
    s = gt.tensor("s", shape=(2,), dtype="int64")
    t = gt.lvector("t")
    x = gt.vector("x")
    outputs = [x.reshape(s), gt.reshape(x, t, ndim=2), gt.ones(s, "int8")]
    found = evaluate(outputs, {s: [2, 3], t: [3, 2], x: np.zeros(6)})
    assert [y.shape for y in found] == [(2, 3), (3, 2), (2, 3)]
    with pytest.raises(ShapeError, match="number of entries"):
        x.reshape(t)


def test_lengths_are_given_one_by_one() -> None:
    x = gt.tensor("x", shape=(2, None))
    first, second = gt.shape_tuple(x)
    assert gt.get_scalar_constant_value(first) == 2
    assert evaluate([second], {x: A}) == [3]
    assert gt.get_vector_length(x.shape) == gt.get_vector_length([1, x.shape[1]]) == 2
    assert gt.is_flat(gt.vector())
    assert not gt.is_flat(x)
    check_agrees(lambda x: gt.ravel(x, "F"), lambda x: np.ravel(x, "F"), A)


def test_integers_made_of_static_lengths_are_static_lengths() -> None:
    x = gt.tensor("x", shape=(2, 3))
    assert gt.zeros((x.shape[0] * 2, x.shape[1] + 1)).type.shape == (4, 4)
    assert gt.zeros(5).reshape(gt.as_tensor([5, 1])).type.shape == (5, 1)


def test_a_reshape_to_the_static_shape_is_the_array() -> None:
    x = gt.tensor(shape=(2, 3))
    assert x.reshape(2, 3) is x
    assert x.transpose(0, 1) is x
    assert gt.broadcast_to(x, (2, 3)) is x


X, XS = gt.tensor("x", shape=(2, 3)), gt.tensor3("xs")

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "reshape of another size": (lambda: X.reshape(4, 2), ShapeError, "6 elements do not fit"),
    "reshape with two -1": (lambda: X.reshape(-1, -1), ShapeError, "-1 is repeated"),
    "reshape to -2": (lambda: X.reshape(-2, 3), ShapeError, "the length -2 is negative"),
    "reshape by a float": (lambda: X.reshape(2.0, 3), DTypeError, "expected integer lengths"),
    "reshape by a symbolic float": (lambda: X.reshape(gt.scalar()), DTypeError, "integer scalar"),
    "reshape with a wrong ndim": (lambda: X.reshape(6, ndim=2), ShapeError, "expected 2 lengths"),
    "the length of an unknown vector": (
        lambda: gt.get_vector_length(gt.vector()), ShapeError, "expected a vector of static length",
    ),
    "the length of a matrix": (
        lambda: gt.get_vector_length(X), ShapeError, "expected a vector of static length",
    ),
    "ravel in no order": (lambda: gt.ravel(X, "A"), ArgumentError, "unknown order='A'"),
    "flatten to too many": (lambda: X.flatten(3), ShapeError, "to 3 axes"),
    "zeros of a negative length": (lambda: gt.zeros(-1), ShapeError, "the length -1 is negative"),
    "zeros of a float": (lambda: gt.zeros(2.5), DTypeError, "expected integer lengths"),
    "zeros of a bool": (lambda: gt.zeros(True), DTypeError, "expected integer lengths"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_shape_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_shape.py:" in str(caught.value)


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_a_batch_of_nothing_is_reshaped_with_minus_1_beside_an_unknown_length(mode: str) -> None:
    x, xs = gt.vector("x"), gt.matrix("xs")
    over = graphc.vectorize_graph(gt.reshape(x, (-1, x.shape[0])), {x: xs})
    f = graphc.function([xs], over, mode=mode)
    assert f(np.zeros((0, 3))).shape == (0, 1, 3)
    assert f(np.zeros((2, 3))).shape == (2, 1, 3)
    with pytest.raises(ShapeError, match="-1 is ambiguous beside a length of 0"):
        f(np.zeros((2, 0)))


def test_a_batch_of_nothing_is_reshaped_with_minus_1_beside_a_length_of_0() -> None:
    x, xs = gt.matrix("x"), gt.tensor3("xs")
    over = graphc.vectorize_graph(gt.reshape(x, (0, -1)), {x: xs})
    f = graphc.function([xs], over, mode="NUMPY")
    assert f(np.zeros((0, 3, 0))).shape[:2] == (0, 0)
    with pytest.raises(ShapeError, match="-1 is ambiguous beside a length of 0"):
        f(np.zeros((2, 3, 0)))


AT_RUN_TIME: dict[str, tuple[Callable[[Any, Any], Any], Any, Any]] = {
    "reshape": (lambda x, n: x.reshape(n, -1), np.zeros((2, 3)), 4),
    "broadcast_to": (lambda x, n: gt.broadcast_to(x, (n, 3)), np.zeros((1, 3)), 2),
}


@pytest.mark.parametrize("what", AT_RUN_TIME)
def test_shapes_that_do_not_fit_at_run_time_are_refused(what: str) -> None:
    f, value, length = AT_RUN_TIME[what]
    x, n = gt.matrix(), gt.lscalar()
    with pytest.raises((ShapeError, RuntimeShapeError)):
        evaluate([f(x, n)], {x: value, n: length})
