"""Cases of graphc.tensor.linalg.expm."""

from __future__ import annotations

import numpy as np
import scipy.linalg

import graphc.tensor as gt
from tests.contract.case import Case

FAMILIES: dict[str, dict[str, Case]] = {
    "expm": {
        "expm": Case(
            lambda a: gt.linalg.expm(a / 2), ((2, 3, 3),),
            ("float16", "float32", "float64", "complex128"), lambda a: scipy.linalg.expm(a / 2),
        ),
        "expm of large": Case(
            lambda a: gt.linalg.expm(20 * (a - gt.swapaxes(a, -1, -2))), ((2, 3, 3),),
            ("float64",), lambda a: scipy.linalg.expm(20 * (a - np.swapaxes(a, -1, -2))),
            special=True, values=lambda dtype: _matrices(),
        ),
        "expm of zeros": Case(
            lambda a: gt.linalg.expm(a - a), ((2, 3, 3),), ("float64",),
            lambda a: scipy.linalg.expm(a - a),
        ),
        "expm of what is not finite": Case(
            lambda a: gt.linalg.expm(gt.stack([a / 0.0, a])), ((2, 2),), ("float32", "float64"),
            lambda a: np.stack([np.full_like(a, np.nan), scipy.linalg.expm(a)]), special=True,
            values=lambda dtype: np.eye(2, dtype=dtype),
        ),
        "expm of nothing": Case(
            gt.linalg.expm, ((2, 0, 0),), ("float64",), lambda a: a
        ),
    },
}  # fmt: skip


def _matrices() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.arange(18.0).reshape(2, 3, 3) % 7 / 7
