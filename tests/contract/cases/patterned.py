"""Cases of graphc.tensor.linalg.patterned."""

from __future__ import annotations

import numpy as np
import scipy.linalg

import graphc.tensor as gt
from tests.contract.case import Case

SIGNED = ("int8", "float32", "complex128")

FAMILIES: dict[str, dict[str, Case]] = {
    "patterned": {
        "block_diag": Case(
            gt.linalg.block_diag, ((2, 3), (3, 1), (1, 2)), SIGNED, scipy.linalg.block_diag
        ),
        "block_diag of matrices and vectors": Case(
            gt.linalg.block_diag, ((2, 2), (3,), ()), SIGNED, scipy.linalg.block_diag
        ),
        "block_diag of batches": Case(
            gt.linalg.block_diag, ((2, 2, 3), (1, 2)), SIGNED,
            lambda a, b: np.stack([scipy.linalg.block_diag(x, b) for x in a]),
        ),
        "block_diag of nothing": Case(
            gt.linalg.block_diag, ((2, 0), (1, 2)), SIGNED, scipy.linalg.block_diag
        ),
        "toeplitz": Case(gt.linalg.toeplitz, ((4,), (3,)), SIGNED, scipy.linalg.toeplitz),
        "toeplitz of a column": Case(gt.linalg.toeplitz, ((4,),), SIGNED, scipy.linalg.toeplitz),
        "toeplitz of batches": Case(
            gt.linalg.toeplitz, ((2, 4), (2, 3)), ("float64",),
            lambda c, r: np.stack([scipy.linalg.toeplitz(*x) for x in zip(c, r, strict=True)]),
        ),
        "hankel": Case(gt.linalg.hankel, ((4,), (3,)), SIGNED, scipy.linalg.hankel),
        "hankel of a column": Case(gt.linalg.hankel, ((4,),), SIGNED, scipy.linalg.hankel),
        "circulant": Case(gt.linalg.circulant, ((4,),), SIGNED, scipy.linalg.circulant),
        "companion": Case(
            lambda a: gt.linalg.companion(a + 5), ((4,),), ("float32", "float64", "complex128"),
            lambda a: scipy.linalg.companion(a + 5),
        ),
        "leslie": Case(
            gt.linalg.leslie, ((4,), (3,)), ("float32", "float64"), scipy.linalg.leslie
        ),
        "fiedler": Case(gt.linalg.fiedler, ((4,),), ("int8", "float64"), scipy.linalg.fiedler),
        "hilbert": Case(
            lambda x: gt.linalg.hilbert(x.shape[0]) * x, ((4, 4),), ("float64",),
            lambda x: scipy.linalg.hilbert(4) * x,
        ),
    },
}  # fmt: skip
