"""Orthonormal factors are orthonormal, and their gradients are those of differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError, UnsupportedOperationError
from graphc.ir import TensorType
from graphc.tensor import linalg
from tests.reference import evaluate
from tests.tensor.spectral import TIGHT, adjoint, batches, found, random, ways

SHAPES = [(2, 4, 3), (3, 4), (3, 3), (1, 1), (4, 1), (1, 4), (0, 3), (3, 0), (0, 2, 2)]


def check_factors(x: Any, q: Any, r: Any, limit: float) -> None:
    k = q.shape[-1]
    np.testing.assert_allclose(q @ r, x, atol=limit)
    unit = np.broadcast_to(np.eye(k), (*q.shape[:-2], k, k))
    np.testing.assert_allclose(adjoint(q) @ q, unit, atol=limit)
    np.testing.assert_array_equal(r, np.triu(r))


@given(batches())
def test_factors_of_any_matrices_are_what_they_are_to_be(x: Any) -> None:
    a = TensorType(x.dtype, x.shape)()
    for mode in ("full", "economic"):
        q, r = linalg.qr(a, mode)
        made = evaluate([q, r, *linalg.qr(a, mode, pivoting=True)], {a: x})
        assert (q.type.shape, r.type.shape) == (made[0].shape, made[1].shape)
        check_factors(x, *made[:2], TIGHT[x.dtype.name])
        place = np.broadcast_to(made[4][..., None, :], x.shape)
        check_factors(np.take_along_axis(x, place, -1), *made[2:4], TIGHT[x.dtype.name])
        heights = np.abs(np.diagonal(made[3], 0, -2, -1))
        assert (np.diff(heights) <= TIGHT[x.dtype.name]).all()


def everything(x: Any) -> list[Any]:
    plain = [*linalg.qr(x), *linalg.qr(x, "economic"), linalg.qr(x, "r")]
    return [*plain, *linalg.qr(x, "economic", pivoting=True), *linalg.qr(x, "raw", pivoting=True)]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors_are_the_same_on_every_backend(shape: tuple[int, ...]) -> None:
    for mode in ("NUMPY", "JAX", "MLX"):
        for dtype in ways(mode):
            x = random(shape, dtype)
            q, r, thin, small, alone, *pivoted = found(mode, everything, x)
            limit = TIGHT[dtype]
            check_factors(x, q, r, limit)
            check_factors(x, thin, small, limit)
            np.testing.assert_allclose(r, np.linalg.qr(x, "complete")[1], atol=limit)
            np.testing.assert_allclose(alone, r, atol=limit)
            assert pivoted[2].dtype == np.int32
            if x.ndim == 2 and x.size:
                wanted = scipy.linalg.qr(x, mode="economic", pivoting=True)
                (packed, scales), triangle, places = scipy.linalg.qr(x, mode="raw", pivoting=True)
                for y, other in zip(
                    pivoted, [*wanted, packed, scales, triangle, places], strict=True
                ):
                    np.testing.assert_allclose(y, other, atol=limit)


def smooth(*ys: Any) -> Any:
    return sum((gt.sin(y) + y * y).sum() for y in ys)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("shape", [(2, 4, 3), (3, 4), (1, 1), (3, 1), (1, 3)], ids=str)
def test_gradients_of_all_real_shapes_are_those_of_differences(shape: tuple[int, ...]) -> None:
    x = random(shape, "float64")
    graphc.verify_grad(lambda x: smooth(*linalg.qr(x, "economic")), [x])
    graphc.verify_grad(lambda x: smooth(linalg.qr(x, "r")), [x])
    graphc.verify_grad(lambda x: smooth(*linalg.qr(x, "economic", pivoting=True)[:2]), [x])


def test_the_gradient_of_a_full_factor_is_right_where_it_does_not_depend_on_the_basis() -> None:
    def outside(x: Any) -> Any:
        q = linalg.qr(x)[0][..., 2:]
        return gt.sin(q @ q.mT * 3).sum()

    graphc.verify_grad(outside, [random((5, 2), "float64")])


def test_a_gradient_has_a_gradient() -> None:
    x = random((3, 2), "float64")

    def slope(x: Any) -> Any:
        return graphc.grad(smooth(*linalg.qr(x, "economic")), x)

    graphc.verify_grad(slope, [x])


def test_what_is_no_mode_or_matrix_is_refused() -> None:
    with pytest.raises(ArgumentError, match="unknown mode='thin'"):
        linalg.qr(gt.matrix("x"), "thin")
    with pytest.raises(ShapeError, match="expected matrices"):
        linalg.qr(gt.vector("x"))
    x = gt.matrix("x")
    with pytest.raises(UnsupportedOperationError, match="Use mode='economic'"):
        graphc.grad(linalg.qr(x, "raw")[0].sum(), x)


def test_integers_and_half_width_floats_are_computed_in_wider_ones() -> None:
    q, r = linalg.qr(gt.imatrix("x"))
    assert (q.dtype, r.dtype) == ("float64", "float64")
    q, r = linalg.qr(gt.tensor("x", dtype="float16", shape=(2, 2)))
    assert (q.dtype, r.dtype) == ("float16", "float16")
