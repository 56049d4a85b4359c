"""A system of equations solved by a loop forwards and one backwards, and its adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

RNG = np.random.default_rng(4)
LOWER, UPPER, RIGHT = RNG.normal(size=(3, 8))
DIAGONAL = 5 + RNG.uniform(size=8)


def program() -> list[Any]:
    names = ["lower", "diagonal", "upper", "right"]
    lower, diagonal, upper, right = given = [pt.vector(name) for name in names]

    def eliminate(low: Any, d: Any, up: Any, b: Any, up_before: Any, b_before: Any) -> Any:
        pivot = d - low * up_before
        return up / pivot, (b - low * b_before) / pivot

    ups, rights = graphc.scan(eliminate, [lower, diagonal, upper, right], [0.0, 0.0])
    x = graphc.scan(lambda up, b, x: b - up * x, [ups, rights], 0.0, go_backwards=True)[::-1]
    cost = (x**3).sum()
    f = graphc.function(given, [x, *graphc.grad(cost, given)])
    return list(f(LOWER, DIAGONAL, UPPER, RIGHT))


def expected() -> list[Any]:
    matrix = np.diag(DIAGONAL) + np.diag(LOWER[1:], -1) + np.diag(UPPER[:-1], 1)
    x = np.linalg.solve(matrix, RIGHT)
    adjoint = np.linalg.solve(matrix.T, 3 * x**2)
    by_matrix = -np.outer(adjoint, x)
    by_lower = np.concatenate([[0.0], np.diag(by_matrix, -1)])
    by_upper = np.concatenate([np.diag(by_matrix, 1), [0.0]])
    return [x, by_lower, np.diag(by_matrix), by_upper, adjoint]
