"""Reading, declaring and changing shapes."""

from __future__ import annotations

from typing import Any

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application, length, lengths
from graphc.tensor.core.tensor import Tensor


def shape(at: Application, x: Tensor) -> Tensor:
    return x.shape


def shape_i(at: Application, x: Tensor) -> Tensor:
    return x.shape[at.op.i]


def specify_shape(at: Application, x: Tensor, *shape: Any) -> Tensor:
    return gt.specify_shape(x, [None if n is None else length(n) for n in shape])


def reshape(at: Application, x: Tensor, new: Tensor) -> Tensor:
    return gt.reshape(x, lengths(new), ndim=at.op.ndim)


def join_dims(at: Application, x: Tensor) -> Tensor:
    return gt.join_dims(x, at.op.start_axis, at.op.n_axes)


def split_dims(at: Application, x: Tensor, new: Tensor) -> Tensor:
    return gt.split_dims(x, lengths(new), at.op.axis)
