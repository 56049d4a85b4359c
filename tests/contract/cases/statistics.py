"""Cases of graphc.tensor.statistics.statistics, and of the statistics of order and of counts."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, FLOATING, REAL, Case, V, X

WIDE = ("float64", "complex128")

FAMILIES: dict[str, dict[str, Case]] = {
    "statistics": {
        "mean where": Case(
            lambda n, x: n.mean(x, 1, where=np.array([[True], [False], [True]])), (X,), WIDE
        ),
        "average": Case(
            lambda n, x, w: n.average(x, 1, w * w), (X, (3,)), ("float32", "float64")
        ),
        "ptp": Case(lambda n, x: n.ptp(x, 1), (X,), ("int8", "float32", "float64")),
        "cov": Case(lambda n, x: n.cov(x), ((3, 5),), ("int8", *WIDE)),
        "cov of weighted": Case(
            lambda n, x, w: n.cov(x, aweights=w * w), ((3, 5), V), ("float64",)
        ),
        "corrcoef": Case(lambda n, x: n.corrcoef(x), ((3, 5),), WIDE),
        "median": Case(
            lambda x: gt.median(x, (0, 2)), (X,), ("int8", *FLOATING),
            lambda x: np.asarray(np.median(x, (0, 2))),
        ),
        "quantile": Case(
            lambda n, x: n.quantile(x, [0.3, 0.65], axis=1), (X,), ("int8", "float64")
        ),
        "percentile": Case(
            lambda n, x: n.percentile(x, 40, axis=(0, 2), method="hazen"), (X,), ("float64",)
        ),
        "nansum": Case(lambda n, x: n.nansum(x, 0), ((7, 4),), FLOATING, special=True),
        "nanmax": Case(lambda n, x: n.nanmax(x, 0), ((7, 4),), FLOATING, special=True),
        "nan_to_num": Case(
            lambda x: gt.nan_to_num(x, 7.0), ((7, 4),), ("float32", "float64"),
            lambda x: np.nan_to_num(x, nan=7.0), special=True,
        ),
        "bincount": Case(
            lambda x: gt.bincount(x, length=7), (V,), ("int8", "uint8", "int64"),
            lambda x: np.bincount(x, minlength=7),
        ),
        "histogram": Case(
            lambda n, x: n.histogram(x, [-2, 0.5, 1, 3])[0], (X,), ("int8", "float32", "float64")
        ),
        "interp": Case(
            lambda n, x, y: n.interp(x, np.array([-1.7, -0.4, 0.9, 1.1, 1.8]), y), (X, V),
            ("float64",),
        ),
    },
    "initial": {
        "sum": Case(
            lambda n, x: n.sum(x, 1, initial=1, where=np.arange(4) % 2 == 0), (X,), EVERY
        ),
        "prod": Case(
            lambda n, x: n.prod(x, 1, initial=2, where=np.arange(4) % 2 == 0), (X,), EVERY
        ),
        "max": Case(
            lambda n, x: n.max(x, 1, initial=1, where=np.arange(4) % 2 == 0), (X,), REAL
        ),
        "min": Case(
            lambda n, x: n.min(x, 1, initial=1, where=np.arange(4) % 2 == 0), (X,), REAL
        ),
        "max of nothing": Case(lambda n, x: n.max(x, 0, initial=1), ((0, 3),), REAL),
        "min of nothing": Case(lambda n, x: n.min(x, 0, initial=1), ((0, 3),), REAL),
    },
}  # fmt: skip
