"""Examples of the rules in graphc/rewrite/rules/shape.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.core.shape import Length, Reshape, Shape
from tests.rewrite.arrays import (
    Example,
    c,
    columns,
    entries,
    make,
    n,
    repeated_scalar,
    rows,
    scalar,
    two,
    w,
    wide,
    x,
)

EXAMPLES: dict[str, list[Example]] = {
    "length_from_inputs": [
        (make(Length(1), gt.exp(x) * 2), columns),
        (make(Length(1), w + gt.exp(x)), columns),
        (make(Length(0), x @ w), rows),
        (make(Length(1), gt.transpose(gt.sum(gt.expand_dims(x, 0), 0))), rows),
        (make(Length(0), gt.concatenate([x, x], 1)), rows),
        (make(Length(0), x[:, 1:2].reshape((n, -1))), n),
        (make(Length(1), x[None, :, 0]), rows),
        (make(Length(0), gt.cumsum(gt.exp(x), 1)), rows),
        (make(Length(0), gt.exp(x)[1:, 0]), make(Length(0), x[1:])),
        (make(Length(0), x.reshape(-1)), rows * columns),
        (make(Length(0), gt.concatenate([w, w * 2, c[0, 0]])), entries + entries + 3),
        (make(Length(1), gt.split(gt.exp(x), [n, columns - n], axis=1)[0]), n),
    ],
    "shape_from_inputs": [
        (make(Shape(), gt.exp(x)), gt.stack([rows, columns])),
        (make(Shape(), x.T), gt.stack([columns, rows])),
        (make(Shape(), wide), gt.stack([gt.constant(3), entries])),
    ],
    "lengths_made_static": [
        (make(BroadcastTo((None, None), ()), w, two, entries), gt.broadcast_to(w, (2, entries))),
        (make(Reshape((None, -1)), x, two), make(Reshape((2, -1)), x)),
    ],
    "reshape_of_reshape": [
        (x.reshape(-1).reshape(2, -1), x.reshape(2, -1)),
        (c.reshape(3, 2).reshape(-1), c.reshape(-1)),
        (x.reshape((columns, rows)).reshape((2, -1)), x.reshape((2, -1))),
        (x.reshape((rows, -1)).reshape((4, 3)), x.reshape((4, 3))),
    ],
    "reshape_to_own_shape": [
        (make(Reshape((2, 1, 3)), c), c),
        (make(Reshape((None, None)), x, rows, columns), x),
        (w.reshape(-1), w),
    ],
    "reshape_to_single_axes": [
        (x.reshape(1, 6, 1, -1), gt.expand_dims(x.reshape(6, -1), (0, 2))),
    ],
    "reshape_of_single_axes": [(c.reshape(3, 2), gt.squeeze(c, 1).reshape(3, 2))],
    "reshape_of_repeated_scalar": [
        (repeated_scalar.reshape(-1), repeated_scalar),
        (gt.full((2, 3), scalar).reshape(3, 2), gt.full((3, 2), scalar)),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "length_from_inputs": [rows, make(Length(0), x[1:]), make(Length(0), w[:n])],
    "reshape_of_reshape": [
        x.reshape(2, 6).reshape(-1),
        x.reshape((n, 2)).reshape((3, 4)),
        x.reshape((rows, -1)).reshape((2, -1)),
    ],
    "reshape_to_own_shape": [x.reshape((n, -1)), x.reshape((rows, -1)), x.reshape((columns, rows))],
    "reshape_of_repeated_scalar": [repeated_scalar.reshape(2, -1)],
}
