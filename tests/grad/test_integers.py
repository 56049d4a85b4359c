"""A gradient with respect to integers is that of the function of real numbers behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import DisconnectedInputError, GradientError
from tests.contract.differences import slopes
from tests.reference import evaluate

VALUE = np.array([3, -2, 1])
Y = np.array([0.5, 2.0, -1.0])

COSTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a product": lambda n, x, y: n.sum(x * y),
    "a quotient": lambda n, x, y: n.sum(y / (x + 0.5)),
    "a power": lambda n, x, y: n.sum((x * 1.0) ** 3),
    "a function": lambda n, x, y: n.sum(n.exp(x) * n.sin(x)),
    "a mean": lambda n, x, y: n.mean(x) ** 2,
    "a matrix product": lambda n, x, y: n.dot(x, y),
}


@pytest.mark.parametrize("what", COSTS)
def test_a_gradient_is_that_of_real_numbers(what: str) -> None:
    x, y = gt.lvector("n"), gt.dvector("y")
    gradient = graphc.grad(COSTS[what](gt, x, y), x)
    (found,) = evaluate([gradient], {x: VALUE, y: Y})
    (wanted,) = slopes(lambda x: COSTS[what](np, x, Y), [VALUE.astype(float)])
    assert gradient.dtype == "float64"
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


CONSTANT: dict[str, Callable[[Any, Any], Any]] = {
    "a product of integers": lambda x, y: ((x * 2).astype("float64") * y).sum(),
    "a comparison": lambda x, y: (y * (x > 0)).sum(),
    "a condition": lambda x, y: gt.where(x.astype("bool"), y, 0.0).sum(),
    "an element": lambda x, y: x[0] * 2.0,
    "rounding": lambda x, y: gt.floor(x * y).sum(),
}


@pytest.mark.parametrize("what", CONSTANT)
def test_what_is_constant_between_integers_has_zeros_of_floatx(what: str) -> None:
    x, y = gt.lvector("n"), gt.dvector("y")
    with graphc.config.change_flags(floatX="float32"):
        by_x = graphc.grad(CONSTANT[what](x, y), x)
    (found,) = evaluate([by_x], {x: VALUE, y: Y})
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.zeros(3))


def test_casts_to_two_dtypes_add_up() -> None:
    x, y = gt.lvector("n"), gt.dvector("y")
    gradient = graphc.grad((x * y).sum() + x.astype("float32").sum(), x)
    (found,) = evaluate([gradient], {x: VALUE, y: Y})
    np.testing.assert_array_equal(found, Y + 1)


def test_gradients_by_integers_and_floats_come_together() -> None:
    x, y, b = gt.lvector("n"), gt.dvector("y"), gt.vector("b", dtype="bool")
    gradients = graphc.grad((x * y * b).sum(), [x, y, b])
    found = evaluate(gradients, {x: VALUE, y: Y, b: VALUE > 0})
    for g, wanted in zip(found, (Y * (VALUE > 0), VALUE * (VALUE > 0), VALUE * Y), strict=True):
        np.testing.assert_array_equal(g, wanted)


DISCONNECTED: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda x, y: y.sum(),
    "an index": lambda x, y: y[x].sum(),
    "a length": lambda x, y: y.sum() * x.shape[0],
    "a shape": lambda x, y: gt.broadcast_to(y, (x[0], 3)).sum(),
    "a place that is set": lambda x, y: y[x].set(2.0).sum(),
}


@pytest.mark.parametrize("what", DISCONNECTED)
def test_what_only_picks_or_measures_is_disconnected(what: str) -> None:
    x, y = gt.lvector("n"), gt.dvector("y")
    cost = DISCONNECTED[what](x, y)
    with pytest.raises(DisconnectedInputError, match="does not depend on n"):
        graphc.grad(cost, x)
    zeros = graphc.grad(cost, x, disconnected_inputs="ignore")
    assert zeros.dtype == "float64"
    assert evaluate([zeros], {x: VALUE})[0].tolist() == [0.0, 0.0, 0.0]


def test_a_loop_that_reads_integers_is_refused_rather_than_given_zeros() -> None:
    x, y = gt.lvector("n"), gt.dscalar("y")
    total = graphc.reduce(lambda one, before: before + one * y, x, gt.as_tensor(0.0))
    with pytest.raises(GradientError, match="not continuous: loop reads it"):
        graphc.grad(total, x)


@pytest.mark.parametrize("f", [graphc.jacobian, graphc.hessian])
def test_matrices_of_derivatives_are_of_floats(f: Any) -> None:
    x = gt.lvector("n")
    with pytest.raises(GradientError, match="not continuous"):
        f((x * 1.0).sum(), x)
