"""Examples of the rules in graphc/rewrite/rules/special.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.special import LogSoftmax, Softmax
from tests.rewrite.arrays import (
    Example,
    make,
    scalar,
    w,
    x,
)

shares = gt.softmax(x, 1)

EXAMPLES: dict[str, list[Example]] = {
    "log_of_softmax": [(gt.log(gt.softmax(x, 1)), make(LogSoftmax((1,)), x))],
    "softmax_times_share": [
        (shares * (x / shares), x),
        (shares * (x / shares - 2), x - shares * 2.0),
        (shares * (gt.expand_dims(w, 0) - x / shares), shares * gt.expand_dims(w, 0) - x),
        (shares * (x / shares + gt.tanh(x)), x + shares * gt.tanh(x)),
    ],
    "exp_over_sum_of_exp": [
        (gt.exp(x) / gt.sum(gt.exp(x), 1, keepdims=True), make(Softmax((1,)), x)),
        (gt.exp(x) / gt.sum(gt.exp(x)), make(Softmax((0, 1)), x)),
    ],
    "exp_times_share_of_sum": [
        (gt.exp(w) * (scalar / gt.sum(gt.exp(w))), scalar * make(Softmax((0,)), w)),
        (
            gt.exp(x) * gt.expand_dims(x[:, 0] / gt.sum(gt.exp(x), 1), 1),
            gt.expand_dims(x[:, 0], 1) * make(Softmax((1,)), x),
        ),
        (
            (x[:, :1] / gt.sum(gt.exp(x), 1, keepdims=True)) * gt.exp(x),
            x[:, :1] * make(Softmax((1,)), x),
        ),
    ],
    "exp_of_log_softmax": [(gt.exp(gt.log_softmax(x, 0)), make(Softmax((0,)), x))],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "exp_over_sum_of_exp": [
        gt.exp(x) / gt.sum(gt.exp(x), 1),
        gt.exp(x) / gt.sum(gt.exp(w)),
        gt.exp(x) / gt.sum(gt.exp(x), 0),
    ],
    "exp_times_share_of_sum": [
        gt.exp(x) * (1 / gt.sum(gt.exp(x), 1)),
        gt.exp(x) * gt.expand_dims(1 / gt.sum(gt.exp(x), 0), 1),
        gt.sin(x) * (1 / gt.sum(gt.sin(x))),
    ],
}
