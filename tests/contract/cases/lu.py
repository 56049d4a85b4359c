"""Cases of graphc.tensor.linalg.lu."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

import graphc.tensor as gt
from tests.contract.case import Case

MATRICES = ("float16", "float32", "float64", "complex128")


def _lu(a: Any, i: int, **options: Any) -> Any:
    return scipy.linalg.lu(a, **options)[i].astype(a.dtype if i or options else a.real.dtype)


def _case(i: int, n: int, m: int, **options: Any) -> Case:
    return Case(
        lambda a: gt.linalg.lu(a, **options)[i], ((2, n, m),), MATRICES,
        lambda a: _lu(a, i, **options),
    )  # fmt: skip


FAMILIES: dict[str, dict[str, Case]] = {
    "lu": {
        f"lu of {n} by {m}, result {i}": _case(i, n, m)
        for i in range(3)
        for n, m in ((3, 3), (2, 4), (4, 2))
    }
    | {
        "lu with L permuted": _case(0, 3, 2, permute_l=True),
        "lu with indices": Case(
            lambda a: gt.linalg.lu(a, p_indices=True)[0], ((2, 3, 3),), MATRICES,
            lambda a: scipy.linalg.lu(a, p_indices=True)[0].astype(np.int32),
        ),
        "lu_factor": Case(
            lambda a: gt.linalg.lu_factor(a)[0], ((3, 3),), MATRICES,
            lambda a: scipy.linalg.lu_factor(a)[0],
        ),
        "lu_factor, exchanges": Case(
            lambda a: gt.linalg.lu_factor(a)[1], ((2, 3, 3),), ("float64", "complex128"),
            lambda a: np.stack([scipy.linalg.lu_factor(x)[1] for x in a]).astype(np.int32),
        ),
        "lu of nothing": Case(
            lambda a: gt.linalg.lu_factor(a)[0], ((2, 0, 3),), MATRICES, lambda a: a
        ),
        "pivot_to_permutation": Case(
            lambda p: gt.linalg.pivot_to_permutation(p % 5), ((2, 5),), ("int32", "int64"),
            lambda p: np.argsort(_exchanged(p % 5), -1),
        ),
        "pivot_to_permutation, inverse": Case(
            lambda p: gt.linalg.pivot_to_permutation(p % 5, inverse=True), ((2, 5),), ("int32",),
            lambda p: _exchanged(p % 5),
        ),
    }
    | {
        f"lu_solve, trans={trans}": Case(
            lambda a, b, trans=trans: gt.linalg.lu_solve(
                gt.linalg.lu_factor(_regular(gt, a)), b, trans
            ),
            ((3, 3), (3, 2)), MATRICES,
            lambda a, b, trans=trans: scipy.linalg.lu_solve(
                scipy.linalg.lu_factor(_regular(np, a)), b, trans
            ),
        )
        for trans in (0, 1, 2)
    }
    | {
    },
}  # fmt: skip


def _regular(n: Any, a: Any) -> Any:
    return n.flip(a, -1) / 4 + 2 * n.eye(3, dtype=str(a.dtype))[::-1]


def _exchanged(p: Any) -> Any:
    order = np.tile(np.arange(p.shape[-1]), (len(p), 1))
    for row, exchanges in zip(order, p, strict=True):
        for i, j in enumerate(exchanges):
            row[i], row[j] = row[j], row[i]
    return order
