"""Minima: values against SciPy's own, gradients against differences and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings, strategies as st

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DTypeError, ShapeError
from graphc.implicit import Diagonal
from graphc.link import names
from graphc.optimize.solvers import SOLVERS
from tests.modes import uncompiled

OPTIONS = {
    "nelder-mead": {"options": {"xatol": 1e-8, "fatol": 1e-12}},
    "powell": {"tol": 1e-10},
    "cobyla": {"tol": 1e-8, "options": {"maxiter": 10000}},
    "cobyqa": {"tol": 1e-10},
    "trust-constr": {"tol": 1e-10},
}


def run(inputs: Any, outputs: Any, backend: str, *values: Any) -> list[Any]:
    f = graphc.function(
        inputs, outputs, uncompiled(backend), returns="numpy", on_unused_input="ignore"
    )
    return f(*values)  # type: ignore[no-any-return]


def rosenbrock(x: Any, a: Any, b: Any) -> Any:
    return (a - x[0]) ** 2 + b * (x[1] - x[0] ** 2) ** 2


METHODS = SOLVERS["minimize"].methods


@pytest.mark.parametrize("method", METHODS)
def test_each_method_of_scipy_finds_the_minimum(method: str) -> None:
    x, a, b = gt.vector("x"), gt.scalar("a"), gt.scalar("b")
    found, success = gt.optimize.minimize(
        rosenbrock(x, a, b), x, method, hess=METHODS[method].uses == 2,
        optimizer_kwargs=OPTIONS.get(method),
    )  # fmt: skip
    solution, good = run([x, a, b], [found, success], "NUMPY", [0.5, 0.0], 1.5, 2.0)
    assert good
    np.testing.assert_allclose(solution, [1.5, 2.25], atol=2e-3)


@pytest.mark.parametrize("backend", names())
def test_a_minimum_has_gradients_of_any_order_by_the_rest(backend: str) -> None:
    x, a, b = gt.vector("x"), gt.scalar("a"), gt.scalar("b")
    found, success = gt.optimize.minimize(rosenbrock(x, a, b), x, optimizer_kwargs={"tol": 1e-9})
    by_a, by_b = graphc.jacobian(found, [a, b])
    second = graphc.grad(graphc.grad(found.sum(), a), a)
    tangent = graphc.Rop(found, a, gt.ones_like(a))
    by_start = graphc.grad(found.sum(), x)
    outputs = [found, success, by_a, by_b, second, tangent, by_start]
    given_ = run([x, a, b], outputs, backend, [0.5, 0.0], 1.5, 2.0)
    # It is at (a, a**2).
    wanted = [[1.5, 2.25], True, [1, 3], [0, 0], 2, [1, 3], [0, 0]]
    for y, expected in zip(given_, wanted, strict=True):
        np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("method", ["BFGS", "trust-exact"])
def test_the_gradient_is_that_of_the_search_itself(method: str) -> None:
    data = np.random.default_rng(1).normal(size=(20, 3))
    sign = np.where(data @ [1.0, -2.0, 0.5] + 0.3 > 0, 1.0, -1.0)

    def solution(ridge: Any, shift: Any) -> Any:
        w = gt.constant(np.zeros(3))
        w = w * 1
        loss = gt.softplus(-sign * (gt.constant(data) @ w + shift)).mean() + ridge * (w**2).sum()
        kwargs = {"options": {"gtol": 1e-11}}
        hess = method != "BFGS"
        return gt.optimize.minimize(loss, w, method, hess=hess, optimizer_kwargs=kwargs)[0]

    graphc.verify_grad(solution, [np.array(0.1), np.array(0.3)], n_tests=1, eps=1e-4, rel_tol=1e-4)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 5), st.integers(0, 1000))
def test_the_minimum_of_a_quadratic_is_the_solution_of_a_system(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    matrix, right = root @ root.T + np.eye(n), rng.normal(size=n)
    x, m, r = gt.vector("x"), gt.tensor("m", shape=(None, None)), gt.vector("r")
    found, _ = gt.optimize.minimize(x @ m @ x / 2 - r @ x, x, "newton-cg", hess=True)
    slope = graphc.jacobian(found, r)
    solution, by_r = run([x, m, r], [found, slope], "NUMPY", np.zeros(n), matrix, right)
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, right), atol=1e-4)
    np.testing.assert_allclose(by_r, np.linalg.inv(matrix), atol=1e-8)


@pytest.mark.parametrize("backend", names())
def test_several_variables_of_any_shape_are_searched_for_together(backend: str) -> None:
    m, v, c = gt.tensor("m", shape=(2, 2)), gt.scalar("v"), gt.scalar("c")
    wanted = np.array([[1.0, 2.0], [3.0, 4.0]])
    objective = ((m - c * wanted) ** 2).sum() + (v - c) ** 2
    (by_m, by_v), success = gt.optimize.minimize(objective, [m, v])
    outputs = [by_m, by_v, success, graphc.grad(by_m.sum() + by_v, c)]
    found = run([m, v, c], outputs, backend, np.zeros((2, 2)), 0.0, 2.0)
    for y, expected in zip(found, [2 * wanted, 2.0, True, 11.0], strict=True):
        np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("backend", names())
def test_a_batch_and_a_loop_search_for_each_element(backend: str) -> None:
    def least(a: Any) -> Any:
        x = a * 0
        return gt.optimize.minimize((x - a) ** 2 + (x - 1) ** 2, x)[0]

    many = gt.vector("many")
    at_once = graphc.vectorize(least)(many)
    steps = graphc.scan(lambda a, last: least(a) + last, sequences=many, outputs_info=many[0] * 0)
    outputs = [at_once, graphc.grad(at_once.sum(), many), steps, graphc.grad(steps[-1], many)]
    value = np.array([3.0, -1.0, 0.5])
    found = run([many], outputs, backend, value)
    half = (value + 1) / 2
    for y, expected in zip(found, [half, [0.5] * 3, np.cumsum(half), [0.5] * 3], strict=True):
        np.testing.assert_allclose(y, expected, atol=1e-5)


@pytest.mark.parametrize("backend", names())
def test_an_objective_may_hold_loops_shared_variables_and_implicit_arrays(backend: str) -> None:
    x, a, d = gt.vector("x", shape=(3,)), gt.scalar("a"), gt.vector("d", shape=(3,))
    w = graphc.shared(np.array(2.0), "w")
    ends = graphc.scan(lambda now, last: 0.5 * last + now, sequences=x, outputs_info=w)[-1]
    weighted = x @ (gt.as_tensor(Diagonal(d)) @ x)
    found, success = gt.optimize.minimize((ends - a) ** 2 + weighted / 2, x)
    slopes = [graphc.jacobian(found, v) for v in (a, w, d)]
    f = graphc.function([x, a, d], [found, success, *slopes], uncompiled(backend), returns="numpy")
    weights = np.array([1.0, 2.0, 4.0])

    def by_hand(a: float, w: float, d: Any) -> Any:
        """(c x + w / 8 - a)**2 + x d x / 2 is least where 2 c c' + d meets 2 c (a - w / 8)."""
        c = np.array([0.25, 0.5, 1.0])
        return np.linalg.solve(2 * np.outer(c, c) + np.diag(d), 2 * c * (a - w / 8))

    y, good, by_a, by_w, by_d = f(np.zeros(3), 2.0, weights)
    assert good
    np.testing.assert_allclose(y, by_hand(2.0, 2.0, weights), atol=1e-6)
    e = 1e-5
    ends_by_a = by_hand(2.0 + e, 2.0, weights) - by_hand(2.0 - e, 2.0, weights)
    ends_by_w = by_hand(2.0, 2.0 + e, weights) - by_hand(2.0, 2.0 - e, weights)
    ends_by_d = [by_hand(2.0, 2.0, weights + e * row) - by_hand(2.0, 2.0, weights - e * row)
                 for row in np.eye(3)]  # fmt: skip
    np.testing.assert_allclose(by_a, ends_by_a / (2 * e), atol=1e-6)
    np.testing.assert_allclose(by_w, ends_by_w / (2 * e), atol=1e-6)
    np.testing.assert_allclose(by_d, np.transpose(ends_by_d) / (2 * e), atol=1e-6)
    # Other values are no other program.
    w.set_value(np.array(8.0))
    np.testing.assert_allclose(
        f(np.ones(3), 5.0, weights)[0], by_hand(5.0, 8.0, weights), atol=1e-6
    )
    assert f.stats.compiles == 1


def test_an_empty_batch_and_an_empty_variable_are_solved() -> None:
    x = gt.vector("x")
    found, success = gt.optimize.minimize((x**2).sum(), x)
    assert [y.tolist() for y in run([x], [found, success], "NUMPY", np.zeros(0))] == [[], True]
    many = gt.vector("many")
    least = graphc.vectorize(lambda a: gt.optimize.minimize((a * 2 - 1) ** 2, a)[0])(many)
    assert run([many], [least], "NUMPY", np.zeros(0))[0].shape == (0,)


@pytest.mark.parametrize("backend", names())
def test_float32_stays_float32(backend: str) -> None:
    x = gt.vector("x", dtype="float32")
    found, _ = gt.optimize.minimize(((x - 2) ** 2).sum(), x)
    (solution,) = run([x], [found], backend, np.zeros(2, np.float32))
    assert solution.dtype == np.float32
    np.testing.assert_allclose(solution, 2, rtol=1e-3)


def test_failure_is_told_by_the_flag() -> None:
    x, a, b = gt.vector("x"), gt.scalar("a"), gt.scalar("b")
    kwargs = {"options": {"maxiter": 1}}
    found, success = gt.optimize.minimize(rosenbrock(x, a, b), x, optimizer_kwargs=kwargs)
    solution, good = run([x, a, b], [found, success], "NUMPY", [0.0, 0.0], 1.5, 10.0)
    assert not good
    assert np.isfinite(solution).all()


def test_bounds_and_constraints_are_passed_on() -> None:
    x = gt.vector("x")
    objective = ((x - 3) ** 2).sum()
    bounded, _ = gt.optimize.minimize(
        objective, x, "L-BFGS-B", optimizer_kwargs={"bounds": [(0, 1), (0, 5)]}
    )
    line = scipy.optimize.LinearConstraint(np.ones((1, 2)), 2, 2)
    constrained, _ = gt.optimize.minimize(
        objective, x, "SLSQP", optimizer_kwargs={"constraints": line}
    )
    found = run([x], [bounded, constrained], "NUMPY", [0.0, 0.0])
    np.testing.assert_allclose(found, [[1, 3], [1, 1]], atol=1e-5)


def test_equal_problems_are_one_object_and_other_settings_are_not() -> None:
    x, a = gt.vector("x"), gt.scalar("a")
    objective = ((x - a) ** 2).sum()

    def least(**kwargs: Any) -> Any:
        return gt.optimize.minimize(objective, x, optimizer_kwargs=kwargs)[0]

    assert least() is least()
    assert least(tol=1e-3) is least(tol=1e-3)
    assert least(options={"gtol": 1e-3, "maxiter": 9}) is least(
        options={"maxiter": 9, "gtol": 1e-3}
    )
    assert least(tol=1e-3) is not least(tol=1e-4)
    callback = print
    assert least(callback=callback) is least(callback=callback)
    assert least(callback=callback) is not least(callback=repr)


# One number.


@pytest.mark.parametrize("backend", names())
def test_the_minimum_of_a_function_of_one_number_has_gradients(backend: str) -> None:
    x, a, low = gt.scalar("x"), gt.scalar("a"), gt.scalar("low")
    objective = (gt.exp(x) - a * x) ** 1
    fine = {"options": {"xatol": 1e-9}}
    ways: list[dict[str, Any]] = [
        {}, {"method": "golden", "bracket": (low, 1.0)},
        {"method": "bounded", "bounds": (low, 5.0), "optimizer_kwargs": fine},
        {"bracket": (low, 0.5, 4.0)},
    ]  # fmt: skip
    pairs = [gt.optimize.minimize_scalar(objective, x, **way) for way in ways]
    slopes = [graphc.grad(y, a) for y, _ in pairs]
    seconds = [graphc.grad(slope, a) for slope in slopes]
    outputs = [y for pair in pairs for y in pair] + slopes + seconds
    found = run([x, a, low], outputs, backend, 0.0, 2.0, -3.0)
    # At log(a).
    assert all(found[1:8:2])
    np.testing.assert_allclose(found[:8:2], [np.log(2)] * 4, rtol=1e-6)
    np.testing.assert_allclose(found[8:12], [0.5] * 4, rtol=1e-6)
    np.testing.assert_allclose(found[12:], [-0.25] * 4, rtol=1e-6)


def test_where_no_minimum_is_bracketed_the_solution_is_nan() -> None:
    x, top = gt.scalar("x"), gt.scalar("top")
    found = gt.optimize.minimize_scalar((x - 5) ** 2, x, bracket=(0.0, 1.0, top))
    assert [float(y) for y in run([x, top], found, "NUMPY", 0.0, 2.0)][1] == 0.0
    assert np.isnan(run([x, top], found, "NUMPY", 0.0, 2.0)[0])
    np.testing.assert_allclose(run([x, top], found, "NUMPY", 0.0, 20.0)[0], 5.0)


# Errors.


def test_what_is_wrong_is_told() -> None:
    x, k, y = gt.vector("x"), gt.lscalar("k"), gt.scalar("y")
    minimize, scalar = gt.optimize.minimize, gt.optimize.minimize_scalar
    with pytest.raises(ShapeError, match="no scalar"):
        minimize(x, x)
    with pytest.raises(ArgumentError, match="does not depend on"):
        minimize((x**2).sum(), y)
    with pytest.raises(ArgumentError, match="method='magic'"):
        minimize((x**2).sum(), x, "magic")
    with pytest.raises(ArgumentError, match="uses no Hessian"):
        minimize((x**2).sum(), x, hess=True)
    with pytest.raises(ArgumentError, match="needs the Hessian"):
        minimize((x**2).sum(), x, "dogleg")
    with pytest.raises(ArgumentError, match="needs the gradient"):
        minimize((x**2).sum(), x, "Newton-CG", jac=False)
    with pytest.raises(ArgumentError, match="without bounds"):
        scalar(y**2, y, "bounded")
    with pytest.raises(DTypeError, match="not real floating"):
        minimize(k * 1.5, k)
    with pytest.raises(DTypeError, match="not real floating"):
        minimize(k * 2, k)
    with pytest.raises(ArgumentError, match="symbolic"):
        minimize((x**2).sum(), x, optimizer_kwargs={"tol": y})
    with pytest.raises(ShapeError, match="no scalar"):
        scalar((x**2).sum(), x)
    with pytest.raises(ArgumentError, match="bracket"):
        scalar(y**2, y, "bounded", bracket=(0, 1))
    with pytest.raises(ArgumentError, match="bounds"):
        scalar(y**2, y, bounds=(0, 1))
