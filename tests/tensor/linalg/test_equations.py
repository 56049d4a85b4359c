"""Solutions of matrix equations solve them, and have the gradients of differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, ShapeError
from graphc.ir import TensorType
from graphc.tensor import linalg
from tests.reference import evaluate
from tests.tensor.spectral import TIGHT, adjoint, found, random


@given(
    st.sampled_from([(), (0,), (1,), (2, 2)]), st.integers(0, 4), st.integers(0, 4),
    st.sampled_from([*TIGHT]), st.integers(0, 99),
)  # fmt: skip
def test_a_solution_of_sylvesters_equation_solves_it(
    front: tuple[int, ...], n: int, m: int, dtype: str, seed: int
) -> None:
    a = random((*front, n, n), dtype, seed) + (6 * np.eye(n)).astype(dtype)
    b, q = random((*front, m, m), dtype, seed), random((*front, n, m), dtype, seed)
    xs = [TensorType(v.dtype, v.shape)() for v in (a, b, q)]
    y = linalg.solve_sylvester(*xs)
    (x,) = evaluate([y], dict(zip(xs, (a, b, q), strict=True)))
    assert y.type.shape == x.shape
    np.testing.assert_allclose(a @ x + x @ b, q, atol=10 * TIGHT[dtype])


FRONTS = [((), ()), ((2,), ()), ((), (0,))]


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("fronts", FRONTS, ids=str)
def test_every_equation_is_solved_on_every_backend(fronts: Any, dtype: str, mode: str) -> None:
    first, second = fronts
    a = (random((*first, 3, 3), dtype) / 8).astype(dtype)
    b, q = random((*first, 3, 2), dtype, 1), random((*second, 3, 3), dtype, 2)
    unit = np.eye(3, dtype=dtype)
    q = q @ adjoint(q) + unit
    p = gt.constant(unit[:2, :2])

    def build(a: Any, b: Any, q: Any) -> list[Any]:
        shifted = a + gt.constant(unit)
        return [
            linalg.solve_sylvester(shifted, a, q),
            linalg.solve_continuous_lyapunov(shifted, q),
            linalg.solve_discrete_lyapunov(a, q),
            linalg.solve_discrete_lyapunov(a, q, "direct"),
            linalg.solve_discrete_are(shifted, b, q, p),
        ]

    x, continuous, discrete, direct, riccati = found(mode, build, a, b, q)
    limit, c = 50 * TIGHT[dtype], a + unit
    np.testing.assert_allclose(c @ x + x @ a, np.broadcast_to(q, x.shape), atol=limit)
    made = c @ continuous + continuous @ adjoint(c)
    np.testing.assert_allclose(made, np.broadcast_to(q, made.shape), atol=limit)
    for y in (discrete, direct):
        np.testing.assert_allclose(a @ y @ adjoint(a) + q, y, atol=limit)
    gain = adjoint(c) @ riccati @ b
    inner = unit[:2, :2] + adjoint(b) @ riccati @ b
    left = adjoint(c) @ riccati @ c - gain @ np.linalg.inv(inner) @ adjoint(gain) + q
    np.testing.assert_allclose(left, riccati, atol=limit * 10)


def test_what_has_no_solution_gives_nan_and_leaves_the_others(mode: str) -> None:
    a = np.stack([np.eye(2) / 2, np.eye(2) * 2, np.full((2, 2), np.nan)])
    b, unit = np.zeros((2, 1)), np.eye(2)
    x, y = found(
        mode,
        lambda a, b: [
            linalg.solve_discrete_are(a, b, gt.constant(unit), gt.constant([[1.0]])),
            linalg.solve_sylvester(a, a, a),
        ],
        a, b,
    )  # fmt: skip
    np.testing.assert_allclose(x[0], unit * 4 / 3, atol=1e-12)
    assert np.isnan(x[1:]).all()
    assert np.isnan(y[2]).all()
    np.testing.assert_allclose(y[:2], np.stack([unit / 2] * 2), atol=1e-12)


def smooth(x: Any) -> Any:
    return gt.sin(x).sum() + (x * x).sum()


EQUATIONS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "sylvester": (
        linalg.solve_sylvester,
        [random((2, 3, 3), "float64") + 4 * np.eye(3), random((2, 2), "float64"), np.ones((3, 2))],
    ),
    "continuous": (
        linalg.solve_continuous_lyapunov,
        [random((3, 3), "float64") + 4 * np.eye(3), random((3, 3), "float64", 1)],
    ),
    "bilinear": (
        linalg.solve_discrete_lyapunov,
        [random((3, 3), "float64") / 4, random((3, 3), "float64", 1)],
    ),
    "direct": (
        lambda a, q: linalg.solve_discrete_lyapunov(a, q, "direct"),
        [random((3, 3), "float64") / 4, random((3, 3), "float64", 1)],
    ),
    "riccati": (
        linalg.solve_discrete_are,
        [random((3, 3), "float64") / 2, random((3, 2), "float64"), np.eye(3) + 0.1, np.eye(2)],
    ),
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_gradients_are_those_of_differences(name: str) -> None:
    solve, values = EQUATIONS[name]
    graphc.verify_grad(lambda *xs: smooth(solve(*xs)), values, n_tests=1)


def test_a_gradient_has_a_gradient() -> None:
    a, q = random((2, 2), "float64") / 4 + 2 * np.eye(2), random((2, 2), "float64", 1)
    graphc.verify_grad(
        lambda a: graphc.grad(smooth(linalg.solve_sylvester(a, a.mT, gt.constant(q))), a), [a]
    )
    graphc.verify_grad(
        lambda a: graphc.grad(smooth(linalg.solve_discrete_are(a, a, gt.eye(2), gt.eye(2))), a),
        [a / 2],
    )


def test_a_derivative_along_a_direction_solves_the_same_equation() -> None:
    a, b, q = (gt.matrix(name) for name in "abq")
    x = linalg.solve_sylvester(a, b, q)
    (along,) = graphc.pushforward([x], [a, b, q], [a * 0 + 1, b * 2, q])
    values = {a: random((3, 3), "float64") + 5 * np.eye(3), b: np.eye(2), q: np.ones((3, 2))}
    step = 1e-6
    moved = [
        {a: values[a] + s, b: values[b] * (1 + 2 * s), q: values[q] * (1 + s)}
        for s in (step, -step)
    ]
    high, low = (evaluate([x], value)[0] for value in moved)
    np.testing.assert_allclose(evaluate([along], values)[0], (high - low) / (2 * step), atol=1e-8)


def test_what_does_not_fit_is_refused() -> None:
    a, b = gt.tensor("a", shape=(3, 3)), gt.tensor("b", shape=(2, 2))
    with pytest.raises(ShapeError, match="solve_sylvester"):
        linalg.solve_sylvester(a, b, gt.tensor("q", shape=(2, 3)))
    with pytest.raises(ShapeError, match="square"):
        linalg.solve_sylvester(gt.tensor("a", shape=(3, 2)), b, gt.tensor("q", shape=(3, 2)))
    with pytest.raises(ArgumentError, match="unknown method='both'"):
        linalg.solve_discrete_lyapunov(a, a, "both")
    with pytest.raises(ShapeError, match="solve_discrete_are"):
        linalg.solve_discrete_are(a, b, a, a)
