"""Pseudo-inverses, least squares, ranks and condition numbers are NumPy's, and have gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from graphc.ir import TensorType
from graphc.tensor import linalg
from tests.reference import evaluate
from tests.tensor.spectral import TIGHT, adjoint, batches, found, hermitian, random, ways

SHAPES = [(2, 4, 3), (3, 4), (3, 3), (1, 1), (0, 3), (3, 0), (0, 2, 2)]


@given(batches())
def test_a_pseudo_inverse_is_one(x: Any) -> None:
    """Moore and Penrose's four equations."""
    a = TensorType(x.dtype, x.shape)()
    y = linalg.pinv(a)
    (p,) = evaluate([y], {a: x})
    assert y.type.shape == p.shape
    limit = 100 * TIGHT[x.dtype.name] * (1 + np.abs(p).max(initial=0)) ** 2
    np.testing.assert_allclose(x @ p @ x, x, atol=limit)
    np.testing.assert_allclose(p @ x @ p, p, atol=limit)
    np.testing.assert_allclose(adjoint(x @ p), x @ p, atol=limit)
    np.testing.assert_allclose(adjoint(p @ x), p @ x, atol=limit)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_is_numpys_on_every_backend(shape: tuple[int, ...]) -> None:
    for mode in ("NUMPY", "JAX", "MLX"):
        for dtype in ways(mode):
            x, b = random(shape, dtype), random((*shape[:-1], 2), dtype)
            limit = 50 * TIGHT[dtype]
            p, y, left, rank, s, found_rank = found(
                mode,
                lambda x, b: [linalg.pinv(x), *linalg.lstsq(x, b), linalg.matrix_rank(x)],
                x, b,
            )  # fmt: skip
            wanted = np.linalg.pinv(x)
            np.testing.assert_allclose(p, wanted, atol=limit)
            np.testing.assert_allclose(y, wanted @ b, atol=limit)
            np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), atol=limit)
            assert rank.dtype == np.linalg.lstsq(np.eye(2), np.ones(2))[2].dtype
            np.testing.assert_array_equal(rank, np.linalg.matrix_rank(x) if x.size else rank * 0)
            np.testing.assert_array_equal(found_rank, rank)
            missed = np.sum(np.abs(b - x @ y) ** 2, -2)
            tall = shape[-2] > shape[-1]
            np.testing.assert_allclose(left, missed if tall else missed[..., :0], atol=limit)


def test_a_vector_is_solved_for_as_a_vector(mode: str) -> None:
    x, b = random((4, 3), "float64"), random((4,), "float64")
    made = found(mode, linalg.lstsq, x, b)
    for y, wanted in zip(made, np.linalg.lstsq(x, b), strict=True):
        np.testing.assert_allclose(y, wanted, atol=1e-12)


def test_small_singular_values_count_as_zero(mode: str) -> None:
    x = np.diag([1.0, 1e-3, 1e-20])
    p, loose, each, rank, limited, y = found(
        mode,
        lambda x: [
            linalg.pinv(x), linalg.pinv(x, rcond=1e-2),
            linalg.pinv(gt.stack([x, x]), rtol=[1e-2, 1e-4]),
            linalg.matrix_rank(x), linalg.matrix_rank(x, tol=0.5),
            linalg.lstsq(x, gt.ones(3), 1e-2)[0],
        ],
        x,
    )  # fmt: skip
    np.testing.assert_allclose(p, np.diag([1, 1e3, 0]), rtol=1e-12)
    np.testing.assert_allclose(loose, np.diag([1.0, 0, 0]))
    np.testing.assert_allclose(each, [loose, p], rtol=1e-12)
    assert (rank, limited) == (2, 1)
    np.testing.assert_allclose(y, [1, 0, 0])


def test_of_hermitian_matrices_the_lower_triangle_is_read(mode: str) -> None:
    x = hermitian((2, 3, 3), "float64")
    torn = np.tril(x) + np.triu(np.full((3, 3), np.nan), 1)
    p, rank = found(
        mode,
        lambda x: [linalg.pinv(x, hermitian=True), linalg.matrix_rank(x, hermitian=True)],
        torn,
    )
    np.testing.assert_allclose(p, np.linalg.pinv(x, hermitian=True), atol=1e-11)
    np.testing.assert_array_equal(rank, [3, 3])


@pytest.mark.parametrize("p", [None, 2, -2, "fro", "nuc", 1, -1, np.inf, -np.inf])
def test_condition_numbers_are_numpys(p: Any, mode: str) -> None:
    x = np.concatenate([random((2, 3, 3), "float64"), np.ones((1, 3, 3)), np.zeros((1, 3, 3))])
    x[2, 0, 0] = np.nan
    (made,) = found(mode, lambda x: linalg.cond(x, p), x)
    np.testing.assert_allclose(made[:2], np.linalg.cond(x[:2], p), rtol=1e-10)
    assert np.isnan(made[2])
    assert made[3] == np.inf


def test_what_is_not_finite_stays_so(mode: str) -> None:
    x = random((2, 3, 2), "float64")
    x[1, 1, 1] = np.nan
    p, y = found(mode, lambda x: [linalg.pinv(x), linalg.lstsq(x, gt.ones((3, 1)))[0]], x)
    for made in (p, y):
        assert np.isfinite(made[0]).all()
        assert np.isnan(made[1]).all()


def smooth(x: Any) -> Any:
    return gt.sin(x).sum() + (x * x).sum()


EQUAL = {
    "tall": random((2, 4, 3), "float64"),
    "wide": random((3, 4), "float64"),
    "the identity": np.eye(3),
    "orthonormal columns": np.linalg.qr(random((4, 2), "float64"))[0],
}


@pytest.mark.parametrize("name", EQUAL)
def test_gradients_are_those_of_differences_also_where_values_are_equal(name: str) -> None:
    x = EQUAL[name]
    b = random((*x.shape[:-1], 2), "float64", 1)
    graphc.verify_grad(lambda x: smooth(linalg.pinv(x)), [x])
    graphc.verify_grad(lambda x, b: smooth(linalg.lstsq(x, b)[0]), [x, b])
    graphc.verify_grad(lambda x, b: smooth(linalg.lstsq(x, b)[1]), [x, b])


def test_a_gradient_of_low_but_constant_rank_is_right() -> None:
    a, b = random((4, 2), "float64"), random((2, 3), "float64")
    graphc.verify_grad(lambda a, b: smooth(linalg.pinv(a @ b)), [a, b])
    right = random((4, 2), "float64", 1)
    graphc.verify_grad(lambda a, b, c: smooth(linalg.lstsq(a @ b, c)[0]), [a, b, right])


def test_a_gradient_has_a_gradient() -> None:
    x, b = random((3, 2), "float64"), random((3, 1), "float64", 1)
    graphc.verify_grad(lambda x: graphc.grad(smooth(linalg.pinv(x)), x), [x])
    graphc.verify_grad(lambda x: graphc.grad(smooth(linalg.lstsq(x, gt.constant(b))[0]), x), [x])


def test_least_squares_and_their_gradient_factorise_once() -> None:
    x, b = gt.matrix("x"), gt.vector("b")
    y = linalg.lstsq(x, b)[0]
    f = graphc.function([x, b], [y, *graphc.grad(smooth(y), [x, b])], "NUMPY")
    assert str(f.plan()).count("svd(") == 1


def test_what_does_not_fit_is_refused() -> None:
    x = gt.matrix("x")
    with pytest.raises(ArgumentError, match="rcond and rtol"):
        linalg.pinv(x, rcond=1e-3, rtol=1e-3)
    with pytest.raises(ArgumentError, match="tol and rtol"):
        linalg.matrix_rank(x, 1e-3, rtol=1e-3)
    with pytest.raises(ShapeError, match="more axes"):
        linalg.pinv(x, rtol=[1e-3, 1e-4])
    with pytest.raises(ShapeError, match="lengths differ"):
        linalg.lstsq(gt.tensor("a", shape=(3, 2)), gt.tensor("b", shape=(2,)))
    with pytest.raises(ShapeError, match="no elements"):
        linalg.cond(gt.tensor("a", shape=(0, 0)))
