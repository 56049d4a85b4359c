"""Examples of the rules in graphc/rewrite/rules/broadcast.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.arrays.broadcast import BroadcastTo
from graphc.tensor.core.shape import Length
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
    w,
    wide,
    x,
)

column = gt.expand_dims(w, 1)
tall = make(BroadcastTo((None, 3), (1,)), column, entries)

EXAMPLES: dict[str, list[Example]] = {
    "broadcast_to_own_shape": [
        (make(BroadcastTo((2, 1, 3), ()), c), c),
        (make(BroadcastTo((None, None), ()), x, rows, columns), x),
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
    "broadcast_to_of_new_axes_in_front": [
        (
            gt.broadcast_to(gt.expand_dims(w, (0, 1)), (2, 3, entries)),
            gt.broadcast_to(w, (2, 3, entries)),
        ),
        (
            gt.broadcast_to(gt.expand_dims(w, (0, 2)), (2, entries, 3)),
            gt.broadcast_to(column, (2, entries, 3)),
        ),
    ],
    "transpose_of_broadcast_to": [(wide.T, gt.broadcast_to(gt.expand_dims(w, 0).T, (entries, 3)))],
    "expand_dims_of_broadcast_to": [
        (
            gt.expand_dims(wide, 1),
            gt.broadcast_to(gt.expand_dims(gt.expand_dims(w, 0), 1), (3, 1, entries)),
        ),
    ],
    "squeeze_of_broadcast_to": [
        (
            gt.squeeze(gt.broadcast_to(c, (5, 2, 1, 3)), 2),
            gt.broadcast_to(gt.squeeze(gt.expand_dims(c, 0), 2), (5, 2, 3)),
        ),
    ],
    "operand_broadcast_by_operation": [
        (repeated_scalar + w, scalar + w),
        (gt.constant([1.5, 1.5, 1.5]) * c, 1.5 * c),
        (x - gt.expand_dims(scalar, (0, 1)), x - scalar),
        (wide * gt.zeros((3, entries)), 0.0 * wide),
        (
            gt.full((entries + entries,), scalar) * gt.concatenate([w, w]),
            scalar * gt.concatenate([w, w]),
        ),
    ],
    "function_of_broadcast": [
        (gt.exp(wide), make(BroadcastTo((3, None), ()), gt.exp(w), entries)),
        (wide * scalar, make(BroadcastTo((3, None), ()), w * scalar, entries)),
        (wide.astype("float32"), make(BroadcastTo((3, None), ()), w.astype("float32"), entries)),
    ],
    "index_of_broadcast_to": [
        (
            gt.broadcast_to(w, (rows, columns))[:, 1:],
            gt.broadcast_to(
                gt.specify_shape(w, (columns,))[1:],
                (rows, make(Length(0), w[1:])),
            ),
        ),
        (wide[1], gt.broadcast_to(w[:], (entries,))),
        (repeated_scalar[::-1], repeated_scalar),
        (wide[1:, 2], gt.broadcast_to(w[2], (2,))),
        (tall[1:], gt.broadcast_to(column[1:], (make(Length(0), w[1:]), 3))),
        (tall[:, 1], gt.broadcast_to(column[:, 0], (entries,))),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "broadcast_to_own_shape": [
        make(BroadcastTo((None,), ()), w, n),
        gt.broadcast_to(w.reshape((-1, entries)), (1, entries)),
    ],
    "broadcast_to_of_broadcast_to": [
        gt.broadcast_to(gt.broadcast_to(w, (rows, n)), (rows, 4)),
        gt.broadcast_to(gt.broadcast_to(w, (1,)), (5,)),
    ],
    "operand_broadcast_by_operation": [
        gt.broadcast_to(w, (2, 1)) + c[:, 0],
        gt.broadcast_to(w, (rows, columns)) / gt.expand_dims(gt.sum(x, 1), 1),
        gt.broadcast_to(scalar, make(Length(0), w[::2])) + w,
        gt.broadcast_to(scalar, n) + w,
        scalar + gt.zeros((3,)),
        gt.constant([1.0, 2.0, 3.0]) * c,
    ],
    "function_of_broadcast": [wide + w, wide * gt.broadcast_to(w, (rows, entries))],
    "index_of_broadcast_to": [
        repeated_scalar[0],
        repeated_scalar[1:],
        wide[n],
        wide[[0, 1]],
    ],
}
