"""Ridge regression by conjugate gradients on the normal equations, written out."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

random = np.random.default_rng(12)
FEATURES, TARGETS, PENALTY = random.normal(size=(15, 4)), random.normal(size=15), 0.7


def program() -> list[Any]:
    x, y, penalty = pt.matrix("x"), pt.vector("y"), pt.scalar("penalty")
    gram = pt.dot(x.T, x) + penalty * pt.eye(x.shape[1])
    w = pt.zeros_like(x[0])
    residual = pt.dot(x.T, y)
    direction = residual
    for _ in range(4):
        curved = gram @ direction
        size = pt.dot(residual, residual) / pt.dot(direction, curved)
        w = w + size * direction
        new = residual - size * curved
        direction = new + pt.dot(new, new) / pt.dot(residual, residual) * direction
        residual = new
    f = graphc.function([x, y, penalty], [w, pt.sqrt(pt.mean((y - x @ w) ** 2))])
    return f(FEATURES, TARGETS, PENALTY)


def expected() -> list[Any]:
    w = np.linalg.solve(FEATURES.T @ FEATURES + PENALTY * np.eye(4), FEATURES.T @ TARGETS)
    return [w, np.sqrt(np.mean((TARGETS - FEATURES @ w) ** 2))]
