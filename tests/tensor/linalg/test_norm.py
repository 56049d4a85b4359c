"""Norms are NumPy's, and their gradients at 0 are 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from tests.reference import evaluate
from tests.tensor.agreement import check_agrees

ARRAY = np.arange(24.0).reshape(2, 3, 4) - 5
VALUES = {
    "float64": ARRAY,
    "float32": ARRAY.astype("float32"),
    "int64": ARRAY.astype("int64"),
    "complex128": ARRAY + 2j,
}
VECTOR_ORDERS = (None, 0, 0.5, 1, 2, 3, 2.5, -1, -2, np.inf, -np.inf)
MATRIX_ORDERS = (None, "fro", 1, -1, np.inf, -np.inf, 2, -2, "nuc")


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("axis", [-1, 0, (1,)])
def test_norms_of_vectors_are_numpys(axis: Any, keepdims: bool, dtype: str) -> None:
    for p in VECTOR_ORDERS:
        check_agrees(
            lambda x, p=p: gt.norm(x, p, axis, keepdims),
            lambda x, p=p: np.linalg.norm(x, p, axis, keepdims),
            VALUES[dtype],
        )


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("axis", [(0, 1), (2, 0), (-1, -2)])
def test_norms_of_matrices_are_numpys(axis: Any, keepdims: bool, dtype: str) -> None:
    for p in MATRIX_ORDERS:
        check_agrees(
            lambda x, p=p: gt.norm(x, p, axis, keepdims),
            lambda x, p=p: np.linalg.norm(x, p, axis, keepdims),
            VALUES[dtype],
        )


def test_without_an_axis_vectors_and_matrices_are_told_apart() -> None:
    for p in VECTOR_ORDERS:
        check_agrees(lambda x, p=p: gt.norm(x, p), lambda x, p=p: np.linalg.norm(x, p), ARRAY[0, 0])
    for p in MATRIX_ORDERS:
        check_agrees(lambda x, p=p: gt.norm(x, p), lambda x, p=p: np.linalg.norm(x, p), ARRAY[0])
    for p in ("inf", "-inf"):
        check_agrees(
            lambda x, p=p: gt.norm(x, p), lambda x, p=p: np.linalg.norm(x, float(p)), ARRAY[0]
        )


@pytest.mark.parametrize("p", MATRIX_ORDERS)
@pytest.mark.parametrize("keep", [True, False])
def test_without_an_axis_a_stack_has_a_norm_of_each_matrix(p: Any, keep: bool) -> None:
    """As in PyTensor; NumPy takes all of it as one vector, or refuses it."""
    check_agrees(
        lambda x: gt.linalg.norm(x, p, keepdims=keep),
        lambda x: np.stack([np.linalg.norm(one, p, keepdims=keep) for one in x]),
        ARRAY,
    )


def test_numpys_own_function_and_the_method_take_all_elements() -> None:
    check_agrees(np.linalg.norm, np.linalg.norm, ARRAY)
    check_agrees(
        lambda x: x.norm(3, axis=(0, 1)),
        lambda x: np.linalg.vector_norm(x, ord=3, axis=(0, 1)),
        ARRAY,
    )
    check_agrees(lambda x: x.norm(2), np.linalg.norm, ARRAY[0])


def test_vector_norm_and_matrix_norm_are_numpys() -> None:
    for axis, p in ((None, 1), ((0, 2), 3), (1, np.inf), ((0, 1, 2), 2)):
        check_agrees(
            lambda x, axis=axis, p=p: gt.vector_norm(x, axis=axis, ord=p),
            lambda x, axis=axis, p=p: np.linalg.vector_norm(x, axis=axis, ord=p),
            ARRAY,
        )
    for p in MATRIX_ORDERS[1:]:
        check_agrees(
            lambda x, p=p: gt.matrix_norm(x, ord=p, keepdims=True),
            lambda x, p=p: np.linalg.matrix_norm(x, ord=p, keepdims=True),
            ARRAY,
        )


@pytest.mark.parametrize("p", [None, 0, 0.5, 1, 2, 3, -1, np.inf])
def test_the_gradient_at_zero_is_finite(p: Any) -> None:
    x = gt.vector()
    (g,) = evaluate([graphc.grad(gt.norm(x, p), x, disconnected_inputs="ignore")], {x: np.zeros(3)})
    assert np.isfinite(g).all()
    assert p in {1, np.inf} or not g.any()


@pytest.mark.parametrize("p", MATRIX_ORDERS)
def test_the_gradient_of_a_zero_matrix_is_finite(p: Any) -> None:
    x = gt.matrix()
    (g,) = evaluate([graphc.grad(gt.norm(x, p), x)], {x: np.zeros((2, 3))})
    assert np.isfinite(g).all()


@pytest.mark.parametrize("p", [None, 0.5, 1, 2, 3, -1, np.inf, -np.inf])
def test_one_zero_leaves_the_other_slopes(p: Any) -> None:
    """Beside a zero, those of negative order are 0, as the norm is."""
    value = np.array([3.0, 0.0, -4.0])
    x = gt.vector()
    (g,) = evaluate([graphc.grad(gt.norm(x, p), x)], {x: value})
    step = 1e-6
    for i in (0, 2):
        moved = [value + s * step * np.eye(3)[i] for s in (1, -1)]
        with np.errstate(all="ignore"):
            high, low = (np.linalg.norm(v, p) for v in moved)
        np.testing.assert_allclose(g[i], (high - low) / (2 * step), rtol=1e-6, atol=1e-9)
    assert np.isfinite(g).all()


@pytest.mark.parametrize("p", [None, 2, 2.5, 3, 4])
def test_the_slope_of_one_zero_has_a_slope_of_its_own(p: Any) -> None:
    value = np.array([3.0, 0.0, -4.0])
    x = gt.vector()
    slope = graphc.grad(gt.norm(x, p), x)
    f = graphc.function([x], [slope, graphc.grad(slope[1], x)], "NUMPY")
    step = np.array([0.0, 1e-6, 0.0])
    wanted = (f(value + step)[0] - f(value - step)[0]) / 2e-6
    np.testing.assert_allclose(f(value)[1], wanted, atol=1e-3)


def test_squares_of_complex_numbers_have_second_derivatives_beside_zeros() -> None:
    a, b = gt.vectors("a", "b")
    z = gt.complex(a, b)
    costs = (gt.norm(z), gt.norm(z[None], "fro", axis=(0, 1)), gt.var(z))
    seconds = [graphc.grad(graphc.grad(y, a)[1], a)[1] for y in costs]
    found = evaluate(seconds, {a: np.array([3.0, 0.0, -3.0]), b: np.array([1.0, 0.0, -1.0])})
    np.testing.assert_allclose(found, [20**-0.5, 20**-0.5, 4 / 9])


X, M = gt.tensor("x", shape=(3,)), gt.tensor("m", shape=(2, 4))
T = gt.tensor("t", shape=(2, 3, 4))
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "of vectors, a word": (lambda: gt.norm(X, "nuc"), ArgumentError, "not a norm of vectors"),
    "of matrices, 3": (lambda: gt.norm(M, 3), ArgumentError, "not a norm of matrices"),
    "of three axes": (
        lambda: gt.norm(T, 1, axis=(0, 1, 2)),
        ShapeError,
        "3 axes are neither a vector nor a matrix",
    ),
    "no axis": (lambda: gt.norm(X, axis=1), ShapeError, "no axis 1"),
    "an axis twice": (lambda: gt.norm(M, axis=(0, -2)), ShapeError, "is repeated"),
    "no matrix": (lambda: gt.matrix_norm(X), ShapeError, "expected matrices"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_norm_is_refused_with_the_users_line(what: str) -> None:
    make, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        make()
    assert "test_norm.py:" in str(caught.value)
