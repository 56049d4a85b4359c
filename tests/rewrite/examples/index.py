"""Examples of the rules in graphc/rewrite/rules/index.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.arrays.index import HOLE, Index, IndexUpdate, Range
from graphc.tensor.core.axes import Squeeze
from graphc.tensor.core.shape import Length
from tests.rewrite.arrays import (
    Example,
    c,
    entries,
    make,
    n,
    scalar,
    truth,
    two,
    w,
    x,
)

every = Range()
none = gt.zeros((entries,))
whole = gt.vector("whole", dtype="int16")
empty = gt.zeros(whole.shape, dtype="int16")
number = gt.scalar("number", dtype="int16")
long = gt.tensor("long", dtype="int8", shape=(300,))
three = c[0, 0]
changed = w[1].set(scalar)
positive = w > 0
(places,) = gt.nonzero(positive)


def inc(x: Node, entries: tuple, value: Node, *symbolic: Node) -> Node:
    return make(IndexUpdate(entries, True), x, value, *symbolic)


def put(part: Any, value: Any) -> Any:
    """Return the update of a part by a value whose lengths are not specified first."""
    x, *symbolic = part.inputs
    return make(IndexUpdate(part.op.entries, False), x, gt.as_tensor(value), *symbolic)


VALUES: dict[Node, Any] = {
    whole: np.array([5, -30000, 12], np.int16),
    number: np.int16(-700),
    long: np.arange(300).astype(np.int8),
}

EXAMPLES: dict[str, list[Example]] = {
    "index_of_everything": [(make(Index((Range(), Range())), x), x)],
    "index_by_new_axes": [
        (make(Index((None, every, None, every)), x), gt.expand_dims(x[:, :], (0, 2))),
        (make(Index((None, 0, Range(1), None)), x), gt.expand_dims(x[0, 1:], (0, 2))),
    ],
    "index_made_static": [
        (make(Index((HOLE, Range(HOLE, HOLE))), x, two, gt.constant(1), n - 1), x[2, 1 : n - 1]),
        (make(Index((HOLE, HOLE)), x, gt.constant([0, 1]), two), x[[0, 1], 2]),
    ],
    "index_in_one_form": [
        (w[0:3:1], w[:3]),
        (w[-1::-1], w[::-1]),
        (w[2:1], w[0:0]),
        (c[:, :, -1], c[:, :, 2]),
        (c[:, :, 1:9], c[:, :, 1:]),
        (w[1:entries], w[1:]),
        (w[0:n], w[:n]),
        (w[0:2].set(scalar), w[:2].set(scalar)),
    ],
    "index_by_consecutive_places": [
        (c[:, :, [1, 2]], c[:, :, 1:]),
        (c[:, :, [2, 1, 0]], c[:, :, ::-1]),
        (c[:, :, [-2]], c[:, :, 1:2]),
        (w[gt.arange(1, entries)], w[1:]),
        (long[gt.constant(np.array([-2, -1], np.int8))], long[298:]),
    ],
    "index_of_index": [
        (w[1:][1:3], w[2:4]),
        (w[::-1][::-1], w[:]),
        (w[::-1][1], w[-2]),
        (x[1:, 2][0], x[1, 2]),
        (x[n - 1][1], x[n - 1, 1]),
        (x[:, 1:][n - 1], x[n - 1, 1:]),
        (x[1:][:, [0, 1]], x[1:, [0, 1]]),
        (w[:-1][-1], w[-2]),
    ],
    "places_in_constant": [
        (gt.nonzero(gt.constant([True, False, True]))[0], gt.constant([0, 2])),
    ],
    "index_of_update": [
        (w[1].set(scalar)[1], scalar),
        (w[1].set(scalar)[2], w[2]),
        (w[1].inc(scalar)[1], w[1] + scalar),
        (w[:2].set(scalar)[2:], w[2:]),
        (x[n - 1].set(x[0])[n - 1], x[0]),
        (w[0].set(scalar)[1].set(3.0)[2].set(4.0)[0], scalar),
        (w[:n].set(scalar)[n:], w[n:]),
    ],
    "update_of_everything": [
        (w[:].set(scalar), gt.full((entries,), scalar)),
        (w[:].inc(scalar), w + scalar),
        (put(w[::-1], w * 2), gt.broadcast_to((w * 2)[::-1], (entries,))),
        (inc(w, (Range(None, None, -1),), w), w + w[::-1]),
        (x[:].inc(x), x + x),
        (c[::-1, :, ::-1].inc(c[:1]), c + c[:1][:, :, ::-1]),
    ],
    "update_with_new_axes": [
        (
            w[None].inc(w[None] * 2),
            make(IndexUpdate((Range(),), True), w, make(Squeeze((0,)), w[None] * 2)),
        ),
        (w[:2, None].set(scalar), make(IndexUpdate((Range(None, 2),), False), w, scalar)),
        (
            x[1, None, :].set(w[None]),
            make(IndexUpdate((1, Range()), False), x, make(Squeeze((0,)), w[None])),
        ),
    ],
    "update_by_nothing": [
        (w[1].inc(0), w),
        (put(w[:n], w[:n]), w),
        (x[[0, 0]].set(x[[0, 0]]), x),
    ],
    "update_by_broadcast": [
        (put(w[:2], gt.full((gt.shape(w[:2])[0],), scalar)), w[:2].set(scalar)),
    ],
    "update_after_update": [
        (w[1].set(scalar)[1].set(2.0), w[1].set(2.0)),
        (whole[1].inc(number)[1].inc(whole[0]), whole[1].inc(number + whole[0])),
        (w[1].set(scalar)[1].inc(2.0), w[1].set(scalar + 2.0)),
        (
            whole[[0, 0]].inc(number)[[0, 0]].inc(whole[1]),
            whole[[0, 0]].inc(number + whole[1]),
        ),
        (w[[0, 0]].inc(scalar)[[0, 0]].set(2.0), w[[0, 0]].set(2.0)),
    ],
    "addition_to_zeros": [
        (none[1].inc(scalar), none[1].set(scalar)),
        (none[1].set(scalar)[2:].inc(2.0), none[1].set(scalar)[2:].set(2.0)),
    ],
    "function_of_part_among_zeros": [
        (-(none[1].set(scalar)), (-none)[1].set(-scalar)),
        (3 * none[1].set(scalar), (3 * none)[1].set(3 * scalar)),
        (0.3 * none[[0, 0]].inc(scalar), (0.3 * none)[[0, 0]].inc(0.3 * scalar)),
        (
            none[1].set(scalar).astype("float32"),
            none.astype("float32")[1].set(scalar.astype("float32")),
        ),
    ],
    "sum_with_part_among_zeros": [
        (w + none[1].set(scalar), w[1].inc(scalar)),
        (gt.exp(w) + none[2:].inc(scalar), gt.exp(w)[2:].inc(scalar)),
        (whole + empty[[0, 0]].inc(number), whole[[0, 0]].inc(number)),
    ],
    "update_of_all_parts": [
        (
            put(none[:n], w[:n])[n:].set(2.0),
            gt.concatenate([w[:n], gt.full((make(Length(0), w[n:]),), 2.0)]),
        ),
        (
            three[1].set(scalar)[0].set(w[0])[2].set(w[1]),
            gt.stack([w[0], scalar, w[1]]),
        ),
        (put(put(w[2:], w[2:])[:2], w[:2] * 2), gt.concatenate([w[:2] * 2, w[2:]])),
    ],
    "update_by_mask": [
        (inc(none, (HOLE,), w[places] * 2, places), gt.where(positive, none + w * 2, none)),
        (
            make(IndexUpdate((HOLE,), False), w, gt.exp(w[places]), places),
            gt.where(positive, gt.exp(w), w),
        ),
        (
            inc(w, (HOLE,), gt.full((gt.sum(positive),), scalar), places),
            gt.where(positive, w + scalar, w),
        ),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "index_by_new_axes": [x[1:], x[:, :], x[[0, 1], None]],
    "index_made_static": [x[[0, 1], n]],
    "index_in_one_form": [w[1:], w[-1], w[n:], w[:n]],
    "index_by_consecutive_places": [
        w[[0, 1]],
        c[:, :, [0, 2, 1]],
        c[:, :, [1, 1]],
        w[gt.arange(n, entries)],
        x[0, [0, 1]],
    ],
    "index_of_index": [
        w[:2][n],
        w[1:][-1],
        w[-2:][0],
        w[:-1][:2],
        w[[0, 1]][0],
        x[0][[0, 1]],
    ],
    "index_of_update": [
        w[1].set(scalar)[-1],
        w[n].set(scalar)[1],
        w[[0, 0]].inc(scalar)[[0, 0]],
        w[1:].set(w[:n])[1:],
        x[n - 1].set(w)[n - 1],
        changed[:2],
    ],
    "update_of_everything": [w[:].set(x[0]), truth[:].inc(truth)],
    "update_by_nothing": [w[1].set(w[2]), w[1].set(0), w[::2].inc(gt.zeros((entries,)))],
    "update_by_broadcast": [
        w[:2].set(gt.full((n - 1,), scalar)),
        w[:2].set(gt.broadcast_to(w, (1,))),
    ],
    "update_after_update": [
        w[1].set(scalar)[2].set(2.0),
        w[[0, 0]].set(scalar)[[0, 0]].inc(2.0),
        w[1:].set(w[:n])[1:].set(2.0),
        w[1].inc(scalar)[1].inc(w[0]),
        w[[0, 0]].inc(scalar)[[0, 0]].inc(2.0),
    ],
    "addition_to_zeros": [none[[0, 0]].inc(scalar), none[1].set(scalar)[:2].inc(2.0), w[1].inc(1)],
    "function_of_part_among_zeros": [
        -changed,
        scalar * none[1].set(2.0),
        none[1].set(1.0) * w,
        3 * none[[0, 0]].inc(scalar),
    ],
    "sum_with_part_among_zeros": [
        w + changed,
        x + none[1].set(scalar),
        gt.exp(w) + none[[0, 0]].inc(scalar),
    ],
    "update_of_all_parts": [
        none[:2].set(1.0)[3:].set(2.0),
        none[:2].set(1.0)[1:3].set(2.0)[2:].set(3.0),
        w[0].set(1.0)[1:].set(2.0),
        none[:2].set(1.0)[2:].inc(2.0),
    ],
    "update_by_mask": [
        inc(w, (HOLE,), w[:n], places),
        make(IndexUpdate((HOLE,), False), w, w[w < 0], places),
        w[[0, 1]].set(2.0),
    ],
}
