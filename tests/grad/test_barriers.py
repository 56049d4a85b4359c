"""Barriers are the identity forwards and change what flows back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
import graphc.tensor as gt
from graphc.errors import ArgumentError, DisconnectedInputError
from tests.reference import evaluate

VALUES = np.array([1.0, -2.0, 3.0])

BARRIERS: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "zero_grad": (graphc.zero_grad, [0, 0, 0]),
    "grad_clip": (lambda x: graphc.grad_clip(x, -1.5, 2.5), [2, -1.5, 2.5]),
    "grad_scale": (lambda x: graphc.grad_scale(x, 3.0), [6, -12, 18]),
}


@pytest.mark.parametrize("name", BARRIERS)
def test_a_barrier_is_the_identity(name: str) -> None:
    x = gt.vector()
    barrier = BARRIERS[name][0](x)
    assert barrier.type is x.type
    assert evaluate([barrier], {x: VALUES})[0].tolist() == VALUES.tolist()


@pytest.mark.parametrize("name", BARRIERS)
def test_a_barrier_changes_the_gradient(name: str) -> None:
    barrier, expected = BARRIERS[name]
    x = gt.vector()
    slope = graphc.grad((barrier(x) ** 2).sum(), x)
    np.testing.assert_allclose(evaluate([slope], {x: VALUES})[0], expected)


@pytest.mark.parametrize("name", BARRIERS)
def test_a_barrier_stands_in_a_jacobian(name: str) -> None:
    barrier, expected = BARRIERS[name]
    x = gt.vector()
    jacobian = graphc.jacobian((barrier(x) ** 2).sum(), x)
    np.testing.assert_allclose(evaluate([jacobian], {x: VALUES})[0], expected)


def test_no_gradient_passes_a_disconnected_part() -> None:
    x = gt.vector()
    with pytest.raises(DisconnectedInputError):
        graphc.grad(graphc.disconnected_grad(x).sum(), x)
    slope = graphc.grad((x * graphc.disconnected_grad(x)).sum(), x)
    assert evaluate([slope], {x: VALUES})[0].tolist() == VALUES.tolist()


TANGENTS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "zero_grad": (graphc.zero_grad, 0.0),
    "grad_clip": (lambda x: graphc.grad_clip(x, -0.1, 0.1), 1.0),
    "grad_scale": (lambda x: graphc.grad_scale(x, 3.0), 3.0),
}


@pytest.mark.parametrize("name", TANGENTS)
def test_a_barrier_changes_tangents_where_it_is_linear(name: str) -> None:
    barrier, factor = TANGENTS[name]
    x = gt.vector()
    pushed = graphc.pushforward(barrier(x), x, gt.ones_like(x))
    assert evaluate([pushed], {x: VALUES})[0].tolist() == [factor] * 3


def test_no_tangent_passes_a_disconnected_part() -> None:
    x = gt.vector()
    with pytest.raises(DisconnectedInputError):
        graphc.pushforward(graphc.disconnected_grad(x), x, x)


def test_limits_in_the_wrong_order_are_refused() -> None:
    for low, high in ((1, -1), (float("nan"), 1)):
        with pytest.raises(ArgumentError, match="Exchange them"):
            graphc.grad_clip(gt.vector(), low, high)


def test_a_clipped_gradient_is_differentiated_in_turn() -> None:
    x = gt.vector()
    slope = graphc.grad((graphc.grad_clip(x, -1, 100) ** 2).sum(), x)
    second = graphc.grad(slope.sum(), x)
    assert evaluate([second], {x: VALUES})[0].tolist() == [2, 0, 2]
