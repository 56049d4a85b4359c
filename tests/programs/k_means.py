"""Steps of k-means: nearest centres, and the means of what is nearest."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
import graphc.tensor as pt

random = np.random.default_rng(5)
POINTS = np.concatenate([random.normal(size=(8, 2)), random.normal(size=(8, 2)) + 4])
CENTRES = POINTS[[0, 3, 9]]


def program() -> list[Any]:
    x = pt.dmatrix("x")
    centres = graphc.shared(CENTRES)
    distances = ((x[:, None, :] - centres[None, :, :]) ** 2).sum(axis=-1)
    nearest = pt.argmin(distances, axis=1)
    member = pt.eq(nearest[:, None], pt.arange(3)).astype("float64")
    counts = member.sum(axis=0)
    means = pt.dot(member.T, x) / pt.maximum(counts, 1)[:, None]
    new = pt.switch(counts[:, None] > 0, means, centres)
    step = graphc.function(
        [x], [nearest, counts, distances.min(axis=1).sum()], updates=[(centres, new)]
    )
    for _ in range(3):
        nearest_now, counts_now, inertia = step(POINTS)
    return [nearest_now, counts_now, inertia, centres.get_value()]


def expected() -> list[Any]:
    centres = CENTRES
    for _ in range(3):
        distances = np.linalg.norm(POINTS[:, None] - centres[None], axis=-1) ** 2
        nearest = distances.argmin(1)
        inertia = distances.min(1).sum()
        groups = [POINTS[nearest == k] for k in range(3)]
        centres = np.array(
            [g.mean(0) if len(g) else c for g, c in zip(groups, centres, strict=True)]
        )
    return [nearest, np.array([float(len(g)) for g in groups]), inertia, centres]
