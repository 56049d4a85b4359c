"""Singular values and vectors, and gradients also where values are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from graphc.ir import TensorType
from graphc.tensor import linalg
from tests.reference import evaluate
from tests.tensor.spectral import TIGHT, adjoint, batches, found, random, ways

SHAPES = [(2, 4, 3), (3, 5), (3, 3), (1, 1), (4, 1), (0, 3), (3, 0), (0, 2, 2)]


def check_factors(x: Any, u: Any, s: Any, vh: Any, limit: float) -> None:
    k = s.shape[-1]
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, atol=limit)
    for basis in (adjoint(u) @ u, vh @ adjoint(vh)):
        unit = np.broadcast_to(np.eye(basis.shape[-1]), basis.shape)
        np.testing.assert_allclose(basis, unit, atol=limit)
    assert (np.diff(s) <= 0).all()


@given(batches())
def test_factors_of_any_matrices_are_what_they_are_to_be(x: Any) -> None:
    a = TensorType(x.dtype, x.shape)()
    for full in (True, False):
        factors = linalg.svd(a, full)
        made = evaluate([*factors, linalg.svdvals(a)], {a: x})
        assert [y.type.shape for y in factors] == [y.shape for y in made[:3]]
        check_factors(x, *made[:3], TIGHT[x.dtype.name])
        np.testing.assert_allclose(made[3], made[1], atol=TIGHT[x.dtype.name])


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors_are_the_same_on_every_backend(shape: tuple[int, ...]) -> None:
    for mode in ("NUMPY", "JAX", "MLX"):
        for dtype in ways(mode):
            x = random(shape, dtype)
            made = found(
                mode,
                lambda x: [*linalg.svd(x), *linalg.svd(x, False), linalg.svd(x, compute_uv=False)],
                x,
            )
            check_factors(x, *made[:3], TIGHT[dtype])
            check_factors(x, *made[3:6], TIGHT[dtype])
            wanted = np.linalg.svd(x, compute_uv=False)
            np.testing.assert_allclose(made[6], wanted, atol=TIGHT[dtype])


def test_a_matrix_that_is_not_finite_gives_nan_and_leaves_the_others(mode: str) -> None:
    x = random((3, 3, 2), "float64")
    x[1, 0, 1], x[2, 2, 0] = np.nan, np.inf
    made = found(mode, lambda x: [*linalg.svd(x), *linalg.svd(x, False), linalg.svdvals(x)], x)
    for y, wanted in zip(made[:3], np.linalg.svd(x[0]), strict=True):
        np.testing.assert_allclose(np.abs(y[0]), np.abs(wanted), atol=1e-12)
    assert all(np.isnan(y[1:]).all() and np.isfinite(y[0]).all() for y in made)


def gradient(cost: Any, x: Any) -> Any:
    a = TensorType(x.dtype, x.shape)()
    return evaluate([graphc.grad(cost(a), a)], {a: x})[0]


def orthonormal(x: Any) -> Any:
    u, _, vh = linalg.svd(x, full_matrices=False)
    return u @ vh


REPEATED = {
    "the identity": np.eye(3),
    "two of three": random((4, 4), "float64"),
    "tall": np.linalg.qr(random((4, 3), "float64"))[0] * 2,
    "wide": np.linalg.qr(random((4, 2), "float64"))[0].T * 2,
}
_u, _, _vh = np.linalg.svd(REPEATED["two of three"])
REPEATED["two of three"] = (_u * [3.0, 1.5, 1.5, 0.5]) @ _vh


@pytest.mark.parametrize("name", REPEATED)
def test_where_singular_values_are_equal_functions_that_are_smooth_have_their_gradient(
    name: str,
) -> None:
    x = REPEATED[name]
    weights = random(x.shape, "float64", 7)
    costs = [
        lambda x: (orthonormal(x) * weights).sum(),
        lambda x: (linalg.svdvals(x) ** 3).sum(),
        lambda x: linalg.norm(x, "nuc"),
        lambda x: gt.log(linalg.svd(x)[1]).sum(),
    ]
    for cost in costs:
        graphc.verify_grad(cost, [x])
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    np.testing.assert_allclose(gradient(costs[2], x), u @ vh, atol=1e-12)


@pytest.mark.parametrize("side", ["right", "left"])
def test_polar_factors_are_scipys_and_have_gradients_where_values_are_equal(
    side: str, mode: str
) -> None:
    for x in (random((4, 3), "float64"), random((3, 4), "float64"), REPEATED["two of three"]):
        made = found(mode, lambda x: linalg.polar(x, side), x)
        for y, wanted in zip(made, scipy.linalg.polar(x, side), strict=True):
            np.testing.assert_allclose(y, wanted, atol=1e-12)
    weights = random((4, 4), "float64", 7)
    for i in (0, 1):
        graphc.verify_grad(lambda x, i=i: linalg.polar(x, side)[i] * weights, [x], n_tests=1)
    with pytest.raises(ArgumentError, match="unknown side='up'"):
        linalg.polar(gt.matrix("x"), "up")


def test_singular_values_of_zero_have_finite_gradients() -> None:
    x = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    for full in (True, False):
        slope = gradient(lambda x, full=full: sum(y.sum() for y in linalg.svd(x, full)), x)
        assert np.isfinite(slope).all()
    assert np.isfinite(gradient(lambda x: linalg.svdvals(x).sum(), np.zeros((3, 2)))).all()


def test_a_gradient_has_a_gradient() -> None:
    x = random((3, 2), "float64")

    def slope(x: Any) -> Any:
        u, s, vh = linalg.svd(x, full_matrices=False)
        return graphc.grad((u * u * u).sum() + (s**3).sum() + gt.sin(u @ vh).sum(), x)

    graphc.verify_grad(slope, [x])
    graphc.verify_grad(lambda x: graphc.grad((linalg.svdvals(x) ** 3).sum(), x), [x])


def test_it_stands_in_scans_and_batches(mode: str) -> None:
    x = gt.tensor("x", shape=(4, 3, 2))
    total = graphc.scan(
        lambda row, before: before + linalg.svdvals(row).sum(),
        sequences=[x],
        outputs_info=[gt.constant(0.0)],
    )
    row = gt.matrix("row")
    over = graphc.vectorize_graph(linalg.svd(row, full_matrices=False), {row: x})
    value = random((4, 3, 2), "float64")
    f = graphc.function([x], [total[-1], *over], mode, returns="numpy")
    made = f(value)
    np.testing.assert_allclose(made[0], np.linalg.svd(value, compute_uv=False).sum(), rtol=1e-12)
    check_factors(value, *made[1:], 1e-12)


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"svd\(x: float64\[\?\]\): expected matrices"):
        linalg.svd(gt.vector("x"))
