"""Products of Jacobians and Hessians with vectors, from either side."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

random = np.random.default_rng(6)
WEIGHTS, POINT = random.normal(size=(3, 4)), random.normal(size=4)
RIGHT, LEFT = random.normal(size=4), random.normal(size=3)


def program() -> list[Any]:
    w = pt.dmatrix("w")
    x, v, u = pt.dvectors("x", "v", "u")
    y = pt.tanh(pt.dot(w, x))
    forward = graphc.gradient.Rop(y, x, v)
    backward = graphc.gradient.Lop(y, x, u)
    cost = pt.sum(y**2)
    (curved,) = graphc.gradient.hessian_vector_product(cost, [x], [v])
    f = graphc.function([w, x, v, u], [forward, backward, curved])
    return f(WEIGHTS, POINT, RIGHT, LEFT)


def expected() -> list[Any]:
    y = np.tanh(WEIGHTS @ POINT)
    jacobian = (1 - y**2)[:, None] * WEIGHTS
    inner = 2 * ((1 - y**2) ** 2 - 2 * y**2 * (1 - y**2))
    return [jacobian @ RIGHT, LEFT @ jacobian, WEIGHTS.T @ (inner * (WEIGHTS @ RIGHT))]
