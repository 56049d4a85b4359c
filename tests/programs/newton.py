"""Newton's method: steps by gradient and Hessian of a function of two variables."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

import graphc
import graphc.tensor as pt

START, STEPS = np.array([-1.2, 1.0]), 8


def program() -> list[Any]:
    x = graphc.shared(START, name="x")
    cost = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    g = graphc.grad(cost, x)
    h = graphc.gradient.hessian(cost, x)
    determinant = h[0, 0] * h[1, 1] - h[0, 1] * h[1, 0]
    step = (
        pt.stack([h[1, 1] * g[0] - h[0, 1] * g[1], h[0, 0] * g[1] - h[1, 0] * g[0]]) / determinant
    )
    move = graphc.function([], [cost, g], updates=[(x, x - step)])
    costs = [float(move()[0]) for _ in range(STEPS)]
    return [np.array(costs[:3]), x.get_value()]


def expected() -> list[Any]:
    x, costs = START, []
    for _ in range(3):
        costs.append(optimize.rosen(x))
        x = x - np.linalg.solve(optimize.rosen_hess(x), optimize.rosen_der(x))
    return [np.array(costs), np.ones(2)]
