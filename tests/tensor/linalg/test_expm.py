"""Exponentials of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings

import graphc
import graphc.tensor as gt
from graphc.errors import ShapeError
from graphc.ir import TensorType
from graphc.tensor import linalg
from tests.reference import evaluate
from tests.tensor.spectral import TIGHT, batches, found, random, ways

BACKENDS = ("NUMPY", "JAX", "MLX")


@settings(max_examples=40)
@given(batches(square=True))
def test_exponentials_of_any_matrices_are_scipys(x: Any) -> None:
    a = TensorType(x.dtype, x.shape)()
    (y,) = evaluate([linalg.expm(a)], {a: x})
    wanted = scipy.linalg.expm(x) if x.size else x
    np.testing.assert_allclose(y, wanted, rtol=1e-4 if x.dtype.itemsize < 16 else 1e-11)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mode", BACKENDS)
def test_matrices_of_all_sizes_of_norm_are_right(mode: str) -> None:
    for dtype in ways(mode):
        x = random((4, 4), dtype)
        turning = np.stack([scale * (x - np.conj(x.T)) for scale in (0, 1e-9, 0.1, 1, 10, 100)])
        (y,) = found(mode, linalg.expm, turning.astype(dtype))
        wide = "complex128" if dtype.startswith("complex") else "float64"
        wanted = scipy.linalg.expm(turning.astype(wide))
        # To square 8 times doubles what was rounded each time.
        np.testing.assert_allclose(y, wanted, atol=1000 * TIGHT[dtype])


@pytest.mark.parametrize("mode", BACKENDS)
def test_what_is_not_finite_gives_nan_and_leaves_the_others(mode: str) -> None:
    x = np.stack([np.eye(2), np.full((2, 2), np.inf), np.diag([np.nan, 1])])
    (y,) = found(mode, linalg.expm, x)
    np.testing.assert_allclose(y[0], np.e * np.eye(2), atol=1e-14)
    assert np.isnan(y[1:]).all()


def test_gradients_of_all_orders_are_slopes() -> None:
    x = random((3, 3), "float64")

    def cost(a: Any) -> Any:
        return gt.sum(gt.sin(linalg.expm(a)))

    def slope(a: Any) -> Any:
        return gt.sum(graphc.grad(cost(a), a) ** 2)

    graphc.verify_grad(cost, [x], rng=0, mode="NUMPY")
    graphc.verify_grad(slope, [x], rng=0, mode="NUMPY")


def test_the_slope_is_scipys_frechet_derivative() -> None:
    a, v = random((3, 3), "float64"), random((3, 3), "float64", 1)
    x = gt.matrix()
    moved = graphc.pushforward(linalg.expm(x), x, gt.constant(v)).eval({x: a}, mode="NUMPY")
    wanted = scipy.linalg.expm_frechet(a, v, compute_expm=False)
    np.testing.assert_allclose(moved, wanted, atol=1e-12)


def test_only_square_matrices_have_one() -> None:
    with pytest.raises(ShapeError, match="square"):
        linalg.expm(gt.tensor(shape=(2, 3)))
