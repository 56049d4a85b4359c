"""Cases of graphc.tensor.arrays.sort."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import numpy_dtype
from tests.contract.case import EMPTY, EVERY, FLOATING, REAL, Case, V, X


def _ordered(x: Any) -> Any:
    """What NumPy can put in order: it does not know that bfloat16 has NaN."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


def _apart(dtype: str) -> Any:
    """Distinct numbers, far enough apart for differences."""
    return (np.arange(24) * 7 % 24).reshape(2, 3, 4).astype(numpy_dtype(dtype))


FAMILIES: dict[str, dict[str, Case]] = {
    "sort": {
        "sort": Case(lambda n, x: n.sort(x, 1), (X,), EVERY),
        "sort of all": Case(lambda n, x: n.sort(x, None), (X,), EVERY, values=_apart),
        "sort of nothing": Case(lambda n, x: n.sort(x, 0), (EMPTY,)),
        "sort with NaN": Case(lambda n, x: n.sort(x, 0), ((7, 4),), FLOATING, special=True),
        "argsort": Case(lambda n, x: n.argsort(x, 1, stable=True), (X,), EVERY),
        "argsort with NaN": Case(
            lambda x: gt.argsort(x, 0), ((7, 4),), FLOATING,
            lambda x: np.argsort(_ordered(x), 0, stable=True), special=True,
        ),
        "searchsorted": Case(
            lambda n, x, v: n.searchsorted(n.sort(x), v), (V, X), REAL
        ),
        "searchsorted on the right": Case(
            lambda n, x, v: n.searchsorted(x, v, "right", n.argsort(x)), (V, X), REAL
        ),
        "searchsorted with NaN": Case(
            lambda x, v: gt.searchsorted(gt.sort(x), v), ((14,), (7, 2)), FLOATING,
            lambda x, v: np.searchsorted(np.sort(_ordered(x)), _ordered(v)), special=True,
        ),
        "top_k": Case(
            lambda x: gt.top_k(x, 2)[0], (X,), REAL, lambda x: np.sort(x)[..., ::-1][..., :2]
        ),
        "partition": Case(lambda n, x: n.partition(x, 1)[:, :, 1], (X,)),
    },
}  # fmt: skip
