"""Cases of graphc.tensor.linalg.triangular."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import graphc.tensor as gt
from tests.contract.case import Case

MATRICES = ("float16", "float32", "float64", "complex128")


def _triangle(a: Any, trans: int, lower: bool, unit: bool) -> Any:
    a = np.tril(a) if lower else np.triu(a)
    if unit:
        n = np.arange(a.shape[-1])
        a[..., n, n] = 1
    return [a, np.swapaxes(a, -1, -2), np.conj(np.swapaxes(a, -1, -2))][trans]


def _case(trans: int, lower: bool, unit: bool) -> Case:
    def build(a: Any, b: Any) -> Any:
        a = a / 2 + 2 * gt.eye(3, dtype=a.dtype)
        return gt.linalg.solve_triangular(a, b, trans=trans, lower=lower, unit_diagonal=unit)

    def expected(a: Any, b: Any) -> Any:
        a = a / 2 + 2 * np.eye(3, dtype=a.dtype)
        return np.linalg.solve(_triangle(a, trans, lower, unit), b)

    return Case(build, ((2, 3, 3), (2, 3, 2)), MATRICES, expected)


FAMILIES: dict[str, dict[str, Case]] = {
    "solve_triangular": {
        f"solve_triangular, trans={trans}, lower={lower}, unit_diagonal={unit}": _case(
            trans, lower, unit
        )
        for trans, lower, unit in itertools.product((0, 1, 2), (True, False), (True, False))
    }
    | {
        "solve_triangular of vectors": Case(
            lambda a, b: gt.linalg.solve_triangular(a + 3 * gt.eye(3), b, b_ndim=1),
            ((3, 3), (4, 3)), ("float64",),
            lambda a, b: np.linalg.solve(np.triu(a + 3 * np.eye(3)), b.T).T,
        ),
        "solve_triangular of nothing": Case(
            gt.linalg.solve_triangular, ((0, 0), (0, 2)), MATRICES,
            lambda a, b: np.empty((0, 2), b.dtype),
        ),
    },
}  # fmt: skip
