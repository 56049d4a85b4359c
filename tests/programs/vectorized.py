"""A function of one vector made one of a batch: vectorize and vectorize_graph."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

random = np.random.default_rng(9)
BATCH, MATRIX = random.normal(size=(5, 3)), random.normal(size=(3, 3))


def program() -> list[Any]:
    x, a = pt.vector("x"), pt.matrix("a")
    y = x @ a @ x + pt.log1p(pt.sum(x**2))
    slope = graphc.grad(y, x)
    many = pt.matrix("many")
    values, slopes = graphc.vectorize_graph([y, slope], replace={x: many})
    scaled = pt.vectorize(lambda v: v / pt.sqrt((v**2).sum()), signature="(n)->(n)")(many)
    return graphc.function([many, a], [values, slopes, scaled])(BATCH, MATRIX)


def expected() -> list[Any]:
    y = [x @ MATRIX @ x + np.log(1 + x @ x) for x in BATCH]
    slopes = [(MATRIX + MATRIX.T) @ x + 2 * x / (1 + x @ x) for x in BATCH]
    return [np.array(y), np.array(slopes), np.array([x / np.linalg.norm(x) for x in BATCH])]
