"""Examples of the rules in graphc/rewrite/rules/axes.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.arrays.index import HOLE, Index, Range
from graphc.tensor.core.axes import ExpandDims, Squeeze, Transpose
from tests.rewrite.arrays import Example, c, make, n, scalar, w, x

every = Range()
column = gt.expand_dims(w, 1)

EXAMPLES: dict[str, list[Example]] = {
    "transpose_of_transpose": [
        (c.transpose(1, 2, 0).transpose(1, 2, 0), c.transpose(2, 0, 1)),
        (x.T.T, x),
    ],
    "transpose_to_same_order": [(make(Transpose((0, 1)), x), x)],
    "transpose_of_expand_dims": [
        (column.T, gt.expand_dims(w, 0)),
        (gt.expand_dims(x, 1).transpose(2, 1, 0), gt.expand_dims(x.T, 1)),
    ],
    "transpose_of_single_axes": [
        (c.transpose(1, 0, 2), gt.expand_dims(gt.squeeze(c, 1), 0)),
        (c.transpose(0, 2, 1), gt.expand_dims(gt.squeeze(c, 1), 2)),
    ],
    "expand_dims_of_squeeze": [
        (gt.expand_dims(gt.squeeze(c, 1), 1), c),
        (make(ExpandDims((1, 3)), make(Squeeze((1,)), c)), gt.expand_dims(c, 3)),
    ],
    "expand_dims_of_expand_dims": [
        (gt.expand_dims(gt.expand_dims(x, 1), (0, 2)), gt.expand_dims(x, (0, 2, 3)))
    ],
    "squeeze_of_expand_dims": [
        (gt.squeeze(gt.expand_dims(x, (0, 2)), (0, 2)), x),
        (gt.squeeze(gt.expand_dims(x, (0, 2, 4)), (2,)), gt.expand_dims(x, (0, 3))),
        (gt.squeeze(gt.expand_dims(c, 0), (0, 2)), gt.squeeze(c, 1)),
        (gt.squeeze(gt.expand_dims(c, (0, 4)), (0, 2)), gt.expand_dims(gt.squeeze(c, 1), 2)),
    ],
    "squeeze_of_squeeze": [
        (gt.squeeze(gt.squeeze(c[:1], 0), 0), gt.squeeze(c[:1], (0, 1))),
    ],
    "squeeze_of_transpose": [
        (gt.squeeze(c.transpose(2, 1, 0), 1), gt.squeeze(c, 1).T),
    ],
    "no_axes_changed": [(make(Squeeze(()), x), x), (make(ExpandDims(()), x), x)],
    "index_of_single_axis": [
        (c[:, 0, 1:], gt.squeeze(c, 1)[:, 1:]),
        (c[n - 2, -1], gt.squeeze(c, 1)[n - 2]),
    ],
    "index_of_expand_dims": [
        (make(Index((1, 0)), column), make(Index((1,)), w)),
        (make(Index((Range(1), every)), column), gt.expand_dims(w[1:], 1)),
        (make(Index((HOLE, every)), column, n), gt.expand_dims(make(Index((HOLE,)), w, n), 0)),
    ],
    "index_of_transpose": [
        (x.T[1], x[:, 1]),
        (x.T[1:, :2], x[:2, 1:].T),
        (c.transpose(2, 0, 1)[:, n - 3], c[n - 3].T),
    ],
    "function_of_moved_axes": [
        (gt.exp(column), gt.expand_dims(gt.exp(w), 1)),
        (x.T * scalar, (x * scalar).T),
        (gt.exp(w[::-1]), gt.exp(w)[::-1]),
        (x.T + gt.exp(x).T, (x + gt.exp(x)).T),
        (column.astype("float32"), gt.expand_dims(w.astype("float32"), 1)),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "transpose_of_single_axes": [x.T, c.transpose(2, 1, 0)],
    "expand_dims_of_squeeze": [gt.expand_dims(gt.squeeze(x[:1], 0), 1), gt.expand_dims(x, 1)],
    "index_of_single_axis": [x[0], c[:, :, 0]],
    "index_of_expand_dims": [
        make(Index((every, HOLE)), column, n),
        make(Index((every, Range(1))), column),
    ],
    "index_of_transpose": [x.T[[0, 1], [1, 2]]],
    "function_of_moved_axes": [
        w + w[::-1],
        gt.exp(w[::2]),
        x.T + gt.ones((4, 3)).astype("float64") * w[0],
        column + w[None],
    ],
}
