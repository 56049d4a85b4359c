"""A polynomial fitted by gradient descent with momentum."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

POINTS = np.linspace(-1, 1, 21)
VALUES = 1 - 2 * POINTS + 0.5 * POINTS**3
DEGREE, STEPS, RATE, MOMENTUM = 3, 40, 0.2, 0.8


def program() -> list[Any]:
    x, y = pt.dvector("x"), pt.dvector("y")
    theta = graphc.shared(np.zeros(DEGREE + 1), name="theta")
    speed = graphc.shared(np.zeros(DEGREE + 1), name="speed")
    powers = pt.stack([x**k for k in range(DEGREE + 1)], axis=1)
    cost = pt.mean(pt.sqr(powers.dot(theta) - y))
    faster = MOMENTUM * speed - RATE * graphc.grad(cost, theta)
    step = graphc.function([x, y], cost, updates={speed: faster, theta: theta + faster})
    for _ in range(STEPS):
        last = step(POINTS, VALUES)
    return [last, theta.get_value(), speed.get_value()]


def expected() -> list[Any]:
    powers = np.vander(POINTS, DEGREE + 1, increasing=True)
    theta = speed = np.zeros(DEGREE + 1)
    for _ in range(STEPS):
        off = powers @ theta - VALUES
        last = np.mean(off**2)
        speed = MOMENTUM * speed - RATE * 2 * powers.T @ off / len(POINTS)
        theta = theta + speed
    return [last, theta, speed]
