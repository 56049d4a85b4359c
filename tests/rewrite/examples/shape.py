"""Examples of the rules in graphc/rewrite/rules/shape.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.shape import (
    BroadcastTo,
    Concatenate,
    ExpandDims,
    Length,
    Reshape,
    Shape,
    Squeeze,
    Transpose,
)
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
        (make(Length(1), w + gt.exp(x)), entries),
        (make(Length(0), x @ w), rows),
        (make(Length(1), gt.transpose(gt.sum(gt.expand_dims(x, 0), 0))), rows),
        (make(Length(0), gt.concatenate([x, x], 1)), rows),
        (make(Length(0), x[:, 1:2].reshape((n, -1))), n),
        (make(Length(1), x[None, :, 0]), rows),
    ],
    "shape_from_inputs": [
        (make(Shape(), gt.exp(x)), make(Shape(), x)),
        (make(Shape(), x.T), gt.stack([columns, rows])),
        (make(Shape(), wide), gt.stack([gt.constant(3), entries])),
    ],
    "lengths_made_static": [
        (make(BroadcastTo((None, None), ()), w, two, entries), gt.broadcast_to(w, (2, entries))),
        (make(Reshape((None, -1)), x, two), make(Reshape((2, -1)), x)),
    ],
    "transpose_of_transpose": [
        (c.transpose(1, 2, 0).transpose(1, 2, 0), c.transpose(2, 0, 1)),
        (x.T.T, x),
    ],
    "transpose_to_same_order": [(make(Transpose((0, 1)), x), x)],
    "reshape_of_reshape": [
        (x.reshape(-1).reshape(2, -1), x.reshape(2, -1)),
        (c.reshape(3, 2).reshape(-1), c.reshape(-1)),
    ],
    "reshape_to_own_shape": [
        (make(Reshape((2, 1, 3)), c), c),
        (make(Reshape((None, None)), x, rows, columns), x),
    ],
    "expand_dims_of_squeeze": [(gt.expand_dims(gt.squeeze(c, 1), 1), c)],
    "expand_dims_of_expand_dims": [
        (gt.expand_dims(gt.expand_dims(x, 1), (0, 2)), gt.expand_dims(x, (0, 2, 3)))
    ],
    "squeeze_of_expand_dims": [
        (gt.squeeze(gt.expand_dims(x, (0, 2)), (0, 2)), x),
        (gt.squeeze(gt.expand_dims(x, (0, 2, 4)), (2,)), gt.expand_dims(x, (0, 3))),
        (gt.squeeze(gt.expand_dims(c, 0), (0, 2)), gt.squeeze(c, 1)),
    ],
    "no_axes_changed": [(make(Squeeze(()), x), x), (make(ExpandDims(()), x), x)],
    "concatenate_of_one": [(make(Concatenate(0), x), x)],
    "broadcast_to_own_shape": [
        (make(BroadcastTo((2, 1, 3), ()), c), c),
        (make(BroadcastTo((None, None), ()), x, rows, columns), x),
    ],
    "expand_dims_of_repeated_scalar": [
        (
            make(ExpandDims((0, 2)), repeated_scalar),
            make(BroadcastTo((1, None, 1), ()), scalar, entries),
        ),
    ],
    "broadcast_to_of_one_element": [
        (gt.broadcast_to(gt.expand_dims(scalar, (0, 1)), (rows, 3)), gt.full((rows, 3), scalar)),
        (gt.broadcast_to(gt.constant([1.0]), rows), gt.ones((rows,))),
    ],
    "broadcast_to_of_broadcast_to": [
        (
            gt.broadcast_to(gt.broadcast_to(w, (1, entries)), (2, 3, entries)),
            gt.broadcast_to(w, (2, 3, entries)),
        ),
    ],
    "operand_broadcast_by_operation": [
        (repeated_scalar + w, scalar + w),
        (gt.constant([1.5, 1.5, 1.5]) * c, 1.5 * c),
        (x - gt.expand_dims(scalar, (0, 1)), x - scalar),
        (wide * gt.zeros((3, entries)), w * gt.zeros((3, entries))),
    ],
    "function_of_broadcast": [
        (gt.exp(wide), make(BroadcastTo((3, None), ()), gt.exp(w), entries)),
        (wide * scalar, make(BroadcastTo((3, None), ()), w * scalar, entries)),
        (wide.astype("float32"), make(BroadcastTo((3, None), ()), w.astype("float32"), entries)),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "length_from_inputs": [rows, make(Length(0), x[1:]), make(Length(0), x.reshape(-1))],
    "shape_from_inputs": [make(Shape(), x)],
    "reshape_of_reshape": [x.reshape(2, 6).reshape(-1)],
    "broadcast_to_own_shape": [make(BroadcastTo((None,), ()), w, n)],
    "broadcast_to_of_broadcast_to": [gt.broadcast_to(gt.broadcast_to(w, (rows, n)), (rows, 4))],
    "operand_broadcast_by_operation": [
        gt.broadcast_to(scalar, n) + w,
        scalar + gt.zeros((3,)),
        gt.constant([1.0, 2.0, 3.0]) * c,
    ],
    "function_of_broadcast": [wide + w, wide * gt.broadcast_to(w, (rows, entries))],
}
