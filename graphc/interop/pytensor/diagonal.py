"""Reading and writing diagonals."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, length
from graphc.tensor.core.tensor import Tensor


def extract_diag(at: Application, x: Tensor) -> Tensor:
    return gt.diagonal(x, at.op.offset, at.op.axis1, at.op.axis2)


def alloc_diag(at: Application, diagonal: Tensor) -> Tensor:
    return gt.alloc_diag(diagonal, at.op.offset, at.op.axis1, at.op.axis2)


def fill_diagonal(at: Application, a: Tensor, value: Tensor) -> Tensor:
    return gt.fill_diagonal(a, value)


def fill_diagonal_offset(at: Application, a: Tensor, value: Tensor, offset: Tensor) -> Tensor:
    return gt.fill_diagonal_offset(a, value, length(offset))
