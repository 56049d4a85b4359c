"""Examples of the rules in graphc/rewrite/rules/reduce.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.arrays.reduce import LogSumExp, Max, Prod, Sum
from graphc.tensor.core.axes import ExpandDims, Squeeze
from tests.rewrite.arrays import (
    Example,
    c,
    columns,
    entries,
    half,
    make,
    n,
    repeated_scalar,
    scalar,
    small,
    truth,
    w,
    wide,
    x,
)

pair, three = c[:, 0, 0], c[0, 0]
grid, counts = gt.matrix("grid", dtype="int16"), gt.vector("counts", dtype="int16")
column = gt.expand_dims(counts[:2], 1)
positive, above = w > 0, x > 0
(places,) = gt.nonzero(positive)
columns_of = x.T

VALUES: dict[Node, Any] = {
    grid: np.array([[1, -300, 7], [2, 9000, -5]], np.int16),
    counts: np.array([-3, 500, 11], np.int16),
}

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
        (gt.sum(c.transpose(1, 2, 0), 0), gt.sum(c, 1).T),
    ],
    "reduction_of_reversed": [
        (gt.sum(x[::-1, ::-1], 0), gt.sum(x[:, ::-1], 0)),
    ],
    "reduction_of_reshape": [
        (gt.sum(x.reshape(-1)), gt.sum(x)),
        (gt.max(c.reshape(3, 2)), gt.max(c)),
    ],
    "reduction_of_concatenate": [
        (gt.sum(gt.concatenate([w, pair])), gt.sum(w) + gt.sum(pair)),
        (gt.max(gt.concatenate([pair, three])), gt.maximum(gt.max(pair), gt.max(three))),
        (gt.any(gt.concatenate([truth, w > 0])), gt.logical_or(gt.any(truth), gt.any(w > 0))),
    ],
    "sum_of_scaled": [
        (gt.sum(3 * x, 1), 3 * gt.sum(x, 1)),
        (make(Sum((1,)), grid * column), make(Sum((1,)), grid) * gt.squeeze(column, 1)),
        (make(Sum((0,)), grid * counts), make(Sum((0,)), grid) * counts),
    ],
    "sum_of_quotients": [(gt.sum(x / 0.5, 0), gt.sum(x, 0) / 0.5)],
    "product_of_negatives": [
        (gt.prod(-c, 2), -gt.prod(c, 2)),
        (gt.prod(-c), gt.prod(c)),
    ],
    "truth_of_negations": [
        (gt.all(gt.logical_not(truth)), gt.logical_not(gt.any(truth))),
        (gt.any(gt.logical_not(truth)), gt.logical_not(gt.all(truth))),
    ],
    "sum_of_eye": [
        (gt.sum(gt.eye(12, 20, 1)), gt.constant(12.0)),
        (gt.sum(gt.eye(12, 20, -9)), gt.constant(3.0)),
        (gt.sum(gt.eye(12, 13, 15)), gt.constant(0.0)),
        (gt.sum(gt.eye(entries)), gt.cast(entries, "float64")),
    ],
    "product_of_broadcast": [
        (gt.prod(wide, 0), make(Prod(()), w) ** gt.constant(3.0)),
        (
            gt.prod(make(BroadcastTo((300,), ()), three[0].astype("float32"))),
            (
                make(Prod(()), three[0].astype("float32")).astype("float64") ** gt.constant(300.0)
            ).astype("float32"),
        ),
    ],
    "arg_extreme_of_moved_axes": [
        (gt.argmax(x.T, 0), gt.argmax(x, 1)),
        (gt.argmin(c.transpose(2, 1, 0), 1), gt.argmin(c, 1).T),
        (gt.argmax(gt.expand_dims(x, (0, 2)), 1), gt.expand_dims(gt.argmax(x, 0), (0, 1))),
    ],
    "arg_extreme_of_one": [(gt.argmax(c, 1), gt.zeros((2, 3), "int64"))],
    "arg_extreme_of_negative": [(gt.argmax(-x, 1), gt.argmin(x, 1))],
    "arg_extreme_of_increasing": [
        (gt.argmax(gt.exp(x), 1), gt.argmax(x, 1)),
        (gt.argmin(gt.softmax(x, 1), 1), gt.argmin(x, 1)),
    ],
    "reduction_of_masked": [
        (gt.sum(w[places]), gt.sum(gt.where(positive, w, 0.0))),
        (
            gt.sum(gt.square(w[places] - scalar)),
            gt.sum(gt.where(positive, gt.square(w - scalar), 0.0)),
        ),
        (gt.prod(w[places]), gt.prod(gt.where(positive, w, 1.0))),
        (gt.logsumexp(w[places]), gt.logsumexp(gt.where(positive, w, -np.inf))),
        (
            gt.sum(columns_of[gt.nonzero(gt.specify_shape(positive, (columns,)))], 0),
            gt.sum(gt.where(gt.expand_dims(positive, 1), columns_of, 0.0), 0),
        ),
        (gt.sum(x[gt.nonzero(above)]), gt.sum(gt.where(above, x, 0.0), (0, 1))),
    ],
    "log_sum_exp_over_length_one": [
        (gt.logsumexp(c, 1), gt.squeeze(c, 1)),
        (gt.logsumexp(c, (1, 2)), gt.logsumexp(gt.squeeze(c, 1), 1)),
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
    "reduction_of_reversed": [gt.sum(x[::-1], 1), gt.sum(x[::2])],
    "reduction_of_reshape": [gt.sum(x.reshape(2, -1)), gt.sum(c.reshape(3, 2), 0)],
    "reduction_of_concatenate": [
        gt.sum(gt.concatenate([x, x]), 1),
        gt.max(gt.concatenate([w, pair])),
        gt.sum(gt.concatenate([half, half])),
        gt.sum(gt.concatenate([x, x.T])),
    ],
    "sum_of_scaled": [
        gt.sum(0.5 * x),
        gt.sum(scalar * x),
        gt.sum(x * np.inf),
        gt.sum(counts * grid, 1),
        gt.sum(w * w),
    ],
    "sum_of_quotients": [gt.sum(x / 2), gt.sum(2 / x), gt.sum(x / scalar)],
    "product_of_negatives": [gt.prod(-w), gt.prod(c)],
    "sum_of_eye": [gt.sum(gt.eye(entries, k=1)), gt.sum(gt.eye(3), 0), gt.sum(gt.eye(n))],
    "arg_extreme_of_negative": [gt.argmax(-small)],
    "arg_extreme_of_increasing": [
        gt.argmax(gt.softmax(x, 1), 0),
        gt.argmax(gt.cos(x), 1),
        gt.argmax(gt.real(gt.matrix(dtype="complex128")), 1),
    ],
    "reduction_of_masked": [
        gt.max(w[places]),
        gt.sum(columns_of[gt.nonzero(gt.specify_shape(positive, (columns,)))], 1),
        gt.sum(columns_of[places], 0),
        gt.sum(w[places] * w[gt.nonzero(w > 1)[0]]),
        gt.sum(gt.cumsum(w[places])),
    ],
    "log_sum_exp_over_length_one": [gt.logsumexp(c, 2)],
    "sum_of_broadcast": [gt.sum(wide, 1), gt.sum(gt.full((n,), scalar))],
    "product_of_broadcast": [gt.prod(gt.full((n,), scalar)), gt.prod(gt.full((3,), n > 1))],
    "extreme_of_broadcast": [gt.max(repeated_scalar), gt.max(make(BroadcastTo((0, 4), ()), w), 1)],
    "log_of_sum_of_exp": [
        gt.log(gt.sum(gt.exp(gt.zvector()))),
        gt.log(gt.sum(x)),
    ],
}
