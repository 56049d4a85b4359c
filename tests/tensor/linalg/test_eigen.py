"""Eigenvalues and eigenvectors, and gradients also where eigenvalues are equal."""

from __future__ import annotations

from collections.abc import Callable
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
from tests.tensor.spectral import TIGHT, adjoint, batches, found, hermitian, random, ways

SHAPES = [(2, 3, 3), (5, 5), (1, 1), (0, 0), (0, 2, 2)]


def check_pairs(x: Any, w: Any, v: Any, limit: float) -> None:
    np.testing.assert_allclose(x @ v, v * w[..., None, :], atol=limit)
    np.testing.assert_allclose(np.linalg.norm(v, axis=-2), np.ones(w.shape), atol=limit)


def check_hermitian(x: Any, w: Any, v: Any, limit: float) -> None:
    check_pairs(x, w, v, limit)
    np.testing.assert_allclose(
        adjoint(v) @ v, np.broadcast_to(np.eye(x.shape[-1]), x.shape), atol=limit
    )
    assert (np.diff(w) >= 0).all()


@given(batches(square=True))
def test_pairs_of_any_matrices_are_what_they_are_to_be(x: Any) -> None:
    a = TensorType(x.dtype, x.shape)()
    limit = 5 * TIGHT[x.dtype.name]
    w, v, values, *others = evaluate(
        [*linalg.eigh(a), linalg.eigvalsh(a), *linalg.eigh(a, lower=False), *linalg.eig(a)], {a: x}
    )
    below, above = np.tril(x, -1), np.triu(x, 1)
    middle = np.real(np.eye(x.shape[-1]) * x).astype(x.dtype)
    check_hermitian(below + adjoint(below) + middle, w, v, limit)
    check_hermitian(above + adjoint(above) + middle, *others[:2], limit)
    np.testing.assert_allclose(values, w, atol=limit)
    check_pairs(x, *others[2:], limit)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pairs_are_the_same_on_every_backend(shape: tuple[int, ...]) -> None:
    for mode in ("NUMPY", "JAX", "MLX"):
        for dtype in ways(mode):
            x, b = hermitian(shape, dtype), hermitian(shape, dtype, 1)
            b = (b @ b + np.eye(shape[-1])).astype(dtype)
            limit = 5 * TIGHT[dtype]
            w, v, values, upper, wb, vb, of_pair = found(
                mode,
                lambda x, b: [
                    *linalg.eigh(x), linalg.eigvalsh(x), linalg.eigvalsh(x, UPLO="U"),
                    *linalg.eigh(x, b), linalg.eigvalsh(x, b),
                ],
                x, b,
            )  # fmt: skip
            check_hermitian(x, w, v, limit)
            np.testing.assert_allclose(values, np.linalg.eigvalsh(x), atol=limit)
            np.testing.assert_allclose(upper, values, atol=limit)
            np.testing.assert_allclose(x @ vb, b @ vb * wb[..., None, :], atol=5 * limit)
            unit = np.broadcast_to(np.eye(shape[-1]), x.shape)
            np.testing.assert_allclose(adjoint(vb) @ b @ vb, unit, atol=limit)
            if x.size and x.ndim == 2:
                wanted = scipy.linalg.eigh(x, b, eigvals_only=True)
                np.testing.assert_allclose(of_pair, wanted, atol=5 * limit)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pairs_of_matrices_that_are_not_hermitian_are_complex(shape: tuple[int, ...]) -> None:
    for mode in ("NUMPY", "JAX", "MLX"):
        for dtype in ways(mode):
            if mode == "MLX" and dtype == "float64":
                continue
            x = random(shape, dtype)
            w, v, values = found(mode, lambda x: [*linalg.eig(x), linalg.eigvals(x)], x)
            assert w.dtype == np.result_type(x.dtype, np.complex64)
            check_pairs(x, w, v, 5 * TIGHT[dtype])
            order = np.sort_complex(values.round(3)), np.sort_complex(np.linalg.eigvals(x).round(3))
            np.testing.assert_allclose(*order, atol=2e-3)
            if not x.size:
                continue
            largest = np.take_along_axis(v, np.abs(v).argmax(-2)[..., None, :], -2)
            np.testing.assert_allclose(largest.imag, 0, atol=TIGHT[dtype])


def test_complex_eigenvalues_of_float64_are_none_of_mlx() -> None:
    x = gt.matrix("x")
    with pytest.raises(UnsupportedOperationError, match="does not support complex128"):
        graphc.function([x], linalg.eigvals(x), "MLX")


def test_a_matrix_that_is_not_finite_gives_nan_and_leaves_the_others(mode: str) -> None:
    x = np.stack([hermitian((3, 3), "float32", k) for k in range(3)])
    x[1, 2, 0], x[2, 1, 1] = np.nan, np.inf
    made = found(
        mode,
        lambda x: [*linalg.eigh(x), linalg.eigvalsh(x), *linalg.eig(x), linalg.eigvals(x)],
        x,
    )
    assert all(np.isnan(y[1:]).all() and np.isfinite(y[0]).all() for y in made)


def test_what_is_not_read_may_be_anything(mode: str) -> None:
    x = hermitian((3, 3), "float64")
    x[0, 2] = np.nan
    w, v = found(mode, linalg.eigh, x)
    check_hermitian(np.tril(x) + np.tril(x, -1).T, w, v, 1e-12)


def test_a_pair_that_is_not_definite_gives_nan(mode: str) -> None:
    a, b = hermitian((3, 3), "float64"), -np.eye(3)
    assert all(np.isnan(y).all() for y in found(mode, linalg.eigh, a, b))


def smooth(*ys: Any) -> Any:
    return sum((gt.sin(y) + y * y).sum() for y in ys)


def parts(z: Any) -> list[Any]:
    return [gt.real(z), gt.imag(z)]


COSTS: dict[str, Callable[[Any], Any]] = {
    "eigh": lambda x: smooth(*linalg.eigh(x)),
    "eigh of the upper triangle": lambda x: smooth(*linalg.eigh(x, UPLO="U")),
    "eigvalsh": lambda x: smooth(linalg.eigvalsh(x)),
    "eig": lambda x: smooth(*(y for z in linalg.eig(x) for y in parts(z))),
    "eigvals": lambda x: smooth(*parts(linalg.eigvals(x))),
}


@pytest.mark.parametrize("name", COSTS)
def test_gradients_are_those_of_differences(name: str) -> None:
    graphc.verify_grad(COSTS[name], [random((2, 3, 3), "float64")], n_tests=1)


def test_gradients_of_pairs_are_those_of_differences() -> None:
    x, b = random((3, 3), "float64"), hermitian((3, 3), "float64", 1)
    b = b @ b + np.eye(3)
    graphc.verify_grad(lambda x, b: smooth(*linalg.eigh(x, b)), [x, b], n_tests=1)
    graphc.verify_grad(lambda x, b: smooth(linalg.eigvalsh(x, b, lower=False)), [x, b], n_tests=1)


def test_a_gradient_has_a_gradient() -> None:
    x = random((3, 3), "float64")
    graphc.verify_grad(lambda x: graphc.grad(smooth(*linalg.eigh(x)), x), [x])
    graphc.verify_grad(lambda x: graphc.grad((linalg.eigvalsh(x) ** 3).sum(), x), [x])
    graphc.verify_grad(lambda x: graphc.grad(smooth(*parts(linalg.eigvals(x))), x), [x])


BASIS = np.linalg.qr(random((4, 4), "float64", 5))[0]
REPEATED = {
    "the identity": np.eye(4),
    "exactly two": np.diag([1.0, 2.0, 2.0, 3.0]),
    "two but for rounding": (BASIS * [1.0, 2.0, 2.0, 3.0]) @ BASIS.T,
    "zero": np.zeros((4, 4)),
}


def symmetric(x: Any) -> Any:
    return (x + x.mT) / 2


def above(x: Any) -> Any:
    """The projector on the eigenvectors of the eigenvalues above 1.5."""
    w, v = linalg.eigh(symmetric(x))
    return (v * gt.where(w > 1.5, 1.0, 0.0)) @ v.mT


@pytest.mark.parametrize("name", REPEATED)
def test_where_eigenvalues_are_equal_functions_that_are_smooth_have_their_gradient(
    name: str,
) -> None:
    x = REPEATED[name]
    weights = random((4, 4), "float64", 3)
    for cost in (
        lambda x: linalg.eigh(symmetric(x))[0].sum(),
        lambda x: gt.exp(linalg.eigvalsh(symmetric(x))).sum(),
        lambda x: (above(x) * weights).sum(),
    ):
        graphc.verify_grad(cost, [x])
    a = gt.matrix("a")
    w, v = linalg.eigh(symmetric(a))
    slope = graphc.grad((((v * gt.exp(w)) @ v.mT) * weights).sum(), a)
    assert np.isfinite(evaluate([slope], {a: x})[0]).all()


def test_eigenvalues_of_any_matrix_that_are_equal_have_their_gradient() -> None:
    x = np.diag([1.0, 2.0, 2.0])
    graphc.verify_grad(lambda x: gt.real(linalg.eigvals(x)).sum(), [x])
    a = gt.matrix("a")
    slope = graphc.grad(gt.real(linalg.eig(a)[1]).sum(), a)
    assert np.isfinite(evaluate([slope], {a: x})[0]).all()


def test_it_stands_in_scans(mode: str) -> None:
    x = gt.tensor("x", shape=(4, 3, 3), dtype="float32")
    total = graphc.scan(
        lambda row, before: before + linalg.eigvalsh(row)[-1] + gt.real(linalg.eigvals(row)).sum(),
        sequences=[x],
        outputs_info=[gt.constant(np.float32(0))],
    )
    value = hermitian((4, 3, 3), "float32")
    (made,) = graphc.function([x], [total[-1]], mode, returns="numpy")(value)
    wanted = np.linalg.eigvalsh(value)[:, -1].sum() + np.trace(value, axis1=1, axis2=2).sum()
    np.testing.assert_allclose(made, wanted, rtol=1e-4)


def test_what_has_no_eigenvalues_is_refused() -> None:
    with pytest.raises(ShapeError, match="expected square matrices"):
        linalg.eigh(gt.tensor("x", shape=(2, 3)))
    with pytest.raises(ShapeError, match="expected square matrices"):
        linalg.eigvals(gt.tensor("x", shape=(2, 3)))
    with pytest.raises(ArgumentError, match="unknown UPLO='l'"):
        linalg.eigh(gt.matrix("x"), UPLO="l")
    x = gt.matrix("x")
    f = graphc.function([x], linalg.eigvalsh(x), "NUMPY")
    with pytest.raises(ShapeError):
        f(np.zeros((2, 3)))


def test_a_driver_of_lapack_changes_nothing() -> None:
    a = gt.matrix("a")
    for driver in (None, "ev", "evd", "evr", "evx"):
        assert gt.linalg.eigh(a, driver=driver)[0] is gt.linalg.eigh(a)[0]
    assert gt.linalg.eigh(a, a, driver="gvd")[0] is gt.linalg.eigh(a, a)[0]
    for driver, b in (("gv", None), ("evd", a), ("geev", None)):
        with pytest.raises(ArgumentError, match="unknown driver"):
            gt.linalg.eigh(a, b, driver=driver)
