"""Examples of the rules in graphc/rewrite/rules/specify.py."""

from __future__ import annotations

from graphc.ir import Node
from graphc.tensor.core.specify import SpecifyShape
from tests.rewrite.arrays import Example, c, make, n, x

EXAMPLES: dict[str, list[Example]] = {
    "shape_specified_that_is_known": [
        (make(SpecifyShape((2, -1, 3)), c), c),
        (make(SpecifyShape((None, -1)), x, x.shape[0]), x),
    ],
}

LEFT_ALONE: dict[str, list[Node]] = {
    "shape_specified_that_is_known": [
        make(SpecifyShape((3, -1)), x),
        make(SpecifyShape((-1, None)), x, x.shape[0]),
        make(SpecifyShape((None, 1, 3)), c, n - 1),
    ],
}
