"""Cases of graphc.tensor.linalg.banded."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from tests.contract.case import Case

MATRICES = ("float32", "float64", "complex128")


def _whole(lower: int, upper: int, bands: Any) -> Any:
    """The matrices of these diagonals."""
    n = bands.shape[-1]
    a = np.zeros((*bands.shape[:-2], n, n), bands.dtype)
    for i in range(n):
        for j in range(max(i - lower, 0), min(i + upper + 1, n)):
            a[..., i, j] = bands[..., upper + i - j, j]
    return a


def _hermitian(bands: Any, lower: bool) -> Any:
    k = bands.shape[-2] - 1
    half = _whole(k, 0, bands) if lower else _whole(0, k, bands)
    own = np.tril(half, -1) if lower else np.triu(half, 1)
    return own + np.conj(np.swapaxes(own, -1, -2)) + np.real(half - own)


def _banded(lower: int, upper: int, n: int) -> Case:
    main = 9 * np.eye(lower + upper + 1)[:, [upper]]
    return Case(
        lambda ab, b: gt.linalg.solve_banded((lower, upper), ab + main.astype(ab.dtype), b),
        ((2, lower + upper + 1, n), (2, n, 2)), MATRICES,
        lambda ab, b: np.linalg.solve(_whole(lower, upper, ab + main.astype(ab.dtype)), b),
    )  # fmt: skip


def _definite(k: int, n: int, lower: bool) -> Case:
    main = 9 * np.eye(k + 1)[:, [0 if lower else k]]
    return Case(
        lambda ab, b: gt.linalg.solveh_banded(ab + main.astype(ab.dtype), b, lower=lower),
        ((2, k + 1, n), (2, n, 2)), MATRICES,
        lambda ab, b: np.linalg.solve(_hermitian(ab + main.astype(ab.dtype), lower), b),
        static=True,
    )  # fmt: skip


FAMILIES: dict[str, dict[str, Case]] = {
    "banded": {
        f"solve_banded {lower}, {upper} of {n}": _banded(lower, upper, n)
        for lower, upper, n in ((1, 1, 4), (2, 0, 3), (0, 1, 4), (1, 2, 5), (2, 2, 2), (1, 1, 1))
    }
    | {
        f"solveh_banded {k} of {n}, lower={lower}": _definite(k, n, lower)
        for k, n in ((1, 4), (2, 5), (2, 2), (0, 3))
        for lower in (True, False)
    }
    | {
        "solveh_banded of what is not definite": Case(
            lambda ab, b: gt.linalg.solveh_banded(ab - 9, b, lower=True), ((1, 3), (3, 2)),
            ("float64",), lambda ab, b: np.full_like(b, np.nan), static=True, special=True,
        ),
        "solve_banded with a vector": Case(
            lambda ab, b: gt.linalg.solve_banded((1, 0), ab + 5, b), ((2, 4), (4,)),
            ("float64",), lambda ab, b: np.linalg.solve(_whole(1, 0, ab + 5), b),
        ),
        "solve_banded of nothing": Case(
            lambda ab, b: gt.linalg.solve_banded((1, 0), ab, b), ((2, 0), (0, 3)),
            ("float64",), lambda ab, b: b,
        ),
    },
}  # fmt: skip
