"""Roots: values against closed forms, gradients by the implicit function theorem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.link import names
from graphc.optimize.solvers import SOLVERS
from tests.modes import uncompiled


def run(inputs: Any, outputs: Any, backend: str, *values: Any) -> list[Any]:
    f = graphc.function(
        inputs, outputs, uncompiled(backend), returns="numpy", on_unused_input="ignore"
    )
    return f(*values)  # type: ignore[no-any-return]


def equations(x: Any, a: Any) -> Any:
    """Zero at (b**2, b) where b is the positive root of b**2 + b = a."""
    return gt.stack([x[0] + x[1] - a, x[0] - x[1] ** 2])


@pytest.mark.parametrize("method", SOLVERS["root"].methods)
def test_each_method_of_scipy_finds_the_root(method: str) -> None:
    x, a = gt.vector("x"), gt.scalar("a")
    found, success = gt.optimize.root(equations(x, a), x, method)
    solution, good = run([x, a], [found, success], "NUMPY", [3.9, 1.9], 6.0)
    assert good or method in {"linearmixing", "excitingmixing", "diagbroyden"}
    if good:
        np.testing.assert_allclose(solution, [4, 2], atol=1e-4)


@pytest.mark.parametrize("backend", names())
@pytest.mark.parametrize("jac", [True, False])
def test_a_root_has_gradients_of_any_order(jac: bool, backend: str) -> None:
    x, a = gt.vector("x"), gt.scalar("a")
    found, success = gt.optimize.root(equations(x, a), x, jac=jac)
    first = graphc.jacobian(found, a)
    second = graphc.grad(first[1], a)
    tangent = graphc.Rop(found, a, gt.ones_like(a))
    by_start = graphc.grad(found.sum(), x)
    outputs = [found, success, first, second, tangent, by_start]
    given_ = run([x, a], outputs, backend, [1.0, 1.0], 6.0)
    # b' = 1 / (2 b + 1), b'' = -2 b' / (2 b + 1)**2.
    wanted = [[4, 2], True, [0.8, 0.2], -2 / 125, [0.8, 0.2], [0, 0]]
    for y, expected in zip(given_, wanted, strict=True):
        np.testing.assert_allclose(y, expected, atol=1e-8)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(0, 1000))
def test_a_fixed_point_has_the_gradient_that_differences_give(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(n, n)) / (2 * n)

    def fixed(w: Any, b: Any) -> Any:
        x = b * 0
        kwargs = {"tol": 1e-13}
        return gt.optimize.root(x - gt.tanh(w @ x + b), x, optimizer_kwargs=kwargs)[0]

    graphc.verify_grad(fixed, [weights, rng.normal(size=n)], n_tests=1, eps=1e-5)


@pytest.mark.parametrize("backend", names())
def test_variables_may_be_several_scalars_or_a_matrix(backend: str) -> None:
    a, b, c = gt.scalar("a"), gt.scalar("b"), gt.scalar("c")
    (x, y), success = gt.optimize.root(gt.stack([a + b - c, a - b]), [a, b])
    m = gt.tensor("m", shape=(2, 2))
    target = np.array([[1.0, 2.0], [3.0, 5.0]])
    inverse, _ = gt.optimize.root(m @ target - c * np.eye(2), m)
    one, _ = gt.optimize.root(a**2 - c, a)
    outputs = [x, y, success, inverse, graphc.grad(inverse.sum(), c), one, graphc.grad(one, c)]
    found = run([a, b, c, m], outputs, backend, 1.0, 0.0, 4.0, np.eye(2))
    by_hand = np.linalg.inv(target)
    wanted = [2, 2, True, 4 * by_hand, by_hand.sum(), 2, 0.25]
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-8)


@pytest.mark.parametrize("backend", names())
def test_a_batch_and_a_loop_search_for_each_element(backend: str) -> None:
    starts, many = gt.tensor("starts", shape=(None, None)), gt.vector("many")
    one = lambda x, a: gt.optimize.root(equations(x, a), x)[0]  # noqa: E731
    at_once = graphc.vectorize(one, "(n),()->(n)")(starts, many)
    rows = graphc.scan(lambda a, x: one(x, a), sequences=many, outputs_info=starts[0])
    outputs = [at_once, graphc.grad(at_once.sum(), many), rows, graphc.grad(rows.sum(), many)]
    found = run([starts, many], outputs, backend, [[1.0, 1.0], [2.0, 2.0]], [6.0, 12.0])
    roots = [[4.0, 2.0], [9.0, 3.0]]
    for y, expected in zip(found, [roots, [1, 1], roots, [1, 1]], strict=True):
        np.testing.assert_allclose(y, expected, atol=1e-6)


# One number.


@pytest.mark.parametrize("backend", names())
def test_a_root_of_one_number_has_gradients(backend: str) -> None:
    x, a, top = gt.scalar("x"), gt.scalar("a"), gt.scalar("top")
    ways: list[dict[str, Any]] = [
        {"optimizer_kwargs": {"x1": 1.5}},
        {"method": "newton", "jac": True},
        {"method": "halley", "jac": True, "hess": True},
        *[
            {"method": name, "bracket": (0.0, top)}
            for name, method in SOLVERS["root_scalar"].methods.items()
            if method.between
        ],
    ]
    pairs = [gt.optimize.root_scalar(x**3 - a, x, **way) for way in ways]
    slopes = [graphc.grad(y, a) for y, _ in pairs]
    seconds = [graphc.grad(slope, a) for slope in slopes[:2]]
    n = len(ways)
    outputs = [*[y for y, _ in pairs], *[good for _, good in pairs], *slopes, *seconds]
    found = run([x, a, top], outputs, backend, 1.0, 8.0, 10.0)
    np.testing.assert_allclose(found[:n], [2.0] * n, rtol=1e-8)
    assert all(found[n : 2 * n])
    np.testing.assert_allclose(found[2 * n : 3 * n], [1 / 12] * n, rtol=1e-8)
    np.testing.assert_allclose(found[3 * n :], [-1 / 144] * 2, rtol=1e-8)


@pytest.mark.parametrize("backend", names())
def test_a_bracket_without_a_root_gives_nan_and_no_success(backend: str) -> None:
    x, top = gt.scalar("x"), gt.scalar("top")
    found = gt.optimize.root_scalar(x**3 - 8, x, "brentq", bracket=(0.0, top))
    solution, good = run([x, top], found, backend, 1.0, 1.0)
    assert np.isnan(solution)
    assert not good


def test_a_bracket_may_stand_among_the_settings() -> None:
    x = gt.scalar("x")
    by_name = gt.optimize.root_scalar(x**3 - 8, x, "brentq", bracket=(0.0, 9.0))
    by_settings = gt.optimize.root_scalar(
        x**3 - 8, x, "brentq", optimizer_kwargs={"bracket": [0.0, 9.0]}
    )
    assert by_name == by_settings


# Errors.


def test_what_is_wrong_is_told() -> None:
    x, y, k = gt.vector("x"), gt.scalar("y"), gt.lscalar("k")
    root, scalar = gt.optimize.root, gt.optimize.root_scalar
    with pytest.raises(ArgumentError, match="does not depend on"):
        root(x - 1, y)
    with pytest.raises(ArgumentError, match="method='bfgs'"):
        root(x - 1, x, "bfgs")
    with pytest.raises(DTypeError, match="not real floating"):
        root(k - 1, k)
    z = gt.tensor("z", shape=(3,))
    with pytest.raises(ShapeError, match="2 equations for 3 variables"):
        root(z[:2], z)
    with pytest.raises(ShapeError, match="no scalar"):
        scalar(x - 1, x)
    with pytest.raises(ArgumentError, match="newton"):
        scalar(y - 1, y, "newton")
    with pytest.raises(ArgumentError, match="no bracket"):
        scalar(y - 1, y, "brentq")
    with pytest.raises(ArgumentError, match="hess=True"):
        scalar(y - 1, y, hess=True)
    with pytest.raises(ShapeError, match="two ends"):
        scalar(y - 1, y, "brentq", bracket=(0, 1, 2))
