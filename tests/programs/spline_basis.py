"""Cubic B-splines by the recursion over their degree, and a curve with its slope."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import interpolate

import graphc
import graphc.tensor as pt

KNOTS = np.array([0.0, 0.0, 0.0, 0.0, 0.3, 0.6, 1.0, 1.0, 1.0, 1.0])
COEFFICIENTS = np.array([0.5, -1.0, 2.0, 0.3, 1.5, -0.7])
POINTS = np.linspace(0.0, 0.99, 12)


def program() -> list[Any]:
    x = pt.vector("x")
    basis = [pt.ge(x, a) * pt.lt(x, b) * 1.0 for a, b in pairwise(KNOTS)]
    for degree in range(1, 4):
        higher = []
        for i in range(len(basis) - 1):
            left, right = KNOTS[i + degree] - KNOTS[i], KNOTS[i + degree + 1] - KNOTS[i + 1]
            term = pt.zeros_like(x)
            if left > 0:
                term = term + (x - KNOTS[i]) / left * basis[i]
            if right > 0:
                term = term + (KNOTS[i + degree + 1] - x) / right * basis[i + 1]
            higher.append(term)
        basis = higher
    matrix = pt.stack(basis, axis=1)
    curve = matrix @ COEFFICIENTS
    f = graphc.function([x], [matrix, curve, graphc.grad(curve.sum(), x)])
    return f(POINTS)


def expected() -> list[Any]:
    spline = interpolate.BSpline(KNOTS, COEFFICIENTS, 3)
    matrix = interpolate.BSpline.design_matrix(POINTS, KNOTS, 3).toarray()
    return [matrix, spline(POINTS), spline.derivative()(POINTS)]
