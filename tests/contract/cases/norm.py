"""Cases of graphc.tensor.linalg.norm."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import Case, X

FLOATS = ("float32", "complex128")
INF = np.inf

FAMILIES: dict[str, dict[str, Case]] = {
    "norm": {
        "of all": Case(gt.vector_norm, (X,), FLOATS, np.linalg.vector_norm),
        "vector_norm": Case(
            lambda x: gt.vector_norm(x, axis=(0, 2), ord=3), (X,), FLOATS,
            lambda x: np.linalg.vector_norm(x, axis=(0, 2), ord=3),
        ),
        "matrix_norm": Case(gt.matrix_norm, (X,), FLOATS, np.linalg.matrix_norm),
    } | {
        f"of vectors, {p}": Case(
            lambda x, p=p: gt.norm(x, p, axis=1), (X,), FLOATS,
            lambda x, p=p: np.linalg.norm(x, p, axis=1),
        )
        for p in (None, 0, 0.5, 1, 2, 3, -1, INF, -INF)
    } | {
        f"of matrices, {p}": Case(
            lambda x, p=p: gt.norm(x, p, axis=(2, 0), keepdims=True), (X,), FLOATS,
            lambda x, p=p: np.linalg.norm(x, p, axis=(2, 0), keepdims=True),
        )
        for p in ("fro", 1, -1, INF, -INF, 2, -2, "nuc")
    },
}  # fmt: skip
