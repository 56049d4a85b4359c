"""Cases of inverses, of graphc.tensor.linalg.cholesky."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.cholesky import CholeskyInverse
from tests.contract.case import Case

DTYPES = ("float32", "float64", "complex128")


def regular(x: Any, n: int, np: Any) -> Any:
    """Lower triangles that are far from singular, with real diagonals, and what is not read."""
    on = np.eye(n, dtype=str(x.dtype))
    return x / 8 * (1 - on) + on * (2 + np.real(x) / 8)


def made(x: Any, n: int) -> Any:
    return Tensor.make(CholeskyInverse(), regular(x, n, gt))


def expected(x: Any, n: int) -> Any:
    low = np.tril(regular(x, n, np))
    return np.linalg.inv(low @ np.conj(np.swapaxes(low, -1, -2)))


FAMILIES: dict[str, dict[str, Case]] = {
    "cholesky_inverse": {
        f"cholesky_inverse of {shape}": Case(
            lambda x, n=shape[-1]: made(x, n), (shape,), DTYPES,
            lambda x, n=shape[-1]: expected(x, n),
        )
        for shape in [(3, 3), (2, 3, 3), (1, 1), (2, 0, 0), (0, 2, 2)]
    },
}  # fmt: skip
