"""Sorting, searching and accumulating arrays, and their distinct elements."""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, constant_integer
from graphc.interop.pytensor.elementwise import in_dtype
from graphc.tensor.core.tensor import Tensor


def _axis(at: Application, rest: Any) -> int | None:
    """Return the axis, which older versions of PyTensor give as an array."""
    if not rest:
        return at.op.axis  # type: ignore[no-any-return]
    (axis,) = rest
    return None if axis is None else constant_integer(axis, "the axis")


def sort(at: Application, x: Tensor, *rest: Any) -> Tensor:
    return gt.sort(x, _axis(at, rest))


def argsort(at: Application, x: Tensor, *rest: Any) -> Tensor:
    """Sort stably, which each of PyTensor's kinds allows."""
    return gt.argsort(x, _axis(at, rest), stable=True)


def searchsorted(at: Application, x: Tensor, v: Tensor, *sorter: Tensor) -> Tensor:
    return gt.searchsorted(x, v, at.op.side, *sorter)


def cumulative(at: Application, x: Tensor) -> Tensor:
    function = {"add": gt.cumsum, "mul": gt.cumprod}[at.op.mode]
    return function(in_dtype(x, at.dtype), at.op.axis, dtype=at.dtype)


def unique(at: Application, x: Tensor) -> Any:
    op = at.op
    return gt.unique(x, op.return_index, op.return_inverse, op.return_counts, op.axis)
