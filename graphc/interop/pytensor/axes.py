"""Axes: ``DimShuffle``."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.interop.pytensor.application import Application
from graphc.ir import Constant
from graphc.tensor.core.tensor import Tensor, constant


def dim_shuffle(at: Application, x: Tensor) -> Tensor:
    """Reorder axes, insert axes of length 1, and drop axes of length 1."""
    order = at.op.new_order
    if isinstance(x.op, Constant) and x.op.value.size == 1:
        return constant(x.op.value.reshape((1,) * len(order)))
    dropped = [i for i in range(x.ndim) if i not in order]
    return gt.dimshuffle(gt.specify_broadcastable(x, *dropped) if dropped else x, order)
