"""Indices of elements, and elements chosen by them."""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, constant_integer, lengths
from graphc.tensor.core.tensor import Tensor


def nonzero(at: Application, x: Tensor) -> Any:
    return gt.nonzero(x)


def unravel_index(at: Application, indices: Tensor, dims: Tensor) -> Any:
    return gt.unravel_index(indices, lengths(dims), order=at.op.order)


def ravel_multi_index(at: Application, *operands: Tensor) -> Tensor:
    *indices, dims = operands
    return gt.ravel_multi_index(tuple(indices), lengths(dims), mode=at.op.mode, order=at.op.order)


def permute_row_elements(at: Application, x: Tensor, y: Tensor, *rest: Tensor) -> Tensor:
    inverse = bool(constant_integer(rest[0], "inverse")) if rest else at.op.inverse
    return gt.permute_row_elements(x, y, inverse=inverse)


def choose(at: Application, a: Tensor, choices: Any) -> Tensor:
    return gt.choose(a, choices, mode=at.op.mode)
