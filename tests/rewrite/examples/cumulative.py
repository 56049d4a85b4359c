"""Examples of the rules in graphc/rewrite/rules/cumulative.py."""

from __future__ import annotations

import graphc.tensor as gt
from graphc.ir import Node
from tests.rewrite.arrays import Example, c, x

EXAMPLES: dict[str, list[Example]] = {
    "cumulative_over_length_one": [
        (gt.cumsum(c, 1), c),
        (gt.cumprod(c, 1), c),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "cumulative_over_length_one": [gt.cumsum(c, 2), gt.cumsum(x, 0)],
}
