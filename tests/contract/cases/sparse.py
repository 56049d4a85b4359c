"""Cases of graphc.tensor.linalg.sparse."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node, picks
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.sparse.operations import (
    LogDetCurvature,
    LogDetSlope,
    SparseRoot,
    SparseSlogDet,
    SparseSolve,
)
from tests.contract.case import Case

N = 4
ROWS = np.array([0, 1, 2, 3, 1, 3, 0, 2, 4])
COLUMNS = np.array([0, 1, 2, 3, 0, 1, 1, 3, 4])
"""The first six are a lower triangle, the next two are above it, and the last is nowhere."""

DOMINANT = 9.0 * (ROWS == COLUMNS)
FLOATS = ("float32", "float64")


def _inputs(data: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The values, far enough from singular, and their places."""
    return data + DOMINANT.astype(data.dtype), gt.constant(ROWS), gt.constant(COLUMNS)


def _whole(data: Any, triangle: str | None) -> Any:
    """The matrices by NumPy."""
    data = data + DOMINANT.astype(data.dtype)
    a = np.zeros((*data.shape[:-1], N + 1, N + 1), data.dtype)
    a[..., ROWS, COLUMNS] = data
    a = a[..., :N, :N]
    if triangle is None:
        return a
    half = np.tril(a, -1) if triangle == "lower" else np.triu(a, 1)
    return half + np.swapaxes(half, -1, -2) + a * np.eye(N, dtype=data.dtype)


def _slope(data: Any, triangle: str | None) -> Any:
    z = np.swapaxes(np.linalg.inv(_whole(data, triangle)), -1, -2)
    return _weights(triangle).astype(data.dtype) * z[..., ROWS % N, COLUMNS % N]


def _curvature(data: Any, v: Any, triangle: str | None) -> Any:
    z = np.linalg.inv(_whole(data, triangle))
    moved = _whole(v - DOMINANT.astype(v.dtype), triangle)
    found = -np.swapaxes(z @ moved @ z, -1, -2)[..., ROWS % N, COLUMNS % N]
    return _weights(triangle).astype(data.dtype) * found


def _weights(triangle: str | None) -> Any:
    if triangle is None:
        return 1.0 * (ROWS < N)
    below = COLUMNS < ROWS if triangle == "lower" else ROWS < COLUMNS
    return np.where(ROWS < N, 2.0 * below + (ROWS == COLUMNS), 0.0)


def _cases(triangle: str | None) -> dict[str, Case]:
    stored, b = (2, len(ROWS)), (2, N, 3)
    return {
        f"{name}, triangle={triangle}": case
        for name, case in {
            "slogdet": Case(
                lambda x: picks(Node.make(SparseSlogDet(N, triangle), *_inputs(x)))[1],
                (stored,), FLOATS, lambda x: np.linalg.slogdet(_whole(x, triangle))[1],
            ),
            "slope": Case(
                lambda x: Tensor.make(LogDetSlope(N, triangle), *_inputs(x)),
                (stored,), FLOATS, lambda x: _slope(x, triangle),
            ),
            "curvature": Case(
                lambda v: Tensor.make(
                    LogDetCurvature(N, triangle), *_inputs(gt.ones(stored, dtype=v.dtype)), v
                ),
                (stored,), FLOATS, lambda v: _curvature(np.ones(stored, v.dtype), v, triangle),
            ),
            "solve": Case(
                lambda x, b: Tensor.make(SparseSolve(N, triangle, False), *_inputs(x), b),
                (stored, b), FLOATS, lambda x, b: np.linalg.solve(_whole(x, triangle), b),
            ),
        }.items()
    }  # fmt: skip


def _covariance(z: Any, transposed: bool) -> Tensor:
    """The root times its transpose, whatever the order of its columns is."""
    inputs = _inputs(gt.ones((len(ROWS),), dtype=z.dtype))
    first = Tensor.make(SparseRoot(N, "lower", True), *inputs, z)
    second = Tensor.make(SparseRoot(N, "lower", False), *inputs, first)
    return first.mT @ first if transposed else second


FAMILIES: dict[str, dict[str, Case]] = {
    "sparse": _cases("lower")
    | _cases("upper")
    | _cases(None)
    | {
        "root": Case(
            lambda z: _covariance(z, False), ((N, 3),), FLOATS,
            lambda z: np.linalg.solve(_whole(np.ones(len(ROWS), z.dtype), "lower"), z),
        ),
        "root, transposed": Case(
            lambda z: _covariance(z, True), ((N, 3),), FLOATS,
            lambda z: z.T @ np.linalg.solve(_whole(np.ones(len(ROWS), z.dtype), "lower"), z),
        ),
    },
}  # fmt: skip
