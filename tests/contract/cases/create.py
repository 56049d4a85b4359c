"""Cases of graphc.tensor.arrays.create."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, NUMERIC, Case, X

FAMILIES: dict[str, dict[str, Case]] = {
    "create": {
        "arange": Case(
            lambda x: gt.arange(x.shape[0], x.size, x.shape[1]), (X,), ("float64",),
            lambda x: np.arange(2, 24, 3),
        ),
        "arange of floats": Case(
            lambda x: gt.arange(gt.cast(x.shape[0], "float64"), 7.5, 0.5), (X,), ("float64",),
            lambda x: np.arange(2, 7.5, 0.5),
        ),
        "arange down": Case(
            lambda x: gt.arange(x.shape[2], -3, -2), (X,), ("float64",),
            lambda x: np.arange(4, -3, -2),
        ),
        "arange of numbers": Case(
            lambda x: x[0, 0, 0] + gt.arange(3, 30, 4, dtype=x.dtype), (X,), ("int8", "float32"),
            lambda x: x[0, 0, 0] + np.arange(3, 30, 4, x.dtype),
        ),
        "eye": Case(
            lambda x: gt.eye(x.shape[0], x.shape[1], 1, dtype=x.dtype), (X,), EVERY,
            lambda x: np.eye(2, 3, 1, dtype=x.dtype),
        ),
        "eye of numbers": Case(
            lambda x: x[0, 0, 0] + gt.eye(3, k=-1, dtype=x.dtype), (X,), NUMERIC,
            lambda x: x[0, 0, 0] + np.eye(3, k=-1, dtype=x.dtype),
        ),
        "zeros": Case(
            lambda x: gt.zeros((x.shape[1], 2), dtype=x.dtype), (X,), EVERY,
            lambda x: np.zeros((3, 2), x.dtype),
        ),
        "full_like": Case(lambda n, x: n.full_like(x, 3), (X,), NUMERIC),
    },
}  # fmt: skip
