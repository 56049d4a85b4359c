"""Rules of constants."""

from __future__ import annotations

import math

import numpy as np

from graphc.ir import TINY, Constant, Node, Op, TensorType
from graphc.rewrite.rule import rewrite
from graphc.tensor.core.tensor import Tensor


@rewrite("canonicalize", Op, only=Constant)
def constants_folded(node: Node, op: Op) -> Node | None:
    """``exp(0)`` is 1: a small result of constants alone is a constant."""
    if isinstance(op, Constant) or not op.folds:
        return None
    result_type = node.type
    if not (isinstance(result_type, TensorType) and result_type.is_static):
        return None
    if math.prod(n for n in result_type.shape if n is not None) >= TINY:
        return None
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(op.perform(*[x.op.perform() for x in node.inputs]))
    except Exception:
        return None  # the error is raised when the program runs
    folded = Tensor.make(Constant.of(value))
    return folded if folded.type is result_type else None
