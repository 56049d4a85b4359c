"""Cases of graphc.tensor.arrays.sets."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, FLOATING, REAL, Case, V, X

PLACES = np.array([3.0, 1.0, 1.0, -2.0, 3.0])

FAMILIES: dict[str, dict[str, Case]] = {
    "sets": {
        "unique": Case(
            lambda x: x[gt.unique(PLACES, return_inverse=True)[1]], (V,), EVERY,
            lambda x: x[np.unique(PLACES, return_inverse=True)[1]],
        ),
        "unique of a size": Case(
            lambda x: gt.unique(x, size=5), (V,), FLOATING, np.unique
        ),
        "isin": Case(lambda n, x, v: n.isin(x, v), (X, V), REAL),
    },
}  # fmt: skip
