"""Examples of the rules in graphc/rewrite/rules/tensor.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from tests.rewrite.arrays import (
    Example,
    x,
)

EXAMPLES: dict[str, list[Example]] = {
    "constants_folded": [
        (gt.constant([1, 2]) + gt.constant([3, 4]), gt.constant([4, 6])),
        (gt.exp(gt.constant(0.0)), gt.constant(1.0)),
        (gt.arange(3), gt.constant([0, 1, 2])),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "constants_folded": [gt.exp(x), gt.arange(11), 1 // gt.zeros((20,)), gt.shard([1], ())],
}
