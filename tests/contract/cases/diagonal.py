"""Cases of graphc.tensor.arrays.diagonal."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from tests.contract.case import EVERY, NUMERIC, SOME, Case, V, X

FAMILIES: dict[str, dict[str, Case]] = {
    "diagonal": {
        "diagonal": Case(lambda n, x: n.diagonal(x, 1, 2, 0), (X,), EVERY),
        "diagonal below": Case(lambda n, x: n.diagonal(x, -1), ((4, 3),)),
        "diagonal outside": Case(lambda n, x: n.diagonal(x, 9), ((4, 3),)),
        "trace": Case(lambda n, x: n.trace(x, 0, 1, 2), (X,), NUMERIC),
        "diag of a vector": Case(lambda n, x: n.diag(x, -2), (V,), EVERY),
        "diag of a matrix": Case(lambda n, x: n.diag(x, 1), ((3, 5),)),
        "alloc_diag": Case(
            lambda x: gt.alloc_diag(x, 1, 0, 1), ((2, 3),), SOME,
            lambda x: np.moveaxis([np.diag(row, 1) for row in x], 0, -1),
        ),
        "fill_diagonal": Case(
            lambda x: gt.fill_diagonal(x, x[0, 1]), ((3, 4),), SOME,
            lambda x: np.where(np.eye(3, 4) > 0, x[0, 1], x),
        ),
        "fill_diagonal with a vector": Case(
            gt.fill_diagonal, ((3, 4), (3,)), SOME,
            lambda x, y: np.where(np.eye(3, 4) > 0, y[:, None], x),
        ),
        "fill_diagonal_offset": Case(
            lambda x, y: gt.fill_diagonal_offset(x, 1, y.shape[0] - 3), ((3, 4), (2,)), SOME,
            lambda x, y: np.where(np.eye(3, 4, -1) > 0, np.ones((), x.dtype), x),
        ),
    },
}  # fmt: skip
