"""Cholesky factors, their gradients, and what matrices without one give."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, GraphcError, ShapeError
from graphc.ir import TensorType
from graphc.tensor import linalg
from graphc.tensor.linalg.cholesky import Cholesky, CholeskyGradient
from tests.modes import uncompiled
from tests.reference import evaluate
from tests.tensor.spectral import TIGHT, adjoint, batches, found, random, ways

BACKENDS = ("NUMPY", "JAX", "MLX")


def positive(shape: tuple[int, ...], dtype: str) -> Any:
    x = random(shape, dtype)
    return (x @ adjoint(x) + np.eye(shape[-1])).astype(dtype)


@settings(max_examples=50)
@given(batches(square=True))
def test_the_product_of_a_factor_with_its_adjoint_is_the_matrix(x: Any) -> None:
    x = (x @ adjoint(x) + np.eye(x.shape[-1])).astype(x.dtype)
    a = TensorType(x.dtype, x.shape)()
    lower, upper = evaluate([linalg.cholesky(a), linalg.cholesky(a, lower=False)], {a: x})
    limit = 30 * TIGHT[x.dtype.name]
    np.testing.assert_allclose(lower @ adjoint(lower), x, atol=limit)
    np.testing.assert_allclose(upper, adjoint(lower), atol=limit)
    np.testing.assert_array_equal(lower, np.tril(lower))


@pytest.mark.parametrize("mode", BACKENDS)
def test_one_matrix_without_a_factor_leaves_the_others(mode: str) -> None:
    for dtype in ways(mode):
        x = np.stack([positive((4, 4), dtype)] * 4)
        x[1] = -x[1]
        x[2, 3, 3] = -1
        x[3, 1, 0] = np.nan
        (y,) = found(mode, linalg.cholesky, x)
        np.testing.assert_allclose(y[0], np.linalg.cholesky(x[0]), atol=30 * TIGHT[dtype])
        assert np.isnan(y[1:]).all()


@pytest.mark.parametrize("mode", BACKENDS)
def test_a_matrix_without_a_factor_is_an_error_where_that_is_asked_for(mode: str) -> None:
    x = gt.tensor3("x")
    y = linalg.cholesky(x, on_error="raise")
    f = graphc.function([x], y, uncompiled(mode), returns="numpy")
    good = np.stack([np.eye(2), 4 * np.eye(2)])
    np.testing.assert_array_equal(f(good), np.sqrt(good))
    for kind in (np.linalg.LinAlgError, GraphcError):
        with pytest.raises(kind, match="not positive definite"):
            f(-good)


@pytest.mark.parametrize("mode", BACKENDS)
def test_only_one_triangle_is_read_and_has_a_gradient(mode: str) -> None:
    x = positive((3, 3), "float64")
    for lower in (True, False):
        own, other = (np.tril, np.triu) if lower else (np.triu, np.tril)
        spoilt = own(x) + other(np.full((3, 3), np.nan), 1 if lower else -1)

        def build(a: Any, lower: bool = lower) -> list[Any]:
            y = linalg.cholesky(a, lower)
            return [y, graphc.grad(gt.sum(y * gt.arange(3)), a)]

        y, slope = found(mode, build, spoilt)
        np.testing.assert_allclose(y, np.linalg.cholesky(x, upper=not lower), atol=1e-12)
        np.testing.assert_array_equal(slope, own(slope))
        assert np.isfinite(slope).all()


@pytest.mark.parametrize("lower", [True, False])
def test_gradients_of_all_orders_are_slopes(lower: bool) -> None:
    x = positive((3, 3), "float64")

    def cost(a: Any) -> Any:
        return gt.sum(gt.sin(linalg.cholesky(a, lower)) * gt.arange(1.0, 4))

    def slope(a: Any) -> Any:
        return graphc.grad(cost(a), a)

    graphc.verify_grad(cost, [x], rng=0, mode="NUMPY")
    graphc.verify_grad(slope, [x], rng=0, mode="NUMPY")


def test_the_gradient_of_a_log_likelihood_is_the_closed_form() -> None:
    k, v = positive((5, 5), "float64"), random((5,), "float64")
    a, b = gt.matrix(), gt.vector()
    lower = linalg.cholesky(a)
    inner = linalg.solve_triangular(lower, b, lower=True)
    cost = -0.5 * gt.sum(inner**2) - gt.sum(gt.log(gt.diagonal(lower)))
    slope = graphc.function([a, b], graphc.grad(cost, a), "NUMPY")(k, v)
    alpha = np.linalg.solve(k, v)
    wanted = 0.5 * (np.outer(alpha, alpha) - np.linalg.inv(k))
    np.testing.assert_allclose((slope + slope.T) / 2, wanted, atol=1e-12)


def test_solve_and_cholesky_of_one_matrix_share_the_factor() -> None:
    a, b = gt.matrix(), gt.vector()
    x = linalg.solve(a, b, assume_a="pos", lower=True)
    cost = gt.sum(x * b) + gt.sum(gt.log(gt.diagonal(linalg.cholesky(a))))
    f = graphc.function([a, b], [cost, graphc.grad(cost, a)], "JAX")
    assert str(f.plan()).count("cholesky(") == 1


def test_what_has_no_factor_is_refused() -> None:
    with pytest.raises(ShapeError, match="square"):
        linalg.cholesky(gt.tensor(shape=(2, 3)))
    with pytest.raises(ShapeError, match="square"):
        linalg.cholesky(gt.vector())
    with pytest.raises(ArgumentError, match="on_error"):
        linalg.cholesky(gt.matrix(), on_error="ignore")
    with pytest.raises(DTypeError):
        gt.Tensor.make(Cholesky(), gt.lmatrix())
    assert linalg.cholesky(gt.lmatrix()).dtype == "float64"
    assert linalg.cholesky(gt.tensor(shape=(2, 2), dtype="float16")).dtype == "float16"


def test_lengths_found_to_differ_are_refused() -> None:
    x = gt.matrix("x")
    f = graphc.function([x], linalg.cholesky(x), "NUMPY")
    with pytest.raises(ShapeError):
        f(np.ones((2, 3)))


def test_cho_factor_is_what_cho_solve_takes() -> None:
    k, b = positive((3, 3), "float64"), random((3, 2), "float64")
    a = gt.matrix()
    for lower in (True, False):
        x = linalg.cho_solve(linalg.cho_factor(a, lower), b)
        np.testing.assert_allclose(x.eval({a: k}, mode="NUMPY"), np.linalg.solve(k, b), atol=1e-12)


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (7, 7), (3, 70, 70), (2, 130, 130)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_cholesky_gradient_by_blocks_is_jaxs(shape: tuple[int, ...], dtype: str) -> None:
    x, g = positive(shape, dtype), random(shape, dtype)
    lower = np.tril(np.linalg.cholesky(x))
    with jax.enable_x64(True):
        _, pullback = jax.vjp(jnp.linalg.cholesky, jnp.asarray(x))
        # JAX's is with respect to both triangles, and its convention is that of the conjugate.
        (both,) = pullback(jnp.asarray(np.tril(g).conj()))
    both = np.asarray(both).conj()
    both = both + np.swapaxes(both.conj(), -1, -2)
    n = np.arange(shape[-1])
    both[..., n, n] = both[..., n, n].real / 2
    wide = dtype == "float32"
    y = CholeskyGradient().perform(lower, g)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, np.tril(both), atol=3e-4 if wide else 1e-9, rtol=1e-3)


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("shape", [(5, 5), (70, 70), (2, 67, 67)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64"])
def test_gradient_of_cholesky_is_one_operation_on_mlx(
    dtype: str, shape: tuple[int, ...], static: bool
) -> None:
    a = gt.tensor("a", dtype=dtype, shape=shape if static else (None,) * len(shape))
    weights = random(shape, dtype)
    y = linalg.cholesky(a)
    cost = gt.sum(gt.real(gt.conj(y) * weights))
    f = graphc.function([a], graphc.grad(cost, a), uncompiled("MLX"))
    x = positive(shape, dtype)
    # NumPy computes factorisations of complex matrices, step by step.
    assert ("cholesky_gradient(" in str(f.plan())) == (dtype != "complex64")
    wanted = graphc.function([a], graphc.grad(cost, a), "JAX")(x)
    tight = dtype == "float64"
    size = np.abs(wanted).max()
    np.testing.assert_allclose(f(x), wanted, rtol=0, atol=(1e-12 if tight else 1e-5) * size)
