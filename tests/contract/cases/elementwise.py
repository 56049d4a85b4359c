"""Cases of graphc.tensor.core.elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import DTYPES, is_complex, is_inexact, numpy_dtype
from tests.contract.case import EMPTY, EVERY, FLOATING, REAL, Case, S, X
from tests.contract.values import awkward

NOT_COMPLEX = tuple(dtype for dtype in EVERY if not is_complex(dtype))


def _cast(dtype: str) -> Case:
    def by_numpy(x: Any) -> Any:
        return x.astype(numpy_dtype(dtype))

    taken = EVERY if is_complex(dtype) or dtype == "bool" else NOT_COMPLEX
    return Case(lambda x: gt.cast(x, dtype), ((30,),), taken, by_numpy, values=fitting)


def fitting(dtype: str) -> np.ndarray[Any, Any]:
    """Values that every dtype takes or wraps: of a float outside of its range, an integer is
    undefined."""
    if is_inexact(dtype):
        x = np.concatenate([[0.0, -0.0, 0.5, -0.5, 1.0, 127.0], np.linspace(0, 100, 24)])
        return (x * (1 - 0.25j) if is_complex(dtype) else x).astype(numpy_dtype(dtype))
    return np.resize(awkward(dtype), 30)


FAMILIES: dict[str, dict[str, Case]] = {
    "cast": {f"to {dtype}": _cast(dtype) for dtype in DTYPES},
    "choose": {
        "cast to complex": Case(
            lambda x: gt.cast(x, "complex128"), (X,), ("float64",), lambda x: x.astype(complex)
        ),
        "where": Case(lambda n, a, b: n.where(a > b, a, b), (X, X), REAL),
        "where of a vector": Case(lambda n, a, b, c: n.where(n.not_equal(c, 0), a, b), (X, X, X)),
        "where by a scalar": Case(lambda n, c, a, b: n.where(n.not_equal(c, 0), a, b), (S, X, X)),
        "where of scalars": Case(
            lambda c, b: gt.where(c > 0, 0.5, b), (X, S), ("float64",),
            lambda c, b: np.where(c > 0, 0.5, b), static=True,
        ),
        "where with 1s": Case(
            lambda n, a, b: n.where(a > 0, a, b), ((2, 1), (1, 3)), REAL, static=True
        ),
        "where of nothing": Case(lambda n, a, b: n.where(a > 0, a, b), (EMPTY, EMPTY), REAL),
        "clip": Case(lambda n, a, b: n.clip(a, -abs(b), abs(b)), (X, X), FLOATING),
    },
}  # fmt: skip
