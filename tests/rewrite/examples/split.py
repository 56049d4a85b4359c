"""Examples of the rules in graphc/rewrite/rules/split.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from tests.rewrite.arrays import Example, c, entries, n, w

pair = c[:, 0, 0]

EXAMPLES: dict[str, list[Example]] = {
    "split_of_concatenate": [
        (gt.split(gt.concatenate([w, pair]), [entries, 2])[0], w),
        (gt.split(gt.concatenate([w, pair]), [entries, 2])[1], pair),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "split_of_concatenate": [gt.split(gt.concatenate([w, pair]), [n, 3])[0]],
}
