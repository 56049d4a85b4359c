"""Rules of constants."""

from __future__ import annotations

import math

import numpy as np

from graphc.ir import TINY, Constant, Node, Op, TensorType
from graphc.rewrite.rule import rewrite
from graphc.tensor.core.tensor import Tensor


@rewrite("canonicalize", Op, only=Constant)
def constants_folded(node: Node, op: Op) -> Node | None:
    """A small result of constants alone is a constant."""
    if isinstance(op, Constant) or not op.folds:
        return None
    wanted = node.type
    if not (isinstance(wanted, TensorType) and wanted.is_static):
        return None
    if math.prod(n for n in wanted.shape if n is not None) >= TINY:
        return None
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(op.perform(*[x.op.perform() for x in node.inputs]))
    except Exception:
        return None  # it fails again when the program runs, and says so there
    folded = Tensor.make(Constant.of(value))
    return folded if folded.type is wanted else None
