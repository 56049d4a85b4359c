"""Diagonals are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import DTypeError, RuntimeShapeError, ShapeError
from graphc.link import names
from tests.tensor.agreement import DTYPES, arrays, check_agrees

MATRICES = st.sampled_from([(3, 3), (2, 4), (4, 2), (0, 3), (1, 1)])


@settings(max_examples=100)
@given(arrays(DTYPES, MATRICES), st.integers(-5, 5))
def test_any_matrix_has_numpys_diagonals(value: np.ndarray, k: int) -> None:
    for name in ("diag", "diagonal", "trace"):
        check_agrees(
            lambda x, name=name: getattr(gt, name)(x, k),
            lambda x, name=name: getattr(np, name)(x, k),
            value,
        )


@settings(max_examples=60)
@given(arrays(DTYPES, st.sampled_from([(2, 3, 4), (3, 1, 2)])), st.integers(-3, 3), st.data())
def test_any_two_axes_hold_matrices(value: np.ndarray, k: int, data: Any) -> None:
    a, b = data.draw(st.permutations(range(-3, 0)))[:2]
    for name in ("diagonal", "trace"):
        check_agrees(
            lambda x, name=name: getattr(gt, name)(x, k, a, b),
            lambda x, name=name: getattr(np, name)(x, k, a, b),
            value,
        )
    check_agrees(
        lambda x: gt.diagonal(gt.alloc_diag(x, k, a - 1, b - 1), k, a - 1, b - 1),
        lambda x: x,
        value,
    )


@settings(max_examples=60)
@given(arrays(DTYPES, st.sampled_from([(3,), (0,), (1,)])), st.integers(-3, 3))
def test_any_vector_becomes_numpys_diagonal_matrix(value: np.ndarray, k: int) -> None:
    check_agrees(lambda x: gt.diag(x, k), lambda x: np.diag(x, k), value)


def filled(x: np.ndarray, value: Any) -> np.ndarray:
    x = x.copy()
    np.fill_diagonal(x, value)
    return x


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (0, 3), (2, 2, 2), (3, 3, 3, 3)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64"])
def test_diagonals_are_filled_as_in_numpy(shape: tuple[int, ...], dtype: str) -> None:
    value = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    check_agrees(lambda x: gt.fill_diagonal(x, 7.0), lambda x: filled(x, 7.0), value)
    many = np.arange(5.0, 5 + min(shape))
    check_agrees(lambda x: gt.fill_diagonal(x, many), lambda x: filled(x, many), value)


@pytest.mark.parametrize("mode", names())
def test_which_diagonal_is_filled_may_be_symbolic(mode: str) -> None:
    x, k = gt.matrix("x"), gt.iscalar("k")
    y = gt.fill_diagonal_offset(x, x[0, 0], k)
    f = graphc.function([x, k], [y, graphc.grad((y**2).sum(), x)], mode, returns="numpy")
    value = np.arange(1.0, 13).reshape(3, 4)
    for by in (-1, 0, 2):
        found, by_x = f(value, by)
        on = np.eye(3, 4, by) > 0
        np.testing.assert_array_equal(found, np.where(on, value[0, 0], value))
        by_hand = np.where(on, 0, 2 * value)
        by_hand[0, 0] += 2 * on.sum()
        np.testing.assert_array_equal(by_x, by_hand)


@pytest.mark.parametrize("mode", names())
def test_an_array_of_unequal_lengths_is_not_filled(mode: str) -> None:
    x = gt.tensor3("x")
    f = graphc.function([x], gt.fill_diagonal(x, 0), mode)
    with pytest.raises(RuntimeShapeError, match="does not have the shape"):
        f(np.zeros((2, 3, 2)))


X, V = gt.tensor("x", shape=(2, 3)), gt.vector("v")

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "diag of a scalar": (lambda: gt.diag(gt.scalar()), ShapeError, "expected a vector or a matrix"),
    "diag of a tensor": (lambda: gt.diag(gt.tensor3()), ShapeError, "a vector or a matrix"),
    "diagonal of a vector": (lambda: gt.diagonal(V), ShapeError, "diagonal: no axis 1"),
    "diagonal in one axis": (lambda: gt.diagonal(X, 0, 1, -1), ShapeError, "are the same axis"),
    "alloc_diag of a scalar": (lambda: gt.alloc_diag(1.0), ShapeError, "expected a diagonal"),
    "fill of a vector": (lambda: gt.fill_diagonal(V, 0), ShapeError, "expected at least two axes"),
    "fill of unequal lengths": (
        lambda: gt.fill_diagonal(gt.tensor(shape=(2, 3, 2)), 0), ShapeError, "specify_shape",
    ),
    "fill with a matrix": (lambda: gt.fill_diagonal(X, X), ShapeError, "a scalar or a vector"),
    "fill with complex numbers": (lambda: gt.fill_diagonal(X, 1j), DTypeError, "a complex value"),
    "fill beside with a vector": (
        lambda: gt.fill_diagonal_offset(X, [1, 2], 0), ShapeError, "expected a scalar",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_has_no_diagonal_is_refused_with_the_users_line(what: str) -> None:
    build, error, message = REFUSED[what]
    with pytest.raises(error, match=message) as caught:
        build()
    assert "test_diagonal.py" in str(caught.value)
