"""Gradients of formulas as they are written down stay finite where the formulas overflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import graphc
import graphc.tensor as gt
from graphc.ir import Graph, Node
from graphc.rewrite import optimize
from tests.rewrite.exact import values_of

x = gt.vector("x")
POINTS = np.array([-800.0, -40.0, -1.0, 0.0, 1.0, 40.0, 800.0])
WEIGHTS = np.arange(7.0)


def logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


with np.errstate(over="ignore"):
    RISING, FALLING = logistic(POINTS), logistic(-POINTS)


def likelihood(p: Any) -> Any:
    return -(0.25 * gt.log(p) + (1 - 0.25) * gt.log(1 - p))


Loss = Callable[[Any], Any]

LOSSES: dict[str, tuple[Loss, np.ndarray]] = {
    "log(1 + exp(x))": (lambda x: gt.log(1 + gt.exp(x)), RISING),
    "log(1 + exp(-x))": (lambda x: gt.log(1 + gt.exp(-x)), -FALLING),
    "log(sigmoid(x))": (lambda x: gt.log(gt.sigmoid(x)), FALLING),
    "log(1 - sigmoid(x))": (lambda x: gt.log(1 - gt.sigmoid(x)), -RISING),
    "log(1 / (1 + exp(-x)))": (lambda x: gt.log(1 / (1 + gt.exp(-x))), FALLING),
    "log(1 - 1 / (1 + exp(-x)))": (lambda x: gt.log(1 - 1 / (1 + gt.exp(-x))), -RISING),
    "log(exp(x) + exp(-x))": (
        lambda x: gt.log(gt.exp(x) + gt.exp(-x)),
        np.tanh(POINTS),
    ),
    "likelihood of sigmoid": (lambda x: likelihood(gt.sigmoid(x)), RISING - 0.25),
    "likelihood by hand": (lambda x: likelihood(1 / (1 + gt.exp(-x))), RISING - 0.25),
    "log(exp(x))": (lambda x: gt.log(gt.exp(x)), np.ones(7)),
    "log(sum(exp(x)))": (
        lambda x: gt.log(gt.sum(gt.exp(x))),
        np.array([0, 0, 0, 0, 0, 0, 1.0]),
    ),
    "cross-entropy": (
        lambda x: -WEIGHTS * gt.log(gt.softmax(x)),
        21 * special.softmax(POINTS) - WEIGHTS,
    ),
}


def gradient(loss: Loss) -> Node:
    g = graphc.grad(gt.sum(loss(x)), x)
    return optimize(Graph([x], [g]), checking=True).graph.outputs[0]


@pytest.mark.parametrize(("loss", "expected"), LOSSES.values(), ids=LOSSES)
def test_gradients_are_right_far_out(loss: Loss, expected: np.ndarray) -> None:
    (found,) = values_of([gradient(loss)], {x: POINTS})
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


def test_the_gradient_of_a_sum_is_ones() -> None:
    g = gradient(lambda x: x)
    assert g is gt.ones_like(x)


def test_the_gradient_of_a_product_is_the_other_factor() -> None:
    w = gt.vector("w")
    g = graphc.grad(gt.sum(x * w), x)
    assert optimize(Graph([x, w], [g])).graph.outputs[0] is w
