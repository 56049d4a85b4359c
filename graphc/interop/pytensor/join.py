"""Joining, splitting and repeating arrays; the axis is a parameter or an operand."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, constant_integer, length, lengths
from graphc.interop.pytensor.elementwise import in_dtype
from graphc.tensor.core.tensor import Tensor


def join(at: Application, *xs: Tensor) -> Tensor:
    if hasattr(at.op, "axis"):
        axis = at.op.axis
    else:
        axis, xs = constant_integer(xs[0], "the axis"), xs[1:]
    return gt.concatenate([in_dtype(x, at.dtype) for x in xs], axis)


def split(at: Application, x: Tensor, *rest: Tensor) -> list[Tensor]:
    axis = at.op.axis if hasattr(at.op, "axis") else constant_integer(rest[0], "the axis")
    return gt.split(x, lengths(rest[-1]), n_splits=at.op.len_splits, axis=axis)


def repeat(at: Application, x: Tensor, repeats: Tensor) -> Tensor:
    return gt.repeat(x, repeats if repeats.ndim else length(repeats), at.op.axis)
