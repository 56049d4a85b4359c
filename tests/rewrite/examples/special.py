"""Examples of the rules in graphc/rewrite/rules/special.py."""

from __future__ import annotations

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from graphc.rewrite.rules.special import _peak
from graphc.tensor.arrays.reduce import LogSumExp
from graphc.tensor.special.special import LogSoftmax, Softmax
from tests.rewrite.arrays import Example, make, w, x

shares = make(Softmax((1,)), x)
e = gt.exp(x)
total = gt.sum(e, 1, keepdims=True)


def shifted(weights: Node) -> Node:
    """Where there is a weight, x less the largest that has one."""
    peak = gt.expand_dims(_peak(weights, x, (1,)), 1)
    return gt.where(gt.equal(weights, 0), -np.inf, x - peak)


EXAMPLES: dict[str, list[Example]] = {
    "log_of_softmax": [(gt.log(shares), make(LogSoftmax((1,)), x))],
    "log_of_part": [
        (gt.log(shares[:, 2]), gt.log(shares)[:, 2]),
        (gt.log(e[1]), gt.log(e)[1]),
    ],
    "less_logsumexp": [
        (x - gt.expand_dims(make(LogSumExp((1,)), x), 1), make(LogSoftmax((1,)), x)),
        (x - make(LogSumExp((0, 1)), x), make(LogSoftmax((0, 1)), x)),
    ],
    "log_of_weighted_sum_of_exp": [
        (
            gt.log(gt.sum(w * e, 1)),
            gt.log(gt.sum(w * gt.exp(shifted(w)), 1)) + _peak(w, x, (1,)),
        ),
    ],
    "sum_of_shares": [
        (gt.sum(w * (shares / total), 1), gt.sum(w * shares, 1) / gt.sum(e, 1)),
        (gt.sum(w / gt.sum(e)), gt.sum(w) / gt.sum(e)),
    ],
    "exp_of_log_softmax": [(gt.exp(gt.log_softmax(x, 0)), make(Softmax((0,)), x))],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "log_of_part": [gt.log(x[1])],
    "less_logsumexp": [
        x - make(LogSumExp((1,)), x[:, :3])[0],
        x - gt.expand_dims(make(LogSumExp((0,)), x), 1)[:, 0],
        w - make(LogSumExp((0, 1)), x),
    ],
    "log_of_weighted_sum_of_exp": [gt.log(gt.sum(w * x, 1)), gt.log(gt.sum(e, 1))],
    "sum_of_shares": [
        gt.sum(w / total, 0),
        gt.sum(shares / gt.expand_dims(gt.sum(x, 1), 1), 1),
        gt.sum(x / gt.sum(gt.exp(gt.stack([x, x])), 0), 0),
    ],
}
