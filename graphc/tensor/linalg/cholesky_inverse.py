"""Inverses of positive definite matrices, given their Cholesky factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir import Check, Op, TensorType
from graphc.tensor.arrays.triangle import tril
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import matmul
from graphc.tensor.linalg.mirror import adjoint, check_floats, lapack, length_checks, square


@dataclass(frozen=True, slots=True)
class CholeskyInverse(Op):
    """The inverses of ``L @ L^H`` for lower triangles L; the other triangle is not read.

    The diagonals are real, as those of Cholesky factors are. It takes a third of the work of two
    systems with the identity: a triangle's inverse has zeros in half of its places, and the
    product is symmetric.
    """

    by_numpy = True
    name = "cholesky_inverse"

    def infer(self, x: TensorType) -> TensorType:
        check_floats(self.name, x)
        return square(self.name, x)

    def checks(self, x: TensorType) -> Sequence[Check]:
        return length_checks([(0, -2), (0, -1)], [x])

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        potri = lapack("potri", x)
        y = np.empty_like(x)
        n = np.arange(x.shape[-1])
        for place in np.ndindex(x.shape[:-2] if x.size else (0,)):
            made, info = potri(x[place], lower=True)
            half = np.tril(made, -1)
            y[place] = half + half.conj().T
            y[(*place, n, n)] = np.diagonal(made).real
            if info:
                y[place] = np.nan
        return y

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """``d inv(x) = -inv(x) @ dx @ inv(x)``."""
        return (-tril(matmul(y, matmul(g + adjoint(g), matmul(y, tril(x))))),)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(self, x)
