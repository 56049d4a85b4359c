"""Jacobians and Hessians are what finite differences give, without a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import DisconnectedInputError, GradientError
from graphc.ir import toposort
from tests.grad.differences import numeric_gradient
from tests.reference import evaluate

V = np.array([0.3, 0.8, 0.5])
M = np.random.default_rng(0).uniform(0.2, 0.9, (2, 3))

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "elementwise": (lambda x: gt.sin(x) * x, V),
    "a scalar": (lambda x: (x**3).sum(), V),
    "of a scalar": (lambda x: gt.exp(x) * gt.constant([1.0, 2.0]), np.array(0.4)),
    "linear": (lambda x: 3 * x[::-1], V),
    "identity": (lambda x: x, V),
    "a matrix of a vector": (lambda x: gt.outer(x, gt.exp(x)), V),
    "of a matrix": (lambda x: (x @ x.T) ** 2, M),
    "softmax": (lambda x: gt.softmax(x, 1), M),
    "logsumexp": (lambda x: gt.logsumexp(x, 0), M),
    "norm": (lambda x: gt.norm(x, axis=1), M),
    "indices": (lambda x: x[:, [0, 2, 0]] * x[1, 1], M),
    "a changed part": (lambda x: x[0].set(x[1] ** 2) * x, M),
    "choices": (lambda x: gt.where(x > 0.5, x**2, gt.sqrt(x)), M),
    "extremes": (lambda x: x.max(1) * x.min(), M),
    "product": (lambda x: x.prod(1), M),
    "joins": (lambda x: gt.concatenate([x.ravel(), x.sum(0)]), M),
    "broadcasts": (lambda x: x[:, None] + gt.broadcast_to(x[:1] ** 2, (2, 2, 3)), M),
    "statistics": (lambda x: (x - x.mean(0)) / x.std(), M),
    "an outer product": (lambda x: gt.tensordot(x, x, 0).sum((1, 2)), M),
}


def numeric_jacobian(y: Any, x: Any, values: dict[Any, np.ndarray]) -> np.ndarray:
    shape = evaluate([y], values)[0].shape
    rows = [numeric_gradient(y[place] if place else y, x, values) for place in np.ndindex(shape)]
    return np.array(rows).reshape((*shape, *values[x].shape))


@pytest.mark.parametrize("static", [True, False], ids=["static", "open"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_jacobian_is_what_differences_give(name: str, static: bool) -> None:
    f, point = FUNCTIONS[name]
    x = gt.tensor(shape=point.shape if static or name == "broadcasts" else (None,) * point.ndim)
    y = f(x)
    (found,) = evaluate([graphc.jacobian(y, x)], {x: point})
    np.testing.assert_allclose(found, numeric_jacobian(y, x, {x: point}), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_hessian_is_the_jacobian_of_the_gradient(name: str) -> None:
    f, point = FUNCTIONS[name]
    x = gt.tensor(shape=point.shape)
    cost = (f(x) ** 2).sum()
    slope = graphc.grad(cost, x)
    v = np.random.default_rng(1).standard_normal(point.shape)
    product = graphc.hessian_vector_product(cost, x, gt.constant(v))
    found, moved = evaluate([graphc.hessian(cost, x), product], {x: point})
    expected = numeric_jacobian(slope, x, {x: point})
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moved, np.tensordot(expected, v, point.ndim), rtol=1e-6, atol=1e-6)


def test_several_inputs_give_a_list() -> None:
    x, y = gt.vectors(2)
    values = {x: V, y: V + 1}
    jacobians = evaluate(graphc.jacobian(x * y**2, [x, y]), values)
    np.testing.assert_allclose(jacobians[0], np.diag((V + 1) ** 2))
    np.testing.assert_allclose(jacobians[1], np.diag(2 * V * (V + 1)))
    blocks = evaluate(graphc.hessian((x**2 * y**3).sum(), [x, y]), values)
    np.testing.assert_allclose(blocks[0], np.diag(2 * (V + 1) ** 3))
    np.testing.assert_allclose(blocks[1], np.diag(6 * V**2 * (V + 1)))


def test_an_input_without_influence_is_an_error_or_zeros() -> None:
    x, y = gt.vector(), gt.matrix()
    with pytest.raises(DisconnectedInputError):
        graphc.jacobian(x, y)
    (zero,) = evaluate([graphc.jacobian(x, y, disconnected_inputs="ignore")], {x: V, y: M})
    np.testing.assert_array_equal(zero, np.zeros((3, 2, 3)))


def test_a_linear_cost_has_the_hessian_zero() -> None:
    x = gt.vector()
    (found,) = evaluate([graphc.hessian((2 * x).sum(), x)], {x: V})
    np.testing.assert_array_equal(found, np.zeros((3, 3)))


def test_an_empty_expression_has_an_empty_jacobian() -> None:
    x = gt.vector()
    (found,) = evaluate([graphc.jacobian(x[:0] ** 2, x)], {x: V})
    assert found.shape == (0, 3)


def test_parts_considered_constant_do_not_move() -> None:
    x = gt.vector()
    h = gt.exp(x)
    (found,) = evaluate([graphc.jacobian(x * h, x, consider_constant=[h])], {x: V})
    np.testing.assert_allclose(found, np.diag(np.exp(V)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: graphc.jacobian(gt.zvector() * 2, gt.vector()),
        lambda: graphc.jacobian(gt.vector(), gt.zvector()),
        lambda: graphc.jacobian(gt.lvector(), gt.vector()),
    ],
)
def test_what_has_no_real_jacobian_is_refused(make: Any) -> None:
    with pytest.raises(GradientError, match="expected real floating arrays"):
        make()


def test_a_jacobian_has_no_more_nodes_for_a_longer_vector() -> None:
    def nodes(n: int) -> int:
        x = gt.tensor(shape=(n,))
        return len(toposort([graphc.jacobian(gt.softmax(x) * x, x)]))

    assert nodes(3) == nodes(300)
