"""Cases of graphc.tensor.linalg.cholesky."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from tests.contract.case import Case

MATRICES = ("float16", "float32", "float64", "complex128")


def positive(n: Any, x: Any) -> Any:
    """Far enough from singular for every dtype."""
    adjoint = n.conj(n.swapaxes(x, -1, -2))
    return x @ adjoint + 4 * n.eye(3, dtype=str(x.dtype))


FAMILIES: dict[str, dict[str, Case]] = {
    "cholesky": {
        "cholesky": Case(lambda n, x: n.linalg.cholesky(positive(n, x)), ((2, 3, 3),), MATRICES),
        "cholesky, upper": Case(
            lambda x: gt.linalg.cholesky(positive(gt, x), lower=False), ((3, 3),), MATRICES,
            lambda x: np.linalg.cholesky(positive(np, x), upper=True),
        ),
        "cholesky of the lower triangle": Case(
            lambda x: gt.linalg.cholesky(x + 9 * gt.eye(3)), ((3, 3),), ("float64",),
            lambda x: np.linalg.cholesky(x + 9 * np.eye(3)),
        ),
        "cholesky of what is not positive definite": Case(
            lambda x: gt.linalg.cholesky(gt.stack([x, -x])), ((3, 3),), ("float32", "float64"),
            lambda x: np.stack([np.linalg.cholesky(x), np.full_like(x, np.nan)]),
            values=lambda dtype: np.eye(3, dtype=dtype) + np.ones((3, 3), dtype), special=True,
        ),
        "cholesky of nothing": Case(lambda n, x: n.linalg.cholesky(x), ((2, 0, 0),), MATRICES),
    },
}  # fmt: skip
