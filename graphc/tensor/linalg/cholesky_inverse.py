"""Inverses of positive definite matrices, given their Cholesky factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir import TensorType
from graphc.tensor.arrays.triangle import tril
from graphc.tensor.core.tensor import Tensor
from graphc.tensor.linalg.dot import matmul
from graphc.tensor.linalg.mirror import MatrixOp, adjoint, check_floats, lapack, square


@dataclass(frozen=True, slots=True)
class CholeskyInverse(MatrixOp):
    """The inverses of ``L @ L^H`` for lower triangles L; the other triangle is not read.

    The diagonals of Cholesky factors are real. The inverse takes a third of the work of two systems
    with the identity: half of a triangle's inverse is zero, and the product is symmetric.
    """

    by_numpy = True
    name = "cholesky_inverse"
    core_padding = "identity"

    def infer(self, x: TensorType) -> TensorType:
        check_floats(self.name, x)
        return square(self.name, x)

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        potri = lapack("potri", x)
        y = np.empty_like(x)
        n = np.arange(x.shape[-1])
        for index in np.ndindex(x.shape[:-2] if x.size else (0,)):
            inverse, info = potri(x[index], lower=True)
            half = np.tril(inverse, -1)
            y[index] = half + half.conj().T
            y[(*index, n, n)] = np.diagonal(inverse).real
            if info:
                y[index] = np.nan
        return y

    def pullback(self, g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
        """``d inv(x) = -inv(x) @ dx @ inv(x)``."""
        return (-tril(matmul(y, matmul(g + adjoint(g), matmul(y, tril(x))))),)
