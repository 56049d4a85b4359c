"""Examples of the rules in graphc/rewrite/rules/index.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from graphc.tensor.index import HOLE, Index, Range
from graphc.tensor.shape import (
    Shape,
)
from tests.rewrite.arrays import (
    Example,
    columns,
    make,
    n,
    two,
    x,
)

EXAMPLES: dict[str, list[Example]] = {
    "index_of_everything": [(make(Index((Range(), Range())), x), x)],
    "index_by_new_axes": [
        (make(Index((None, Range(), None, Range())), x), gt.expand_dims(x, (0, 2))),
    ],
    "length_by_index": [(make(Index((-1,)), make(Shape(), x)), columns)],
    "index_made_static": [
        (make(Index((HOLE, Range(HOLE, HOLE))), x, two, gt.constant(1), n - 1), x[2, 1 : n - 1]),
        (make(Index((HOLE, HOLE)), x, gt.constant([0, 1]), two), x[[0, 1], 2]),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "index_by_new_axes": [x[None, 1:], x[:, :]],
    "index_made_static": [x[[0, 1], n]],
}
