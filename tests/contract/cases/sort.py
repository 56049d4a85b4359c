"""Cases of graphc.tensor.sort."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EMPTY, EVERY, FLOATING, REAL, Case, V, X

PLACES = np.array([3.0, 1.0, 1.0, -2.0, 3.0])


def _places(x: Any, axis: int) -> Any:
    """NumPy's, of what it can put in order: it does not know that bfloat16 has NaN."""
    return np.argsort(x.astype(np.float32) if x.dtype.kind == "V" else x, axis, stable=True)


FAMILIES: dict[str, dict[str, Case]] = {
    "sort": {
        "sort": Case(lambda n, x: n.sort(x, 1), (X,), EVERY),
        "sort of all": Case(lambda n, x: n.sort(x, None), (X,), REAL),
        "sort of nothing": Case(lambda n, x: n.sort(x, 0), (EMPTY,)),
        "sort with NaN": Case(lambda n, x: n.sort(x, 0), ((7, 4),), FLOATING, special=True),
        "argsort": Case(lambda n, x: n.argsort(x, 1, stable=True), (X,), EVERY),
        "argsort with NaN": Case(
            lambda x: gt.argsort(x, 0), ((7, 4),), FLOATING, lambda x: _places(x, 0), special=True
        ),
        "searchsorted": Case(
            lambda n, x, v: n.searchsorted(n.sort(x), v), (V, X), REAL
        ),
        "searchsorted on the right": Case(
            lambda n, x, v: n.searchsorted(x, v, "right", n.argsort(x)), (V, X), REAL
        ),
        "searchsorted with NaN": Case(
            lambda n, x, v: n.searchsorted(n.sort(x), v), ((14,), (7, 2)),
            ("float16", "float32", "float64"), special=True,
        ),
        "unique": Case(
            lambda x: x[gt.unique(PLACES, return_inverse=True)[1]], (V,), EVERY,
            lambda x: x[np.unique(PLACES, return_inverse=True)[1]],
        ),
        "unique of a size": Case(
            lambda x: gt.unique(x, size=5), (V,), FLOATING, np.unique
        ),
        "top_k": Case(
            lambda x: gt.top_k(x, 2)[0], (X,), REAL, lambda x: np.sort(x)[..., ::-1][..., :2]
        ),
        "partition": Case(lambda n, x: n.partition(x, 1)[:, :, 1], (X,)),
    },
}  # fmt: skip
