"""Triangles in orthonormal bases, and square roots."""

from __future__ import annotations

from itertools import pairwise
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

SHAPES = [(2, 3, 3), (4, 4), (1, 1), (0, 0), (0, 2, 2)]


def check_unitary(*zs: Any, limit: float) -> None:
    for z in zs:
        unit = np.broadcast_to(np.eye(z.shape[-1]), z.shape)
        np.testing.assert_allclose(adjoint(z) @ z, unit, atol=limit)


def check_triangle(t: Any) -> None:
    """Nothing stands below the diagonal; of real matrices, below blocks of two rows."""
    np.testing.assert_array_equal(t, np.triu(t, 0 if np.iscomplexobj(t) else -1))


@given(batches(square=True))
def test_triangles_of_any_matrices_are_what_they_are_to_be(x: Any) -> None:
    a = TensorType(x.dtype, x.shape)()
    limit = 2 * TIGHT[x.dtype.name]
    outputs = [*linalg.schur(a), *linalg.schur(a, "complex"), *linalg.qz(a, a + 1)]
    t, z, tc, zc, aa, bb, q, right = evaluate(outputs, {a: x})
    for triangle, basis in ((t, z), (tc, zc)):
        np.testing.assert_allclose(basis @ triangle @ adjoint(basis), x, atol=limit)
        check_triangle(triangle)
    check_unitary(z, zc, q, right, limit=limit)
    np.testing.assert_allclose(q @ aa @ adjoint(right), x, atol=limit)
    np.testing.assert_allclose(q @ bb @ adjoint(right), x + 1, atol=limit)


def test_real_results_do_not_need_the_complex_one_beside_them(mode: str) -> None:
    x = random((3, 3), "float64")
    aa, bb, q, z = found(mode, lambda a: list(linalg.qz(a, a + 1)), x)
    np.testing.assert_allclose(q @ aa @ z.T, x, atol=1e-12)
    np.testing.assert_allclose(q @ bb @ z.T, x + 1, atol=1e-12)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_triangles_are_triangles_on_every_backend(shape: tuple[int, ...]) -> None:
    for mode in ("NUMPY", "JAX", "MLX"):
        for dtype in ways(mode):
            x, limit = random(shape, dtype), 2 * TIGHT[dtype]
            t, z, first, basis, root = found(
                mode,
                lambda x: [
                    *linalg.schur(x), *linalg.schur(x, sort="lhp"),
                    linalg.sqrtm(x @ gt.conj(x.mT)),
                ],
                x,
            )  # fmt: skip
            np.testing.assert_allclose(z @ t @ adjoint(z), x, atol=limit)
            np.testing.assert_allclose(basis @ first @ adjoint(basis), x, atol=limit)
            check_unitary(z, basis, limit=limit)
            check_triangle(t)
            np.testing.assert_allclose(root @ root, x @ adjoint(x), atol=5 * limit)


SIDES = {
    "lhp": lambda w: w.real < 0,
    "rhp": lambda w: w.real >= 0,
    "iuc": lambda w: abs(w) <= 1,
    "ouc": lambda w: abs(w) > 1,
}


@pytest.mark.parametrize("sort", SIDES)
def test_the_eigenvalues_asked_for_come_first(sort: str, mode: str) -> None:
    x, b = random((5, 5), "float32", 2), random((5, 5), "float32", 3)
    t, alpha, beta = found(
        mode,
        lambda x, b: [
            linalg.schur(x, "complex", sort)[0] if mode != "MLX" else linalg.schur(x, sort=sort)[0],
            *linalg.ordqz(x, b, sort)[2:4],
        ],
        x, b,
    )  # fmt: skip
    ends = [k for k in range(1, 5) if t[k, k - 1] == 0]
    first = [bool(SIDES[sort](w)) for w in np.concatenate(
        [np.linalg.eigvals(block) for block in _blocks(t, ends)]
    )]  # fmt: skip
    assert first == sorted(first, reverse=True)
    of_pair = [bool(SIDES[sort](w)) for w in alpha / beta]
    assert of_pair == sorted(of_pair, reverse=True)


def _blocks(t: Any, ends: list[int]) -> list[Any]:
    places = [0, *ends, len(t)]
    return [t[i:j, i:j] for i, j in pairwise(places)]


def test_generalised_eigenvalues_are_scipys(mode: str) -> None:
    dtype = "float32" if mode == "MLX" else "float64"
    a, b = random((4, 4), dtype), random((4, 4), dtype, 1)
    alpha, beta = found(mode, lambda a, b: linalg.ordqz(a, b)[2:4], a, b)
    made, wanted = (np.sort_complex(w) for w in (alpha / beta, scipy.linalg.eigvals(a, b)))
    np.testing.assert_allclose(made, wanted, rtol=1e-4)


def test_a_root_is_real_or_nan(mode: str) -> None:
    x = np.stack([np.diag([4.0, 9.0]), np.diag([-1.0, 1.0]), [[0.0, 1.0], [-1.0, 0.0]]])
    x = np.concatenate([x, np.full((1, 2, 2), np.nan)])
    (y,) = found(mode, linalg.sqrtm, x)
    np.testing.assert_allclose(y[0], np.diag([2.0, 3.0]))
    np.testing.assert_allclose(y[2] @ y[2], x[2], atol=1e-12)
    assert np.isnan(y[[1, 3]]).all()


def test_the_gradient_of_a_root_is_that_of_differences() -> None:
    x = hermitian((2, 3, 3), "float64")
    x = x @ x + np.eye(3) + random((2, 3, 3), "float64", 4) / 10

    def cost(x: Any) -> Any:
        return gt.sin(linalg.sqrtm(x)).sum()

    graphc.verify_grad(cost, [x])
    graphc.verify_grad(lambda x: graphc.grad(cost(x), x), [x[0]])
    graphc.verify_grad(cost, [np.eye(3)])


def test_what_cannot_be_done_is_refused() -> None:
    x = gt.matrix("x")
    with pytest.raises(ArgumentError, match="unknown output='r'"):
        linalg.schur(x, "r")
    with pytest.raises(ArgumentError, match="unknown sort='up'"):
        linalg.qz(x, x, sort="up")
    with pytest.raises(ShapeError, match="expected square matrices"):
        linalg.sqrtm(gt.tensor("x", shape=(2, 3)))
    with pytest.raises(ShapeError, match="lengths differ"):
        linalg.qz(gt.tensor("a", shape=(2, 2)), gt.tensor("b", shape=(3, 3)))
    for made in (linalg.schur(x)[0], linalg.qz(x, x)[0]):
        with pytest.raises(UnsupportedOperationError, match="has no derivative"):
            graphc.grad(made.sum(), x)
