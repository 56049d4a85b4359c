"""The Rosenbrock function of any number of variables, with gradient and Hessian."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

import graphc
import graphc.tensor as pt

POINT = np.array([-1.2, 1.0, 0.3, 0.8, -0.5])


def program() -> list[Any]:
    x = pt.vector("x")
    cost = pt.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0)
    f = graphc.function(
        [x], [cost, graphc.grad(cost, x), graphc.gradient.hessian(cost, x)], name="rosenbrock"
    )
    return f(POINT)


def expected() -> list[Any]:
    return [optimize.rosen(POINT), optimize.rosen_der(POINT), optimize.rosen_hess(POINT)]
