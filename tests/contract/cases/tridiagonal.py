"""Cases of graphc.tensor.linalg.tridiagonal."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.tridiagonal import SolveTridiagonal
from tests.contract.case import Case
from tests.contract.values import plain

MATRICES = ("float32", "float64", "complex128")


def _banded(n: Any, a: Any) -> Any:
    size = a.shape[-1]
    return n.triu(n.tril(a, 1), -1) + 5 * n.eye(size, dtype=str(a.dtype))


FAMILIES: dict[str, dict[str, Case]] = {
    "tridiagonal": {
        f"solve of {n} by {n}, transposed={transposed}": Case(
            lambda a, b, t=transposed: gt.linalg.solve(
                a + 5 * gt.eye(a.shape[-1], dtype=a.dtype), b, assume_a="tridiagonal", transposed=t
            ),
            ((2, n, n), (2, n, 3)), MATRICES,
            lambda a, b, t=transposed: np.linalg.solve(
                np.swapaxes(_banded(np, a), -1, -2) if t else _banded(np, a), b
            ),
        )
        for n in (1, 2, 5)
        for transposed in (False, True)
    }
    | {
        "diagonals": Case(
            lambda low, d, up, b: Tensor.make(SolveTridiagonal(), low, d + 9, up, b),
            ((4,), (4,), (4,), (4, 2)), MATRICES,
            lambda low, d, up, b: np.linalg.solve(
                np.diag(low[1:], -1) + np.diag(d + 9) + np.diag(up[:-1], 1), b
            ),
        )
    }
    | {
        f"tridiagonal_lu_factor, result {i}": Case(
            lambda a, i=i: gt.linalg.tridiagonal_lu_factor(a + 9 * gt.eye(4, dtype=a.dtype))[i],
            ((2, 4, 4),), MATRICES,
            lambda a, i=i: _factors(a + 9 * np.eye(4, dtype=a.dtype))[i],
            values=lambda dtype: plain(dtype, (2, 4, 4)), special=True,
        )
        for i in range(5)
    }
    | {
        f"tridiagonal_lu_solve of {n}, transposed={t}": Case(
            lambda b, n=n, t=t: gt.linalg.tridiagonal_lu_solve(
                gt.linalg.tridiagonal_lu_factor(gt.constant(_example(n), bake=True)), b,
                b_ndim=2, transposed=t,
            ),
            ((n, 3),), ("float64",),
            lambda b, n=n, t=t: np.linalg.solve(_example(n).T if t else _example(n), b),
        )
        for n in (1, 2, 4)
        for t in (False, True)
    },
}  # fmt: skip


def _example(n: int) -> Any:
    return np.triu(np.tril(np.arange(1.0, n * n + 1).reshape(n, n) ** 2, 1), -1)


def _factors(a: Any) -> Any:
    """Of matrices whose rows need no exchange."""
    low, d, up = (np.diagonal(a, k, -2, -1).copy() for k in (-1, 0, 1))
    for i in range(d.shape[-1] - 1):
        low[..., i] /= d[..., i]
        d[..., i + 1] -= low[..., i] * up[..., i]
    n = d.shape[-1]
    order = np.broadcast_to(np.arange(1, n + 1, dtype=np.int32), d.shape)
    return low, d, up, np.zeros((*d.shape[:-1], n - 2), a.dtype), order
