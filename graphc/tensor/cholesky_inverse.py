"""The inverses of positive definite matrices whose Cholesky factors are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir import Check, Op, TensorType
from graphc.tensor.dot import matmul
from graphc.tensor.mirror import adjoint, check_floats, head_checks, square
from graphc.tensor.tensor import Tensor
from graphc.tensor.triangle import tril

__all__ = ["CholeskyInverse"]


@dataclass(frozen=True, slots=True)
class CholeskyInverse(Op):
    """The inverses of ``L @ L^H``, of lower triangles L, whose other triangle is not read.

    The diagonals are real, as those of Cholesky factors are. It takes a third of the work of two
    systems with the identity: a triangle's inverse has zeros in half of its places, and the product
    that is wanted has equal elements.
    """

    by_numpy = True

    @property
    def name(self) -> str:
        return "cholesky_inverse"

    def infer(self, x: TensorType) -> TensorType:
        check_floats(self.name, x)
        return square(self.name, x)

    def checks(self, x: TensorType) -> Sequence[Check]:
        return head_checks([(0, -2), (0, -1)], [x])

    def perform(self, x: np.ndarray[Any, Any]) -> Any:
        from scipy.linalg.lapack import get_lapack_funcs  # noqa: PLC0415

        (potri,) = get_lapack_funcs(("potri",), (x,))
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
        """An inverse moves by the inverse times the move of the matrix, times the inverse."""
        return (-tril(matmul(y, matmul(g + adjoint(g), matmul(y, tril(x))))),)

    def batch(self, size: Any, batched: Sequence[bool], x: Tensor) -> Tensor:
        return Tensor.make(self, x)
