"""Cases of graphc.tensor.linalg.least_squares."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.tensor import linalg
from tests.contract.case import Case

FLOATS = ("float32", "float64", "complex128")
TALL, WIDE = (2, 4, 3), (3, 4)
LOW = ((4, 2), (2, 3))
"""Their product has rank 2."""


def _solution(shapes: tuple[tuple[int, ...], ...], item: int) -> Case:
    return Case(
        lambda a, b: linalg.lstsq(a, b)[item], shapes, FLOATS,
        lambda a, b: np.linalg.lstsq(a, b, rcond=None)[item],
    )  # fmt: skip


def _of_low_rank(a: Any, b: Any) -> Any:
    return linalg.lstsq(a @ b, gt.arange(8.0).reshape((4, 2)).astype(a.dtype), rcond=1e-4)[0]


def _of_low_ranks(a: Any, b: Any) -> Any:
    right = np.arange(8.0).reshape((4, 2)).astype(a.dtype)
    return np.linalg.lstsq(a @ b, right, rcond=1e-4)[0]


FAMILIES: dict[str, dict[str, Case]] = {
    "least squares": {
        "pinv of tall": Case(linalg.pinv, (TALL,), FLOATS, np.linalg.pinv),
        "pinv of wide": Case(linalg.pinv, (WIDE,), FLOATS, np.linalg.pinv),
        "pinv of low rank": Case(
            lambda a, b: linalg.pinv(a @ b, rtol=1e-4), LOW, FLOATS,
            lambda a, b: np.linalg.pinv(a @ b, 1e-4),
        ),
        "pinv of Hermitian": Case(
            lambda x: linalg.pinv(x, hermitian=True), ((2, 3, 3),), FLOATS,
            lambda x: np.linalg.pinv(x, hermitian=True),
        ),
        "pinv of nothing": Case(linalg.pinv, ((3, 0),), FLOATS, np.linalg.pinv),
        "lstsq of tall": _solution(((4, 3), (4, 2)), 0),
        "lstsq of wide": _solution(((3, 4), (3, 2)), 0),
        "lstsq of a vector": _solution(((4, 3), (4,)), 0),
        "lstsq of low rank": Case(_of_low_rank, LOW, FLOATS, _of_low_ranks),
        "what is left": _solution(((4, 3), (4, 2)), 1),
        "nothing is left": _solution(((3, 4), (3, 2)), 1),
        "singular values": _solution(((4, 3), (4, 2)), 3),
        "matrix_rank": Case(
            lambda x: linalg.matrix_rank(x * 0 + 1), (TALL,), FLOATS, lambda x: np.ones(2, int)
        ),
        "matrix_rank of Hermitian": Case(
            lambda x: linalg.matrix_rank(x, hermitian=True), ((2, 3, 3),), FLOATS,
            lambda x: np.linalg.matrix_rank(x, hermitian=True),
        ),
        "matrix_rank with a limit": Case(
            lambda x: linalg.matrix_rank(x, 1.5), (TALL,), FLOATS,
            lambda x: np.linalg.matrix_rank(x, 1.5),
        ),
    } | {
        f"cond, {p}": Case(
            lambda x, p=p: linalg.cond(x + 4 * gt.eye(3, dtype=x.dtype), p), ((2, 3, 3),), FLOATS,
            lambda x, p=p: np.linalg.cond(x + 4 * np.eye(3, dtype=x.dtype), p),
        )
        for p in (None, -2, "fro", "nuc", 1, np.inf)
    },
}  # fmt: skip
