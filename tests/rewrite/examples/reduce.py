"""Examples of the rules in graphc/rewrite/rules/reduce.py."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.reduce import LogSumExp, Max, Prod, Sum
from graphc.tensor.shape import (
    BroadcastTo,
    ExpandDims,
    Squeeze,
)
from tests.rewrite.arrays import (
    Example,
    c,
    entries,
    half,
    make,
    repeated_scalar,
    scalar,
    small,
    w,
    wide,
    x,
)

EXAMPLES: dict[str, list[Example]] = {
    "reduction_over_no_axes": [(make(Sum(()), x), x), (make(Max(()), x), x)],
    "reduction_over_length_one": [
        (make(Sum((0, 1)), c), make(Sum((0,)), make(Squeeze((1,)), c))),
        (make(Prod((1,)), c), make(Prod(()), make(Squeeze((1,)), c))),
    ],
    "reduction_of_same_reduction": [
        (gt.sum(gt.sum(c, 1), 1), gt.sum(c, (1, 2))),
        (gt.max(gt.max(c, 0), (0, 1)), gt.max(c)),
    ],
    "reduction_of_expand_dims": [
        (gt.sum(gt.expand_dims(x, (0, 2)), (1, 2)), make(ExpandDims((0,)), gt.sum(x, 0))),
    ],
    "reduction_of_transpose": [
        (gt.sum(x.T), gt.sum(x)),
        (gt.min(gt.transpose(c, (2, 0, 1)), 0), gt.min(c, 2)),
    ],
    "sum_of_negative": [(gt.sum(-x, 0), -gt.sum(x, 0))],
    "sum_of_broadcast": [
        (gt.sum(wide, 0), make(Sum(()), w) * 3),
        (
            gt.sum(make(BroadcastTo((2, 5, 3), (1,)), c), (1, 2)),
            gt.sum(make(Squeeze((1,)), c), 1) * 5,
        ),
        (
            make(Sum((0,)), make(BroadcastTo((300, None), ()), small, entries)),
            make(Sum(()), small) * np.int8(44),
        ),
        (
            make(Sum((0,)), make(BroadcastTo((70_000, None), ()), half, entries)),
            gt.cast(make(Sum(()), half).astype("float32") * 70_000, "float16"),
        ),
        (gt.sum(repeated_scalar), make(Sum(()), scalar) * entries.astype("float64")),
    ],
    "extreme_of_broadcast": [(gt.max(wide), make(Max((0,)), w))],
    "log_of_sum_of_exp": [
        (gt.log(gt.sum(gt.exp(x), 1)), make(LogSumExp((1,)), x)),
        (gt.log(gt.sum(gt.exp(x), 0, keepdims=True)), gt.logsumexp(x, 0, keepdims=True)),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "reduction_of_transpose": [gt.sum(c.transpose(1, 2, 0), 0)],
    "sum_of_broadcast": [gt.sum(wide, 1)],
    "extreme_of_broadcast": [gt.max(repeated_scalar), gt.max(make(BroadcastTo((0, 4), ()), w), 1)],
    "log_of_sum_of_exp": [
        gt.log(gt.sum(gt.exp(gt.zvector()))),
        gt.log(gt.sum(x)),
    ],
}
