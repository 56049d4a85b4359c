"""Examples of the rules in graphc/rewrite/rules/join.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.arrays.join import Concatenate
from tests.rewrite.arrays import (
    Example,
    c,
    entries,
    make,
    n,
    repeated_scalar,
    scalar,
    w,
    x,
)

pair, three = c[:, 0, 0], c[0, 0]
known = gt.concatenate([pair, three, w])
first, second = gt.split(c, [1, 2], axis=2)

EXAMPLES: dict[str, list[Example]] = {
    "concatenate_of_one": [(make(Concatenate(0), x), x)],
    "concatenate_of_empty": [
        (gt.concatenate([w, gt.zeros((0,)), pair]), gt.concatenate([w, pair])),
        (gt.concatenate([gt.zeros((0,)), w]), make(Concatenate(0), w)),
    ],
    "concatenate_of_concatenate": [
        (
            gt.concatenate([w, gt.concatenate([pair, w]), three]),
            gt.concatenate([w, pair, w, three]),
        ),
    ],
    "concatenate_of_slices": [
        (gt.concatenate([w[:n], w[n:]]), make(Concatenate(0), w[:])),
        (gt.concatenate([w, w[:1], w[1:3], w[3:]]), gt.concatenate([w, w[:]])),
        (gt.concatenate([x[:, :-1], x[:, -1:]], 1), make(Concatenate(1), x[:, :])),
        (gt.stack([three[0], three[1]]), make(Concatenate(0), three[:2])),
    ],
    "concatenate_of_split": [(gt.concatenate([first, second], 2), c)],
    "concatenate_of_repeated_scalar": [
        (
            gt.concatenate([repeated_scalar, gt.full((3,), scalar)]),
            gt.full((entries + 3,), scalar),
        ),
    ],
    "index_of_concatenate": [
        (known[3], three[1]),
        (known[6:], w[1:]),
        (known[:2], pair[:]),
        (known[1:4], gt.concatenate([pair[1:], three[:2]])),
        (gt.concatenate([w, pair])[-1], pair[-1]),
        (gt.stack([scalar, w[0], w[1]])[1], gt.expand_dims(w[0], 0)[0]),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "concatenate_of_empty": [gt.concatenate([x, gt.zeros((0, 4))])],
    "concatenate_of_slices": [
        gt.concatenate([w[n:], w[:n]]),
        gt.concatenate([w[2:n], w[n:]]),
        gt.concatenate([w[:3], w[1:]]),
        gt.concatenate([w[2:], w[1:]]),
        gt.concatenate([w[3:1], w[1:]]),
        gt.stack([w[0], w[1]]),
    ],
    "concatenate_of_split": [
        gt.concatenate([second, first], 2),
        gt.concatenate(gt.split(w, [1, 3])),
    ],
    "concatenate_of_repeated_scalar": [gt.concatenate([repeated_scalar, gt.zeros((3,))])],
    "index_of_concatenate": [
        gt.concatenate([w, pair])[1],
        known[5:7],
        known[::2],
        known[n],
        gt.concatenate([x, x + 1])[0],
    ],
}
