"""Triangular factors with exchanges of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.ir import TensorType
from graphc.tensor import linalg
from tests.reference import evaluate
from tests.tensor.spectral import TIGHT, batches, found, random, ways

SHAPES = [(3, 3), (2, 4), (5, 2), (2, 3, 3), (1, 1), (0, 0), (0, 3), (3, 0), (0, 2, 2)]


@settings(max_examples=60)
@given(batches())
def test_the_product_of_the_factors_is_the_matrix(x: Any) -> None:
    a = TensorType(x.dtype, x.shape)()
    outputs = [*linalg.lu(a), *linalg.lu(a, permute_l=True), *linalg.lu(a, p_indices=True)]
    p, low, up, both, _, places, _, _ = made = evaluate(outputs, {a: x})
    assert [y.type.shape for y in outputs] == [y.shape for y in made]
    limit = 10 * TIGHT[x.dtype.name]
    np.testing.assert_allclose(p @ low @ up, x, atol=limit)
    np.testing.assert_allclose(both @ up, x, atol=limit)
    np.testing.assert_allclose(
        np.take_along_axis(low, places[..., None].astype(int), -2) @ up, x, atol=limit
    )
    assert p.dtype == x.real.dtype
    assert places.dtype == "int32"


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors_are_scipys_on_every_backend(shape: tuple[int, ...]) -> None:
    for mode in ("NUMPY", "JAX", "MLX"):
        for dtype in ways(mode):
            x = random(shape, dtype)
            made = found(mode, lambda x: [*linalg.lu(x), *linalg.lu_factor(x)], x)
            k = min(shape[-2:])
            ends = [(shape[-2],) * 2, (shape[-2], k), (k, shape[-1]), shape[-2:], (k,)]
            assert [y.shape for y in made] == [(*shape[:-2], *end) for end in ends]
            if x.size:
                for got, wanted in zip(made, scipy.linalg.lu(x), strict=False):
                    np.testing.assert_allclose(got, wanted, atol=TIGHT[dtype])
            if len(shape) == 2 and x.size:
                packed, exchanges = scipy.linalg.lu_factor(x)
                np.testing.assert_allclose(made[3], packed, atol=TIGHT[dtype])
                np.testing.assert_array_equal(made[4], exchanges)


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_factors_solve_for_one_matrix_or_many(mode: str) -> None:
    a, b = random((2, 1, 4, 4), "float64"), random((3, 4, 2), "float64")

    def build(a: Any, b: Any) -> list[Any]:
        packed, exchanges = linalg.lu_factor(a)
        some = [linalg.lu_solve((packed, exchanges), b, trans) for trans in (0, 1)]
        # Exchanges that come from elsewhere.
        return [*some, linalg.lu_solve((packed, exchanges + 0), b)]

    x, y = gt.tensor(shape=(None, 1, None, None)), gt.tensor3()
    f = graphc.function([x, y], build(x, y), mode, returns="numpy")
    plain, turned, again = f(a, b)
    np.testing.assert_allclose(plain, np.linalg.solve(a, b), atol=1e-10)
    np.testing.assert_allclose(turned, np.linalg.solve(np.swapaxes(a, -1, -2), b), atol=1e-10)
    np.testing.assert_allclose(again, plain, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)], ids=str)
def test_gradients_of_all_orders_are_slopes(shape: tuple[int, int]) -> None:
    x = random(shape, "float64")

    def cost(a: Any) -> Any:
        _, low, up = linalg.lu(a)
        return gt.sum(low**3) + gt.sum(gt.sin(up))

    def slope(a: Any) -> Any:
        return gt.sum(gt.cos(graphc.grad(cost(a), a)))

    graphc.verify_grad(cost, [x], rng=0, mode="NUMPY")
    if shape[0] == shape[1]:
        graphc.verify_grad(slope, [x], rng=0, mode="NUMPY")


@pytest.mark.parametrize("mode", ["NUMPY", "JAX", "MLX"])
def test_exchanges_are_a_permutation_and_its_inverse(mode: str) -> None:
    p = np.array([[1, 2, 2], [2, 1, 2], [0, 1, 2]], np.int32)
    both = [linalg.pivot_to_permutation(gt.constant(p), inverse) for inverse in (False, True)]
    back, order = graphc.function([], both, mode, returns="numpy")()
    np.testing.assert_array_equal(order, [[1, 2, 0], [2, 1, 0], [0, 1, 2]])
    np.testing.assert_array_equal(np.argsort(order, -1), back)


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(ArgumentError, match="exclude each other"):
        linalg.lu(gt.matrix(), permute_l=True, p_indices=True)
    with pytest.raises(ShapeError):
        linalg.lu(gt.vector())
    with pytest.raises(DTypeError):
        linalg.pivot_to_permutation(gt.vector())
    with pytest.raises(ShapeError):
        linalg.pivot_to_permutation(gt.lscalar())
