"""Cases of inverses and gradients, of graphc.tensor.linalg.cholesky."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.cholesky import CholeskyGradient, CholeskyInverse
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


def gradient(x: Any, g: Any, n: int) -> Any:
    return Tensor.make(CholeskyGradient(), gt.tril(regular(x, n, gt)), g)


def expected_gradient(x: Any, g: Any) -> Any:
    """The derivative of the Frobenius product of g and the factor, direction by direction."""
    n = x.shape[-1]
    low = np.tril(regular(x, n, np))
    inverse = np.linalg.inv(low) if n else low
    y = np.zeros_like(g)
    for i, j in zip(*np.tril_indices(n), strict=True):
        for unit in (1, 1j)[: 1 + (np.iscomplexobj(x) and i != j)]:
            change = np.zeros((n, n), x.dtype)
            change[i, j] += unit
            change[j, i] += np.conj(unit) * (i != j)
            inner = np.tril(inverse @ change @ np.conj(np.swapaxes(inverse, -1, -2)))
            inner = inner - np.eye(n) * inner / 2
            y[..., i, j] += unit * np.real(np.conj(g) * (low @ inner)).sum((-2, -1))
    return y


FAMILIES: dict[str, dict[str, Case]] = {
    "cholesky_inverse": {
        f"cholesky_inverse of {shape}": Case(
            lambda x, n=shape[-1]: made(x, n), (shape,), DTYPES,
            lambda x, n=shape[-1]: expected(x, n),
        )
        for shape in [(3, 3), (2, 3, 3), (1, 1), (2, 0, 0), (0, 2, 2)]
    },
    "cholesky_gradient": {
        f"cholesky_gradient of {shape}": Case(
            lambda x, g, n=shape[-1]: gradient(x, g, n), (shape, shape), DTYPES,
            expected_gradient, differentiated=False,
        )
        for shape in [(3, 3), (2, 3, 3), (1, 1), (2, 0, 0), (0, 2, 2)]
    },
}  # fmt: skip
