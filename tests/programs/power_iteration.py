"""The first principal component by power iteration, its steps written out."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

random = np.random.default_rng(4)
POINTS = random.normal(size=(30, 3)) * [3.0, 1.0, 0.3]


def program() -> list[Any]:
    x = pt.matrix("x")
    centred = x - x.mean(axis=0, keepdims=True)
    covariance = centred.T.dot(centred) / (x.shape[0] - 1)
    v = pt.ones(3) / pt.sqrt(3.0)
    for _ in range(40):
        v = covariance @ v
        v = v / v.norm(2)
    v = v * pt.sgn(v[0])
    f = graphc.function([x], [v, v @ covariance @ v, pt.dot(centred, v)])
    return f(POINTS)


def expected() -> list[Any]:
    values, vectors = np.linalg.eigh(np.cov(POINTS.T))
    v = vectors[:, -1] * np.sign(vectors[0, -1])
    return [v, values[-1], (POINTS - POINTS.mean(0)) @ v]
