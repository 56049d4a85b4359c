"""Jacobians and Hessians of small functions."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt


def program() -> list[Any]:
    x = pt.dvector("x")
    y = pt.stack([x[0] * x[1], pt.sin(x[2]), x[0] ** 2 + x[2]])
    jacobian = graphc.gradient.jacobian(y, x)
    cost = (x**3).sum() + x[0] * x[1] * x[2]
    hessian = graphc.gradient.hessian(cost, x)
    f = graphc.function([x], [y, jacobian, hessian])
    return f([1.0, 2.0, 3.0])


def expected() -> list[Any]:
    return [
        np.array([2.0, np.sin(3.0), 4.0]),
        np.array([[2.0, 1.0, 0.0], [0.0, 0.0, np.cos(3.0)], [2.0, 0.0, 1.0]]),
        np.array([[6.0, 3.0, 2.0], [3.0, 12.0, 1.0], [2.0, 1.0, 18.0]]),
    ]
