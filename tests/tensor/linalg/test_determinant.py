"""Determinants, their logarithms, inverses, and what they share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from graphc.ir import Node, TensorType, picks
from graphc.tensor import linalg
from graphc.tensor.linalg.cholesky import lower_factor
from graphc.tensor.linalg.determinant import AdjugateSlope, Det, SlogDet
from tests.reference import evaluate
from tests.tensor.spectral import TIGHT, batches, found, random, ways

BACKENDS = ("NUMPY", "JAX", "MLX")


@settings(max_examples=50)
@given(batches(square=True))
def test_determinants_and_inverses_of_any_matrices_are_numpys(x: Any) -> None:
    x = (x / 2 + 3 * np.eye(x.shape[-1])).astype(x.dtype)
    a = TensorType(x.dtype, x.shape)()
    outputs = [linalg.det(a), *linalg.slogdet(a), linalg.inv(a)]
    wanted = [np.linalg.det(x), *np.linalg.slogdet(x), np.linalg.inv(x)]
    for y, got, expected in zip(outputs, evaluate(outputs, {a: x}), wanted, strict=True):
        assert (y.type.shape, y.dtype) == (expected.shape, expected.dtype.name)
        limit = 10 * TIGHT[x.dtype.name]
        np.testing.assert_allclose(got, expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("mode", BACKENDS)
def test_determinants_and_inverses_are_numpys_on_every_backend(mode: str) -> None:
    for dtype in ways(mode):
        x = (random((3, 4, 4), dtype) / 2 + 2 * np.eye(4)[[1, 0, 2, 3]]).astype(dtype)

        def build(a: Any) -> list[Any]:
            return [linalg.det(a), *linalg.slogdet(a), linalg.inv(a), linalg.matrix_power(a, -2)]

        wanted = [np.linalg.det(x), *np.linalg.slogdet(x), np.linalg.inv(x)]
        wanted.append(np.linalg.matrix_power(x, -2))
        for got, expected in zip(found(mode, build, x), wanted, strict=True):
            limit = 30 * TIGHT[dtype]
            np.testing.assert_allclose(got, expected, rtol=limit, atol=limit)


SINGULAR = {
    "rank 2": np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, -1.0]]),
    "a column of zeros first": np.array([[0.0, 1.0], [0.0, 1.0]]),
    "a row of zeros": np.array([[1.0, 2.0], [0.0, 0.0]]),
    "rank 1": np.ones((3, 3)),
    "zeros": np.zeros((3, 3)),
    "one element": np.zeros((1, 1)),
}


def cofactors(x: Any) -> Any:
    """The determinants of what is left without a row and a column, with their signs."""
    made = np.empty_like(x)
    for i, j in np.ndindex(x.shape):
        rest = np.delete(np.delete(x, i, 0), j, 1)
        made[i, j] = (-1) ** (i + j) * np.linalg.det(rest)
    return made


@pytest.mark.parametrize("name", SINGULAR)
def test_the_gradient_of_the_determinant_of_a_singular_matrix_is_its_cofactors(name: str) -> None:
    x = SINGULAR[name]
    for mode in BACKENDS:
        (slope,) = found(mode, lambda a: graphc.grad(linalg.det(a), a), x)
        np.testing.assert_allclose(slope, cofactors(x), atol=1e-12)


@pytest.mark.parametrize("name", SINGULAR)
def test_a_determinant_has_its_second_derivatives_at_every_rank(name: str) -> None:
    x = SINGULAR[name]
    direction = random(x.shape, "float64")
    step = 1e-3 * direction
    # Exact for a polynomial of degree 3.
    wanted = (cofactors(x + step) - cofactors(x - step)) / 2e-3

    def slopes(a: Any) -> list[Any]:
        by_a = graphc.grad(linalg.det(a), a)
        return [graphc.grad(gt.sum(by_a * direction), a), graphc.pushforward(by_a, a, direction)]

    for mode in BACKENDS:
        for slope in found(mode, slopes, x):
            np.testing.assert_allclose(slope, wanted, atol=1e-9)


def test_a_determinant_next_to_0_has_its_second_derivatives() -> None:
    x = np.arange(1.0, 10.0).reshape(3, 3)
    (slope,) = found("NUMPY", lambda a: graphc.grad(graphc.grad(linalg.det(a), a)[0, 0], a), x)
    np.testing.assert_allclose(slope, [[0, 0, 0], [0, 9, -8], [0, -6, 5]], atol=1e-13)


def test_gradients_of_all_orders_are_slopes() -> None:
    x = random((3, 3), "float64") + 2 * np.eye(3)

    def cost(a: Any) -> Any:
        return gt.sin(linalg.det(a)) + linalg.logdet(a @ a.T) ** 2 + gt.sum(linalg.inv(a) ** 3)

    def slope(a: Any) -> Any:
        return gt.sum(gt.cos(graphc.grad(cost(a), a)))

    graphc.verify_grad(cost, [x], rng=0, mode="NUMPY")
    graphc.verify_grad(slope, [x], rng=0, mode="NUMPY")
    graphc.verify_grad(AdjugateSlope(), [x, random((3, 3), "float64")], rng=0, mode="NUMPY")


def test_the_logarithm_neither_overflows_nor_loses_the_sign() -> None:
    x = gt.tensor3()
    sign, log = linalg.slogdet(x).sign, linalg.slogdet(x).logabsdet
    large = np.stack([1e200 * np.eye(3), np.diag([1e-200, -1e-200, 1e-200]), np.zeros((3, 3))])
    made = evaluate([sign, log, linalg.logdet(x)], {x: large})
    np.testing.assert_array_equal(made[0], [1, -1, 0])
    np.testing.assert_allclose(made[1], [600 * np.log(10), -600 * np.log(10), -np.inf])
    np.testing.assert_allclose(made[2], [600 * np.log(10), np.nan, -np.inf])


def test_the_logarithm_of_a_complex_determinant_has_its_angle() -> None:
    x = random((5, 3, 3), "complex128")
    a = gt.tensor3(dtype="complex128")
    (made,) = evaluate([linalg.logdet(a)], {a: x})
    np.testing.assert_allclose(made, np.log(np.linalg.det(x)), atol=1e-12)


def test_a_determinant_its_logarithm_an_inverse_and_a_solution_are_of_one_factorisation() -> None:
    a, b = gt.matrix(), gt.vector()
    cost = linalg.logdet(a) + gt.sum(linalg.solve(a, b)) + gt.sum(linalg.inv(a))
    slopes = graphc.grad(cost, [a, b])
    f = graphc.function([a, b], [cost, *slopes], "NUMPY")
    assert str(f.plan()).count("lu(") == 1
    x = random((3, 3), "float64") + 3 * np.eye(3)
    np.testing.assert_allclose(f(x, np.ones(3))[2], np.linalg.solve(x.T, np.ones(3)), atol=1e-12)


@pytest.mark.parametrize("mode", BACKENDS)
def test_tensors_are_inverted_as_in_numpy(mode: str) -> None:
    a, b = random((2, 3, 6), "float64"), random((2, 3), "float64")
    made = found(mode, lambda a, b: [linalg.tensorinv(a), linalg.tensorsolve(a, b)], a, b)
    np.testing.assert_allclose(made[0], np.linalg.tensorinv(a), atol=1e-11)
    np.testing.assert_allclose(made[1], np.linalg.tensorsolve(a, b), atol=1e-11)


def test_what_has_no_determinant_or_inverse_is_refused() -> None:
    for build in (linalg.det, linalg.slogdet, linalg.inv, linalg.logdet):
        with pytest.raises(ShapeError, match="square"):
            build(gt.tensor(shape=(2, 3)))
    with pytest.raises(ArgumentError, match="positive"):
        linalg.tensorinv(gt.matrix(), 0)
    with pytest.raises(ShapeError):
        linalg.tensorinv(gt.tensor(shape=(2, 3, 4)))
    assert linalg.inv(gt.lmatrix()).dtype == "float64"
    assert linalg.matrix_inverse is linalg.inv


@pytest.mark.parametrize("mode", BACKENDS)
def test_logarithms_of_roots_that_have_no_squares_are_right(mode: str) -> None:
    roots = np.array([1e-170, 3e-165, 2e170, 5e160])
    w = gt.vector("w")
    squares = gt.diag(gt.square(w))
    log = picks(Node.make(SlogDet("pos"), squares))[1]
    outputs = [log, linalg.slogdet(gt.tril(squares))[1], *graphc.grad(log, [w])]
    *logs, slope = graphc.function([w], outputs, mode=mode)(roots)
    for value in logs:
        np.testing.assert_allclose(value, 2 * np.sum(np.log(roots)), rtol=1e-14)
    np.testing.assert_allclose(slope, 2 / roots, rtol=1e-14)


def test_the_logarithm_of_a_positive_definite_matrix_takes_no_squares() -> None:
    a = gt.tensor("a", shape=(3, 3))
    (_, log) = SlogDet("pos").expand(a).inputs
    assert log is 2 * gt.sum(gt.log(gt.diagonal(lower_factor(a))), -1)
    (det,) = evaluate([Det("pos").expand(a)], {a: np.diag([1e-200, 1e160, 1e60])})
    np.testing.assert_allclose(det, 1e20, rtol=1e-12)
